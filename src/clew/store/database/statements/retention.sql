-- Retention policies and erasure.

-- name: policy_set
INSERT INTO policy (project, agent, keep_days, hold, at) VALUES (:project, :agent, :keep_days, :hold, {now})
ON CONFLICT (project, agent) DO UPDATE SET keep_days = excluded.keep_days, hold = excluded.hold, at = excluded.at

-- name: policy_remove
DELETE FROM policy WHERE project = :project AND agent = :agent RETURNING project

-- name: policy_list
SELECT project, agent, keep_days, hold FROM policy ORDER BY project, agent

-- name: expired_sessions
SELECT s.key FROM session s JOIN head h ON h.project = s.project AND h.session = s.key
    JOIN project p ON p.key = s.project
WHERE s.control = 0 AND h.state <> 'erased' AND p.name = :project AND s.agent = coalesce(:agent, s.agent)
    AND h.at < :before
ORDER BY s.key

-- name: event_remove
UPDATE event SET body = NULL, blob = NULL, seal = :seal
WHERE project = :project AND session = :session AND seq = :seq

-- name: event_erase
UPDATE event SET body = NULL, blob = NULL, seal = :seal, kind = 'erased', source = NULL, actor = '', said_at = NULL
WHERE project = :project AND session = :session AND seq = :seq

-- name: session_erase
UPDATE session SET agent = '', title = '', metadata = '', owner = '' WHERE project = :project AND key = :session

-- name: head_erase
UPDATE head SET holder = NULL, lease_until = 0, epoch = epoch + 1 WHERE project = :project AND session = :session
RETURNING epoch

-- name: session_privacy
UPDATE session SET private = :private WHERE project = :project AND key = :session

-- name: session_title
UPDATE session SET title = :title WHERE project = :project AND key = :session
