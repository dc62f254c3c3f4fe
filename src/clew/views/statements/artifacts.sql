-- The artifacts: what sessions saved, by the event that saved it.
CREATE TABLE artifact (
--pg    project BIGINT NOT NULL,
    session BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    name TEXT NOT NULL,
    blob TEXT NOT NULL,
    size BIGINT NOT NULL,
    media_type TEXT NOT NULL,
    progress BIGINT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (session, seq)
){clustered};
CREATE INDEX artifact_at ON artifact (at, session);

-- The planner keeps no samples of what sessions say of themselves, so that none outlives an erasure.
--pg ALTER TABLE artifact ALTER name SET STATISTICS 0, ALTER blob SET STATISTICS 0, ALTER media_type SET STATISTICS 0;

--pg ALTER TABLE artifact ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON artifact USING ({in_reach(project)});

-- name: artifacts_clear
DELETE FROM artifact

-- name: artifacts_drop
DELETE FROM artifact WHERE session = :session

-- name: artifacts_add
INSERT INTO artifact (
--pg    project,
    session, seq, name, blob, size, media_type, progress, at)
VALUES (
--pg    :project,
    :session, :seq, :name, :blob, :size, :media_type, :progress, :at)
ON CONFLICT (session, seq) DO NOTHING

-- name: artifacts_newest
SELECT l.id, l.title, l.project, a.seq, a.name, a.blob, a.size, a.media_type, a.at, a.progress
FROM artifact a JOIN listing l ON l.session = a.session
WHERE a.at >= 0
--if session AND a.session = :session
--if name AND a.name = :name
--if project AND l.project = :project
--if projects AND l.project IN ({projects})
--if me AND {reached(l.project, l.person, l.session, l.private, l.agent)}
ORDER BY a.at DESC, a.session DESC, a.seq DESC LIMIT :limit

-- The newest version of each name in each project, and how many there are.
-- name: artifacts_by_name
SELECT id, title, project, seq, name, blob, size, media_type, at, progress, versions
FROM (
    SELECT l.id, l.title, l.project, a.session, a.seq, a.name, a.blob, a.size, a.media_type, a.at, a.progress,
        row_number() OVER (PARTITION BY l.project, a.name ORDER BY a.at DESC, a.session DESC, a.seq DESC) AS age,
        count(*) OVER (PARTITION BY l.project, a.name) AS versions
    FROM artifact a JOIN listing l ON l.session = a.session
    WHERE a.at >= 0
--if session AND a.session = :session
--if project AND l.project = :project
--if projects AND l.project IN ({projects})
--if me AND {reached(l.project, l.person, l.session, l.private, l.agent)}
) newest
WHERE age = 1
--if progress AND progress = :progress
ORDER BY at DESC, session DESC, seq DESC LIMIT :limit
