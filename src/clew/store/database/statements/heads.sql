-- Heads: where sessions stand, their leases and budgets.

-- name: now
SELECT {now}

-- name: head_lock
SELECT state, head, digest, at, epoch, holder, lease_until, budget_tokens, budget_cost_micros,
    spent_tokens, spent_cost_micros, {now}
FROM head WHERE project = :project AND session = :session {for_update}

-- name: head_read
SELECT state, head, digest, at, epoch, holder, lease_until, budget_tokens, budget_cost_micros,
    spent_tokens, spent_cost_micros, {now}
FROM head WHERE project = :project AND session = :session

-- name: head_move
-- The fence. Only the head and the epoch that were planned against are moved on, and by the database's clock either
-- nobody holds a lease or the writer does.
--lite UPDATE head SET state = :state, head = :head, digest = :digest, at = :at,
--lite     budget_tokens = :budget_tokens, budget_cost_micros = :budget_cost_micros,
--lite     spent_tokens = :spent_tokens, spent_cost_micros = :spent_cost_micros
--lite WHERE project = :project AND session = :session AND head = :from_head AND epoch = :epoch
--lite     AND (:fenced = 0 OR (:lease IS NULL AND lease_until <= {now}) OR (epoch = :lease AND lease_until > {now}))
--lite RETURNING session

-- name: lease_set
UPDATE head SET epoch = :epoch, holder = :holder, lease_until = :until
WHERE project = :project AND session = :session AND epoch = :from_epoch
RETURNING epoch
