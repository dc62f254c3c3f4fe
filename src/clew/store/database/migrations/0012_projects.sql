-- Projects: one that became part of another, and the repositories and folders that each is.

-- The project that this one is part of now, because it was renamed or merged. Its sessions keep their keys.
ALTER TABLE project ADD COLUMN part_of BIGINT;

-- What a project is captured from: a repository by the address of its remote (then `machine` is empty), or a folder of a
-- machine. `id` is a hash of machine and place, and outlives an erasure; `place` is the text, and empty for a folder inside
-- a repository. `mark` is a hash of how the repository began, by which a moved one is recognised.
CREATE TABLE place (
    id {bytes} PRIMARY KEY,
    project BIGINT NOT NULL,
    machine TEXT NOT NULL,
    place TEXT NOT NULL,
    mark TEXT NOT NULL,
    is_root BIGINT NOT NULL,
    is_set BIGINT NOT NULL,
    at BIGINT NOT NULL
){clustered};
CREATE INDEX place_project ON place (project);
CREATE INDEX place_mark ON place (mark) WHERE mark <> '';
--pg ALTER TABLE place ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON place USING ({in_reach(project)});
--pg ALTER TABLE place ALTER place SET STATISTICS 0, ALTER machine SET STATISTICS 0;
