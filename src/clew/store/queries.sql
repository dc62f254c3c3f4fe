-- Every statement of the log, by name, one text for both databases.
--
-- Lock order, the same everywhere, so that two writers can wait but never deadlock:
--   1. head rows, by (project, session) ascending   2. blob rows, by digest ascending   3. the clock row
-- SQLite takes one write lock instead of all three.

-- name: now
SELECT {now}

-- Projects and sessions ------------------------------------------------------------------------------------------------

-- name: project_add
INSERT INTO project (name) VALUES (:name) ON CONFLICT (name) DO NOTHING

-- name: project_key
SELECT key FROM project WHERE name = :name

-- name: projects
SELECT key, name FROM project ORDER BY name

-- name: session_add
INSERT INTO session (project, id, agent, title, metadata, parent, upto, opened_at, control)
VALUES (:project, :id, :agent, :title, :metadata, :parent, :upto, :at, :control)
RETURNING key

-- name: head_add
INSERT INTO head (project, session, state, head, digest, at, epoch, holder, lease_until,
    budget_tokens, budget_cost_micros, spent_tokens, spent_cost_micros)
VALUES (:project, :session, :state, :head, :digest, :at, :epoch, NULL, 0,
    :budget_tokens, :budget_cost_micros, 0, 0)

-- name: session_by_prefix
SELECT s.id, s.key, p.name, s.project, s.agent, s.title, s.metadata, q.id, s.upto, s.opened_at
FROM session s JOIN project p ON p.key = s.project LEFT JOIN session q ON q.key = s.parent
WHERE s.id >= :prefix AND s.id < :beyond AND s.control = 0
ORDER BY s.id LIMIT 6

-- name: session_by_key
SELECT s.id, s.key, p.name, s.project, s.agent, s.title, s.metadata, q.id, s.upto, s.opened_at
FROM session s JOIN project p ON p.key = s.project LEFT JOIN session q ON q.key = s.parent
WHERE s.key = :key

-- name: sessions_by_key
SELECT s.id, s.key, p.name, s.project, s.agent, s.title, s.metadata, q.id, s.upto, s.opened_at
FROM session s JOIN project p ON p.key = s.project LEFT JOIN session q ON q.key = s.parent
WHERE s.key IN ({keys})

-- name: control_session
SELECT s.id, s.key, p.name, s.project, s.agent, s.title, s.metadata, NULL, s.upto, s.opened_at
FROM session s JOIN project p ON p.key = s.project
WHERE p.name = :project AND s.control = 1
ORDER BY s.key LIMIT 1

-- name: session_list
SELECT s.id, s.key, p.name, s.project, s.agent, s.title, s.metadata, q.id, s.upto, s.opened_at,
    h.state, h.head, h.digest, h.at, h.epoch, h.holder, h.lease_until,
    h.budget_tokens, h.budget_cost_micros, h.spent_tokens, h.spent_cost_micros
FROM session s JOIN project p ON p.key = s.project LEFT JOIN session q ON q.key = s.parent
    JOIN head h ON h.project = s.project AND h.session = s.key
WHERE s.control = 0
    AND (:project = '' OR p.name = :project)
    AND (:agent = '' OR s.agent = :agent)
    AND (:state = '' OR h.state = :state)
    AND s.key < :before
ORDER BY s.key DESC LIMIT :limit

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
SELECT key, id, upto FROM session WHERE parent = :key ORDER BY key

-- Where sessions stand -------------------------------------------------------------------------------------------------

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

-- Events ---------------------------------------------------------------------------------------------------------------

-- name: event_add
--lite INSERT INTO event (project, session, seq, kind, version, at, said_at, actor, source, digest, body, blob)
--lite VALUES (:project, :session, :seq, :kind, :version, :at, :said_at, :actor, :source, :digest, :body, :blob)

