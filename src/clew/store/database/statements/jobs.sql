-- Jobs. A row that was last changed more than `slack` in the future was changed before the clock was set back: none of
-- its times can be trusted, so the job is due.

-- name: job_add
INSERT INTO job (id, kind, project, key, arguments, state, due_at, attempts, epoch, holder, lease_until, error, result,
    made_at, at)
VALUES (:id, :kind, :project, :key, :arguments, 'waiting', {now}, 0, 0, '', 0, '', '', {now}, {now})
ON CONFLICT (kind, project, key) DO NOTHING
RETURNING id

-- name: job_exists
SELECT id FROM job WHERE kind = :kind AND project = :project AND key = :key

-- name: job_open
SELECT id FROM job
WHERE state IN ('waiting', 'running') AND kind = :kind AND project = :project ORDER BY due_at, id LIMIT 1

-- name: jobs_park_lost
-- Jobs whose workers ended or hung too often.
UPDATE job SET state = 'parked', error = :error, at = {now}
WHERE state IN ('waiting', 'running') AND state = 'running' AND kind IN ({names}) AND attempts >= :most
    AND (at > {now} + :slack OR lease_until <= {now})

-- name: job_take
UPDATE job SET state = 'running', holder = :holder, epoch = epoch + 1, attempts = attempts + 1,
    lease_until = {now} + :lease, at = {now}
WHERE id = (
    SELECT id FROM job
    WHERE state IN ('waiting', 'running') AND kind IN ({names})
        AND (at > {now} + :slack OR (state = 'waiting' AND due_at <= {now})
            OR (state = 'running' AND lease_until <= {now}))
    ORDER BY due_at, id LIMIT 1
--pg    FOR UPDATE SKIP LOCKED
)
RETURNING id, kind, project, key, arguments, attempts, epoch

-- name: job_renew
UPDATE job SET lease_until = {now} + :lease, at = {now}
WHERE id = :id AND epoch = :epoch AND state = 'running'
RETURNING id

-- name: job_finish
UPDATE job SET state = 'done', error = '', result = :result, at = {now}
WHERE id = :id AND epoch = :epoch AND state = 'running'
RETURNING id

-- name: job_fail
UPDATE job SET state = :state, error = :error, due_at = {now} + :pause, at = {now}
WHERE id = :id AND epoch = :epoch AND state = 'running'
RETURNING id

-- name: job_release
UPDATE job SET state = 'waiting', attempts = attempts - 1, due_at = {now}, at = {now}
WHERE id = :id AND epoch = :epoch AND state = 'running'
RETURNING id

-- name: job_retry
UPDATE job SET state = 'waiting', attempts = 0, due_at = {now}, at = {now}
WHERE id = :id AND state IN ('waiting', 'parked')
RETURNING id

-- name: job_next
SELECT min(CASE WHEN at > {now} + :slack THEN 0 WHEN state = 'running' THEN lease_until ELSE due_at END) - {now}
FROM job
WHERE state IN ('waiting', 'running') AND kind IN ({names})

-- name: job_read
SELECT id, kind, project, key, state, due_at, attempts, holder, lease_until, error, result, made_at, at
FROM job WHERE id = :id

-- name: jobs_newest
SELECT id, kind, project, key, state, due_at, attempts, holder, lease_until, error, result, made_at, at
FROM job
WHERE made_at > 0
--if kind AND kind = :kind
--if state AND state = :state
--if names AND project IN ({names})
ORDER BY made_at DESC, id LIMIT :limit

-- name: jobs_last_done
SELECT kind, project, max(at) FROM job WHERE state = 'done' GROUP BY kind, project

-- name: first_opened
SELECT coalesce((SELECT opened_at FROM session ORDER BY key LIMIT 1), {now})

-- name: job_oldest
SELECT made_at FROM job WHERE made_at < {now} - :age AND state = 'done' AND EXISTS (
    SELECT 1 FROM job later
    WHERE later.kind = job.kind AND later.project = job.project AND later.state = 'done' AND later.at > job.at
) ORDER BY made_at LIMIT 1

-- name: jobs_forget
DELETE FROM job WHERE made_at < {now} - :age AND state = 'done' AND EXISTS (
    SELECT 1 FROM job later
    WHERE later.kind = job.kind AND later.project = job.project AND later.state = 'done' AND later.at > job.at
) RETURNING id

-- name: jobs_changed
-- Waiting workers look again. On SQLite they see that the file has changed.
--pg SELECT pg_notify('clew', '')
--lite SELECT 1
