-- The working set: what each session touched. `name` is the last part of a path, in lower case.
CREATE TABLE touched (
--pg    project BIGINT NOT NULL,
    session BIGINT NOT NULL,
    type TEXT NOT NULL,
    what TEXT NOT NULL,
    name TEXT NOT NULL,
    read BIGINT NOT NULL,
    written BIGINT NOT NULL,
    read_seq BIGINT NOT NULL,
    written_seq BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    PRIMARY KEY (session, type, what)
){clustered};
CREATE INDEX touched_name ON touched (name, session);

-- The planner keeps no samples of what sessions say of themselves, so that none outlives an erasure.
--pg ALTER TABLE touched ALTER type SET STATISTICS 0, ALTER what SET STATISTICS 0, ALTER name SET STATISTICS 0;

--pg ALTER TABLE touched ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON touched USING ({in_reach(project)});

-- name: files_clear
DELETE FROM touched

-- name: files_drop
DELETE FROM touched WHERE session = :session

-- name: files_add
INSERT INTO touched (
--pg    project,
    session, type, what, name, read, written, read_seq, written_seq, last_at)
VALUES (
--pg    :project,
    :session, :type, :what, :name, :read, :written, :read_seq, :written_seq, :last_at)
ON CONFLICT (session, type, what) DO UPDATE SET read = touched.read + excluded.read,
    written = touched.written + excluded.written,
    read_seq = CASE WHEN excluded.read_seq > 0 THEN excluded.read_seq ELSE touched.read_seq END,
    written_seq = CASE WHEN excluded.written_seq > 0 THEN excluded.written_seq ELSE touched.written_seq END,
    last_at = CASE WHEN excluded.last_at > touched.last_at THEN excluded.last_at ELSE touched.last_at END

-- name: files_of
SELECT type, what, read, written, read_seq, written_seq FROM touched WHERE session = :session

-- name: files_by_name
SELECT t.session, t.type, t.what, t.read, t.written, t.read_seq, t.written_seq, t.last_at, l.id, l.title, l.runtime,
    l.project, l.person
FROM touched t JOIN listing l ON l.session = t.session
WHERE t.name = :name
--if type AND t.type = :type
--if path AND t.what = :path
--if least_written AND t.written >= :least_written
--if project AND l.project = :project
--if projects AND l.project IN ({projects})
--if me AND {reached(l.project, l.person, l.session, l.private, l.agent)}
ORDER BY t.last_at DESC, t.session DESC LIMIT :limit

-- name: files_like
-- `like` is in lower case. The caller matches the paths exactly.
SELECT t.session, t.type, t.what, t.read, t.written, t.read_seq, t.written_seq, t.last_at, l.id, l.title, l.runtime,
    l.project, l.person
FROM touched t JOIN listing l ON l.session = t.session
WHERE t.type = 'file' AND lower(t.what) LIKE :like ESCAPE '\'
--if project AND l.project = :project
--if projects AND l.project IN ({projects})
--if me AND {reached(l.project, l.person, l.session, l.private, l.agent)}
ORDER BY t.last_at DESC, t.session DESC, t.what LIMIT :limit

-- name: files_most
SELECT l.project, t.what, min(t.name), count(*), sum(t.read), sum(t.written)
FROM touched t JOIN listing l ON l.session = t.session
WHERE t.type = 'file' AND t.written >= :least_written
--if project AND l.project = :project
--if projects AND l.project IN ({projects})
--if me AND {reached(l.project, l.person, l.session, l.private, l.agent)}
GROUP BY l.project, t.what
ORDER BY count(*) DESC, sum(t.read) + sum(t.written) DESC, max(t.last_at) DESC, t.what LIMIT :limit