-- name: append
-- head_move and event_add for any number of sessions in one statement: one round trip and, outside a transaction, one
-- commit. A head that cannot be moved takes its events with it and leaves the others alone. The clock row comes last and
-- stays locked until the commit, so positions become visible in the order they are given out.
--pg WITH move AS (
--pg     SELECT * FROM json_to_recordset(CAST(:moves AS json)) AS m (
--pg         project BIGINT, session BIGINT, state TEXT, head BIGINT, digest TEXT, at BIGINT, budget_tokens BIGINT,
--pg         budget_cost_micros BIGINT, spent_tokens BIGINT, spent_cost_micros BIGINT, from_head BIGINT, epoch BIGINT,
--pg         fenced BIGINT, lease BIGINT)
--pg ), moved AS (
--pg     UPDATE head h SET state = m.state, head = m.head, digest = decode(m.digest, 'base64'), at = m.at,
--pg         budget_tokens = m.budget_tokens, budget_cost_micros = m.budget_cost_micros,
--pg         spent_tokens = m.spent_tokens, spent_cost_micros = m.spent_cost_micros
--pg     FROM move m
--pg     WHERE h.project = m.project AND h.session = m.session AND h.head = m.from_head AND h.epoch = m.epoch
--pg         AND (m.fenced = 0 OR (m.lease IS NULL AND h.lease_until <= {now})
--pg             OR (h.epoch = m.lease AND h.lease_until > {now}))
--pg     RETURNING h.session
--pg ), tick AS (
--pg     UPDATE clock SET position = position + :count
--pg     WHERE one = 1 AND (SELECT count(*) FROM moved) > 0
--pg     RETURNING position, pg_notify('clew', '')
--pg ), added AS (
--pg     INSERT INTO event (position, project, session, seq, kind, version, at, said_at, actor, source, digest, body,
--pg         blob)
--pg     SELECT tick.position - e.behind, e.project, e.session, e.seq, e.kind, e.version, e.at, e.said_at, e.actor,
--pg         e.source, decode(e.digest, 'base64'), e.body, decode(e.blob, 'base64')
--pg     FROM tick, json_to_recordset(CAST(:events AS json)) AS e (
--pg         behind BIGINT, project BIGINT, session BIGINT, seq BIGINT, kind TEXT, version BIGINT, at BIGINT,
--pg         said_at BIGINT, actor TEXT, source TEXT, digest TEXT, body TEXT, blob TEXT) JOIN moved USING (session)
--pg )
--pg SELECT session FROM moved

-- name: append_one
-- The same for one event, the most common append: plain parameters cost PostgreSQL half as much as JSON.
--pg WITH moved AS (
--pg     UPDATE head SET state = :to_state, head = :to_head, digest = :to_digest, at = :to_at,
--pg         budget_tokens = CAST(:to_budget_tokens AS BIGINT),
--pg         budget_cost_micros = CAST(:to_budget_cost_micros AS BIGINT),
--pg         spent_tokens = :to_spent_tokens, spent_cost_micros = :to_spent_cost_micros
--pg     WHERE project = :to_project AND session = :to_session AND head = :to_from_head AND epoch = :to_epoch
--pg         AND (:to_fenced = 0 OR (CAST(:to_lease AS BIGINT) IS NULL AND lease_until <= {now})
--pg             OR (epoch = CAST(:to_lease AS BIGINT) AND lease_until > {now}))
--pg     RETURNING session
--pg ), tick AS (
--pg     UPDATE clock SET position = position + 1
--pg     WHERE one = 1 AND (SELECT count(*) FROM moved) > 0
--pg     RETURNING position, pg_notify('clew', '')
--pg ), added AS (
--pg     INSERT INTO event (position, project, session, seq, kind, version, at, said_at, actor, source, digest, body,
--pg         blob)
--pg     SELECT position, CAST(:project AS BIGINT), CAST(:session AS BIGINT), CAST(:seq AS BIGINT), CAST(:kind AS TEXT),
--pg         CAST(:version AS BIGINT), CAST(:at AS BIGINT), CAST(:said_at AS BIGINT), CAST(:actor AS TEXT),
--pg         CAST(:source AS TEXT), CAST(:digest AS BYTEA), CAST(:body AS TEXT), CAST(:blob AS BYTEA)
--pg     FROM tick
--pg )
--pg SELECT session FROM moved

-- name: events_by_source
SELECT source, seq, kind, body, blob, seal FROM event
WHERE project = :project AND session = :session AND source IN ({sources})

-- name: event_digest
SELECT digest FROM event WHERE project = :project AND session = :session AND seq = :seq

-- name: events
SELECT seq, position, at, said_at, actor, source, digest, kind, version, body, blob, seal
FROM event WHERE project = :project AND session = :session AND seq >= :first AND seq <= :last
ORDER BY seq LIMIT :limit

-- name: event_seqs
SELECT seq FROM event WHERE project = :project AND session = :session AND seq >= :first ORDER BY seq LIMIT :limit

-- name: events_of_kind
SELECT seq, position, at, said_at, actor, source, digest, kind, version, body, blob, seal
FROM event WHERE project = :project AND session = :session AND seq >= :first AND seq <= :last AND kind = :kind
ORDER BY seq

-- name: tail
SELECT e.seq, e.position, e.at, e.said_at, e.actor, e.source, e.digest, e.kind, e.version, e.body, e.blob, e.seal,
    e.project, e.session, s.id
FROM event e JOIN session s ON s.key = e.session AND s.project = e.project
WHERE e.position > :after AND s.control = 0
ORDER BY e.position LIMIT :limit

-- name: tail_project
SELECT e.seq, e.position, e.at, e.said_at, e.actor, e.source, e.digest, e.kind, e.version, e.body, e.blob, e.seal,
    e.project, e.session, s.id
FROM event e JOIN session s ON s.key = e.session AND s.project = e.project
WHERE e.position > :after AND s.control = 0
    AND e.project = (SELECT key FROM project WHERE name = :project)
ORDER BY e.position LIMIT :limit

-- name: last_position
-- The newest event that a tail would show.
SELECT e.position FROM event e JOIN session s ON s.key = e.session AND s.project = e.project
WHERE s.control = 0
ORDER BY e.position DESC LIMIT 1

