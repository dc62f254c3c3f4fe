-- Retention policies and erasure.

-- name: policy_set
INSERT INTO policy (project, agent, keep_days, hold, at) VALUES (:project, :agent, :keep_days, :hold, {now})
ON CONFLICT (project, agent) DO UPDATE SET keep_days = excluded.keep_days, hold = excluded.hold, at = excluded.at

-- name: policy_remove
DELETE FROM policy WHERE project = :project AND agent = :agent RETURNING project

-- name: policy_list
SELECT project, agent, keep_days, hold FROM policy ORDER BY project, agent

-- name: policies_that_prune
SELECT project, min(at) FROM policy WHERE keep_days IS NOT NULL GROUP BY project ORDER BY project

-- name: last_said
-- Sessions that still have a conversation, and when its newest part was said. A record of an unknown kind says nothing by
-- itself, so only its own time counts, and not when it was stored.
SELECT s.key, h.at, max(CASE WHEN e.said_at IS NOT NULL THEN e.said_at WHEN e.kind IN ({kinds}) THEN e.at END)
FROM session s JOIN head h ON h.project = s.project AND h.session = s.key
    JOIN event e ON e.project = s.project AND e.session = s.key
WHERE s.project IN ({keys_of_project}) AND s.control = 0 AND h.state <> 'erased'
--if session AND s.key = :session
    AND e.kind NOT IN ({names}) AND (e.body IS NOT NULL OR e.blob IS NOT NULL)
GROUP BY s.key, h.at

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

-- name: session_own_title
-- The title that the session's program gives it, unless a person gave it one.
UPDATE session SET title = :title WHERE project = :project AND key = :session AND NOT EXISTS (
    SELECT 1 FROM event WHERE event.project = :project AND event.session = :session AND event.kind = 'title_given')
