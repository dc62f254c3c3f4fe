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

-- Each file with the sums of all sessions of a project that touched it, so that nobody has to sum up all of `touched`.
-- `writers` are the sessions that wrote it, and `writers_read` how often these read it.
CREATE TABLE touched_path (
    project BIGINT NOT NULL,
    what TEXT NOT NULL,
    name TEXT NOT NULL,
    sessions BIGINT NOT NULL,
    read BIGINT NOT NULL,
    written BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    last_session BIGINT NOT NULL,
    writers BIGINT NOT NULL,
    writers_read BIGINT NOT NULL,
    writer_at BIGINT NOT NULL,
    last_writer BIGINT NOT NULL,
    PRIMARY KEY (project, what)
){clustered};
CREATE INDEX touched_path_most ON touched_path (sessions);

--pg ALTER TABLE touched_path ALTER what SET STATISTICS 0, ALTER name SET STATISTICS 0;

--pg ALTER TABLE touched_path ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON touched_path USING ({in_reach(project)});

-- name: files_clear
DELETE FROM touched

-- name: paths_clear
DELETE FROM touched_path

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

-- name: paths_add
INSERT INTO touched_path (project, what, name, sessions, read, written, last_at, last_session, writers, writers_read,
    writer_at, last_writer)
VALUES (:project, :what, :name, :sessions, :read, :written, :last_at, :last_session, :writers, :writers_read, :writer_at,
    :last_writer)
ON CONFLICT (project, what) DO UPDATE SET sessions = touched_path.sessions + excluded.sessions,
    read = touched_path.read + excluded.read, written = touched_path.written + excluded.written,
    last_session = CASE WHEN excluded.last_at >= touched_path.last_at THEN excluded.last_session
        ELSE touched_path.last_session END,
    last_at = CASE WHEN excluded.last_at > touched_path.last_at THEN excluded.last_at ELSE touched_path.last_at END,
    writers = touched_path.writers + excluded.writers,
    writers_read = touched_path.writers_read + excluded.writers_read,
    last_writer = CASE WHEN excluded.writer_at > 0 AND excluded.writer_at >= touched_path.writer_at
        THEN excluded.last_writer ELSE touched_path.last_writer END,
    writer_at = CASE WHEN excluded.writer_at > touched_path.writer_at THEN excluded.writer_at
        ELSE touched_path.writer_at END

-- name: paths_drop
DELETE FROM touched_path WHERE project = :project AND what = :what AND sessions <= 0

-- name: paths_last
-- Who touched a file last, and who wrote it last, after the session that was there is gone.
SELECT t.session, t.last_at, t.written FROM touched t JOIN listing l ON l.session = t.session
WHERE t.name = :name AND t.type = 'file' AND t.what = :what AND l.project = :project
--if least_written AND t.written >= :least_written
ORDER BY t.last_at DESC, t.session DESC LIMIT 1

-- name: paths_last_set
UPDATE touched_path SET last_at = :last_at, last_session = :last_session, writer_at = :writer_at,
    last_writer = :last_writer
WHERE project = :project AND what = :what

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
--if like AND lower(t.what) LIKE :like ESCAPE '\'
--if project AND l.project = :project
--if projects AND l.project IN ({projects})
--if me AND {reached(l.project, l.person, l.session, l.private, l.agent)}
GROUP BY l.project, t.what
ORDER BY count(*) DESC, sum(t.read) + sum(t.written) DESC, max(t.last_at) DESC, t.what LIMIT :limit

-- name: paths_most
-- As `files_most`, of all sessions: for callers who may read each of them. `like` is in lower case.
SELECT t.session, t.type, t.what, p.read, p.written, t.read_seq, t.written_seq, t.last_at, l.id, l.title, l.runtime,
    p.project, l.person, p.sessions
FROM (
    SELECT project, what, sessions, read, written, last_session AS session, last_at FROM touched_path
    WHERE TRUE
--if project AND project = :project
--if projects AND project IN ({projects})
--if like AND lower(what) LIKE :like ESCAPE '\'
    ORDER BY sessions DESC, read + written DESC, last_at DESC, what LIMIT :limit
) p
JOIN touched t ON t.session = p.session AND t.type = 'file' AND t.what = p.what
JOIN listing l ON l.session = t.session
ORDER BY p.sessions DESC, p.read + p.written DESC, p.last_at DESC, t.what

-- name: paths_most_written
SELECT t.session, t.type, t.what, p.read, p.written, t.read_seq, t.written_seq, t.last_at, l.id, l.title, l.runtime,
    p.project, l.person, p.sessions
FROM (
    SELECT project, what, writers AS sessions, writers_read AS read, written, last_writer AS session, writer_at AS last_at
    FROM touched_path WHERE writers > 0
--if project AND project = :project
--if projects AND project IN ({projects})
--if like AND lower(what) LIKE :like ESCAPE '\'
    ORDER BY writers DESC, writers_read + written DESC, writer_at DESC, what LIMIT :limit
) p
JOIN touched t ON t.session = p.session AND t.type = 'file' AND t.what = p.what
JOIN listing l ON l.session = t.session
ORDER BY p.sessions DESC, p.read + p.written DESC, p.last_at DESC, t.what