-- name: end_position
-- The last position given out, whatever event has it.
--lite SELECT coalesce(max(position), 0) FROM event
--pg SELECT position FROM clock

-- Cursors --------------------------------------------------------------------------------------------------------------

-- name: cursor_read
SELECT position FROM cursor WHERE name = :name

-- name: cursor_move
INSERT INTO cursor (name, position, at) VALUES (:name, :position, {now})
ON CONFLICT (name) DO UPDATE SET position = excluded.position, at = excluded.at
RETURNING position

-- Blobs ----------------------------------------------------------------------------------------------------------------

-- name: blob_add
INSERT INTO blob (digest, size, refs, at, data) VALUES (:digest, :size, :refs, {now}, :data)
ON CONFLICT (digest) DO UPDATE SET refs = blob.refs + :refs, at = excluded.at
RETURNING size

-- name: blob_ref
UPDATE blob SET refs = refs + :refs, at = {now} WHERE digest = :digest RETURNING size

-- name: blob_read
SELECT data FROM blob WHERE digest = :digest

-- name: blob_collect
DELETE FROM blob WHERE refs <= 0 AND at <= {now} - :grace RETURNING digest, size

-- name: blob_digests
SELECT digest FROM blob

-- Retention ------------------------------------------------------------------------------------------------------------

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
UPDATE session SET agent = '', title = '', metadata = '' WHERE project = :project AND key = :session

-- name: head_erase
UPDATE head SET holder = NULL, lease_until = 0, epoch = epoch + 1 WHERE project = :project AND session = :session
RETURNING epoch

-- name: session_title
UPDATE session SET title = :title WHERE project = :project AND key = :session

-- Originals ------------------------------------------------------------------------------------------------------------

-- name: originals_known
SELECT o.place, o.stamp, o.told, o.opaque, o.quarantined, s.id
FROM original o JOIN session s ON s.key = o.session AND s.project = o.project
WHERE o.machine IN (:machine, '')

-- name: original_at
SELECT o.key, o.place, o.project, o.session, o.machine, o.runtime, o.format, o.path, o.native, o.stamp, o.generation,
    o.kept, o.taken, o.edges, o.state, o.told, o.opaque, o.quarantined, o.root, o.written, s.id
FROM original o JOIN session s ON s.key = o.session AND s.project = o.project
WHERE o.place = :place

-- name: originals_of
SELECT o.key, o.place, o.project, o.session, o.machine, o.runtime, o.format, o.path, o.native, o.stamp, o.generation,
    o.kept, o.taken, o.edges, o.state, o.told, o.opaque, o.quarantined, o.root, o.written, s.id
FROM original o JOIN session s ON s.key = o.session AND s.project = o.project
WHERE o.project = :project AND o.session = :session ORDER BY o.key

-- name: originals_native
SELECT o.key, o.place, o.project, o.session, o.machine, o.runtime, o.format, o.path, o.native, o.stamp, o.generation,
    o.kept, o.taken, o.edges, o.state, o.told, o.opaque, o.quarantined, o.root, o.written, s.id
FROM original o JOIN session s ON s.key = o.session AND s.project = o.project
WHERE o.native = :native AND o.runtime = :runtime ORDER BY o.key

-- name: originals_root
SELECT o.key, o.place, o.project, o.session, o.machine, o.runtime, o.format, o.path, o.native, o.stamp, o.generation,
    o.kept, o.taken, o.edges, o.state, o.told, o.opaque, o.quarantined, o.root, o.written, s.id
FROM original o JOIN session s ON s.key = o.session AND s.project = o.project
WHERE o.root = :root AND o.root <> '' AND o.runtime = :runtime ORDER BY o.key LIMIT 20

-- name: original_add
INSERT INTO original (place, project, session, machine, runtime, format, path, native, stamp, generation, kept, taken,
    edges, state, told, opaque, quarantined, root, written)
VALUES (:place, :project, :session, :machine, :runtime, :format, :path, :native, :stamp, :generation, :kept, :taken,
    :edges, :state, :told, :opaque, :quarantined, :root, :written)
RETURNING key

-- name: original_move
UPDATE original SET stamp = :stamp, generation = :generation, kept = :kept, taken = :taken, edges = :edges,
    state = :state, told = :told, opaque = :opaque, quarantined = :quarantined
WHERE place = :place
RETURNING key

-- name: original_place
UPDATE original SET place = :place, path = :path, stamp = :stamp WHERE key = :key RETURNING key

-- name: original_erase
UPDATE original SET path = '', native = '', stamp = '', state = '', machine = '', root = '', written = '', edges = :nothing
WHERE project = :project AND session = :session

-- name: segment_add
INSERT INTO segment (original, generation, start, length, blob) VALUES (:original, :generation, :start, :length, :blob)

-- name: segments
SELECT start, length, blob FROM segment WHERE original = :original AND generation = :generation ORDER BY start

-- name: segments_drop
DELETE FROM segment WHERE original = :original AND generation < :before RETURNING blob
