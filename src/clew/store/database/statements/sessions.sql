-- Projects and sessions: who they are, how they are found, and what forks read. In a list of sessions p is the project that
-- one was opened in, and r the one that this became part of, if it did.

-- name: project_add
INSERT INTO project (name) VALUES (:name) ON CONFLICT (name) DO NOTHING

-- name: project_named
-- The project that has this name now, or that the project of this name became part of.
SELECT COALESCE(r.key, p.key), COALESCE(r.name, p.name) FROM project p LEFT JOIN project r ON r.key = p.part_of
WHERE p.name = :name

-- name: projects
SELECT p.key, COALESCE(r.name, p.name) FROM project p LEFT JOIN project r ON r.key = p.part_of ORDER BY 2, 1

-- name: project_names
-- Every name that a project has or had, and the name of that project now.
SELECT p.name, COALESCE(r.name, p.name) FROM project p LEFT JOIN project r ON r.key = p.part_of

-- name: project_reached
SELECT 1 FROM session s WHERE s.project = :project AND s.control = 0
--if me AND {reached(s.project, s.owner, s.key, s.private, s.agent)}
LIMIT 1

-- name: session_add
INSERT INTO session (project, id, agent, title, metadata, parent, upto, opened_at, control, owner, private)
VALUES (:project, :id, :agent, :title, :metadata, :parent, :upto, :at, :control, :owner, :private)
RETURNING key

-- name: head_add
INSERT INTO head (project, session, state, head, digest, at, epoch, holder, lease_until,
    budget_tokens, budget_cost_micros, spent_tokens, spent_cost_micros)
VALUES (:project, :session, :state, :head, :digest, :at, :epoch, NULL, 0,
    :budget_tokens, :budget_cost_micros, 0, 0)

-- name: session_by_prefix
SELECT s.id, s.key, COALESCE(r.name, p.name), s.project, s.agent, s.title, s.metadata, q.id, s.upto,
    s.opened_at, s.owner, s.private, p.name
FROM session s JOIN project p ON p.key = s.project LEFT JOIN project r ON r.key = p.part_of
    LEFT JOIN session q ON q.key = s.parent
WHERE s.id >= :prefix AND s.id < :beyond AND s.control = 0
--if me AND {reached(s.project, s.owner, s.key, s.private, s.agent)}
ORDER BY s.id LIMIT 6

-- name: session_by_key
SELECT s.id, s.key, COALESCE(r.name, p.name), s.project, s.agent, s.title, s.metadata, q.id, s.upto,
    s.opened_at, s.owner, s.private, p.name
FROM session s JOIN project p ON p.key = s.project LEFT JOIN project r ON r.key = p.part_of
    LEFT JOIN session q ON q.key = s.parent
WHERE s.key = :key

-- name: sessions_by_key
SELECT s.id, s.key, COALESCE(r.name, p.name), s.project, s.agent, s.title, s.metadata, q.id, s.upto,
    s.opened_at, s.owner, s.private, p.name
FROM session s JOIN project p ON p.key = s.project LEFT JOIN project r ON r.key = p.part_of
    LEFT JOIN session q ON q.key = s.parent
WHERE s.key IN ({keys})

-- name: keys_of_sessions
SELECT id, key FROM session WHERE id IN ({sources})

-- name: control_session
SELECT s.id, s.key, COALESCE(r.name, p.name), s.project, s.agent, s.title, s.metadata, NULL, s.upto,
    s.opened_at, s.owner, s.private, p.name
FROM session s JOIN project p ON p.key = s.project LEFT JOIN project r ON r.key = p.part_of
WHERE s.project IN ({keys_of_project}) AND s.control = 1
ORDER BY s.key LIMIT 1

-- name: session_list
SELECT s.id, s.key, COALESCE(r.name, p.name), s.project, s.agent, s.title, s.metadata, q.id, s.upto, s.opened_at,
    s.owner, s.private, p.name, h.state, h.head, h.digest, h.at, h.epoch, h.holder, h.lease_until,
    h.budget_tokens, h.budget_cost_micros, h.spent_tokens, h.spent_cost_micros
FROM session s JOIN project p ON p.key = s.project LEFT JOIN project r ON r.key = p.part_of
    LEFT JOIN session q ON q.key = s.parent
    JOIN head h ON h.project = s.project AND h.session = s.key
WHERE s.control = 0
    AND (:project = '' OR s.project IN ({keys_of_project}))
    AND (:agent = '' OR s.agent = :agent)
    AND (:state = '' OR h.state = :state)
    AND s.key < :before
ORDER BY s.key DESC LIMIT :limit

-- name: sessions_standing
SELECT s.id, s.key, COALESCE(r.name, p.name), s.project, s.agent, s.title, s.metadata, q.id, s.upto, s.opened_at,
    s.owner, s.private, p.name, h.state, h.head, h.digest, h.at, h.epoch, h.holder, h.lease_until,
    h.budget_tokens, h.budget_cost_micros, h.spent_tokens, h.spent_cost_micros
FROM session s JOIN project p ON p.key = s.project LEFT JOIN project r ON r.key = p.part_of
    LEFT JOIN session q ON q.key = s.parent
    JOIN head h ON h.project = s.project AND h.session = s.key
WHERE s.key IN ({keys})
ORDER BY s.key DESC

-- name: session_keys
SELECT key FROM session WHERE key > :after ORDER BY key LIMIT :limit

-- name: lineage
WITH RECURSIVE line (key, id, parent, upto, depth) AS (
    SELECT key, id, parent, upto, 0 FROM session WHERE key = :key
    UNION ALL
    SELECT s.key, s.id, s.parent, s.upto, line.depth + 1 FROM session s JOIN line ON s.key = line.parent
)
SELECT key, id, upto FROM line ORDER BY depth

-- name: children
SELECT s.key, s.id, s.upto FROM session s WHERE s.parent = :key
--if me AND {reached(s.project, s.owner, s.key, s.private, s.agent)}
ORDER BY s.key
