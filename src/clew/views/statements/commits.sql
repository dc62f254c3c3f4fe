-- The commits of every session (views/commits.py): recorded in its folder, printed by a call, or '' where a call asks for
-- one. A printed one counts if its call asked for it. `short` is the beginning of the name that all of them have.
CREATE TABLE committed (
--pg    project BIGINT NOT NULL,
    session BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    sha TEXT {plain} NOT NULL,
    short TEXT {plain} NOT NULL,
    how TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (session, seq, sha)
){clustered};
CREATE INDEX committed_short ON committed (short, session);

-- The planner keeps no samples of what sessions say of themselves, so that none outlives an erasure.
--pg ALTER TABLE committed ALTER sha SET STATISTICS 0, ALTER short SET STATISTICS 0;

--pg ALTER TABLE committed ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON committed USING ({in_reach(project)});

-- name: commits_clear
DELETE FROM committed

-- name: commits_drop
DELETE FROM committed WHERE session = :session

-- name: commits_add
INSERT INTO committed (
--pg    project,
    session, seq, sha, short, how, at)
VALUES (
--pg    :project,
    :session, :seq, :sha, :short, :how, :at)
ON CONFLICT (session, seq, sha) DO NOTHING

-- name: commits_found
SELECT m.seq, m.sha, m.how, m.at, l.id, l.title, l.runtime, l.project, l.person
FROM committed m JOIN listing l ON l.session = m.session
WHERE m.short >= :first AND m.short < :end
--if session AND m.session = :session
--if project AND l.project = :project
--if projects AND l.project IN ({projects})
--if me AND {reached(l.project, l.person, l.session, l.private, l.agent)}
    AND (m.how = 'recorded' OR m.how = 'printed' AND EXISTS (
        SELECT 1 FROM called c JOIN committed a ON a.session = c.session AND a.seq = c.call
        WHERE c.session = m.session AND c.returned = m.seq AND c.returned > 0 AND a.how = 'asked'
    ))
ORDER BY m.at DESC, m.session DESC, m.seq DESC LIMIT :limit
