-- The snapshots and restores of folders, in the order in which they became visible.
CREATE TABLE point (
--pg    project BIGINT NOT NULL,
    session BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    position BIGINT NOT NULL,
    at BIGINT NOT NULL,
    began_at BIGINT NOT NULL,
    machine TEXT NOT NULL,
    folder TEXT NOT NULL,
    tree TEXT NOT NULL,
    is_restore BIGINT NOT NULL,
    is_partial BIGINT NOT NULL,
    commit_id TEXT NOT NULL,
    PRIMARY KEY (session, seq)
){clustered};
CREATE INDEX point_folder ON point (machine, folder, position);

-- The planner keeps no samples of what sessions say of themselves, so that none outlives an erasure.
--pg ALTER TABLE point ALTER machine SET STATISTICS 0, ALTER folder SET STATISTICS 0, ALTER tree SET STATISTICS 0,
--pg     ALTER commit_id SET STATISTICS 0;

--pg ALTER TABLE point ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON point USING ({in_reach(project)});

-- name: points_clear
DELETE FROM point

-- name: points_drop
DELETE FROM point WHERE session = :session

-- name: points_add
INSERT INTO point (
--pg    project,
    session, seq, position, at, began_at, machine, folder, tree, is_restore, is_partial, commit_id)
VALUES (
--pg    :project,
    :session, :seq, :position, :at, :began_at, :machine, :folder, :tree, :is_restore, :is_partial, :commit_id)
ON CONFLICT (session, seq) DO NOTHING

-- name: points_before
-- What was kept of these folders before a position, newest first.
SELECT p.session, p.seq, p.position, p.at, p.began_at, p.machine, p.folder, p.tree, p.is_restore, p.is_partial,
    p.commit_id
FROM point p JOIN listing l ON l.session = p.session
WHERE p.machine = :machine AND p.folder IN ({names}) AND p.position < :before
--if me AND {reached(l.project, l.person, l.session, l.private, l.agent)}
ORDER BY p.position DESC LIMIT :limit

-- name: points_workers
-- The sessions with calls that worked in a folder or below it, or kept its files.
SELECT l.session, l.project, l.id, l.title, l.agent, l.person, l.runtime, l.machine, l.folder, l.state, l.outcome,
    l.events, l.turns, l.calls, l.errors, l.began_at, l.said_at, l.kept_at, l.last_at, l.private, l.called_by,
    l.waiting, l.titled, l.empty
FROM listing l
WHERE l.calls > 0
    AND (l.machine IN ('', :machine)
        AND (l.folder = :folder OR l.folder {plain} >= :below AND l.folder {plain} < :beyond)
        OR l.session IN (SELECT p.session FROM point p WHERE p.machine = :machine AND p.folder = :folder))
--if projects AND l.project IN ({projects})
ORDER BY l.last_at DESC, l.session DESC LIMIT :limit
