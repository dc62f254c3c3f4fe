-- Events: appending, reading, tailing, removing their bodies.
--
-- Lock order, the same everywhere, so that two writers can wait but never deadlock:
--   1. head rows, by (project, session) ascending   2. blob rows, by digest ascending   3. the clock row
-- SQLite takes one write lock instead of all three.

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
--pg         AND :known_schema >= (SELECT max(version) FROM clew_schema)
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
-- The same for one event, the most common append: plain parameters cost PostgreSQL half as much as JSON. The head moves
-- to this very event.
--pg WITH moved AS (
--pg     UPDATE head SET state = :to_state, head = :seq, digest = :digest, at = :to_at,
--pg         budget_tokens = CAST(:to_budget_tokens AS BIGINT),
--pg         budget_cost_micros = CAST(:to_budget_cost_micros AS BIGINT),
--pg         spent_tokens = :to_spent_tokens, spent_cost_micros = :to_spent_cost_micros
--pg     WHERE project = :project AND session = :session AND head = :to_from_head AND epoch = :to_epoch
--pg         AND (:to_fenced = 0 OR (CAST(:to_lease AS BIGINT) IS NULL AND lease_until <= {now})
--pg             OR (epoch = CAST(:to_lease AS BIGINT) AND lease_until > {now}))
--pg         AND :known_schema >= (SELECT max(version) FROM clew_schema)
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

-- name: events_at
SELECT seq, position, at, said_at, actor, source, digest, kind, version, body, blob, seal
FROM event WHERE project = :project AND session = :session AND seq IN ({keys})
ORDER BY seq

-- name: events_by_key
-- Events by the keys of their projects and sessions and by their seqs. Each is found in the index.
SELECT e.session, e.seq, e.position, e.at, e.said_at, e.actor, e.source, e.digest, e.kind, e.version, e.body, e.blob,
    e.seal
--lite FROM json_each(:keys) k
--lite CROSS JOIN event e ON e.project = k.value ->> 0 AND e.session = k.value ->> 1 AND e.seq = k.value ->> 2
--pg FROM json_array_elements(CAST(:keys AS json)) k
--pg CROSS JOIN LATERAL (
--pg     SELECT * FROM event
--pg     WHERE project = CAST(k.value ->> 0 AS BIGINT) AND session = CAST(k.value ->> 1 AS BIGINT)
--pg         AND seq = CAST(k.value ->> 2 AS BIGINT)
--pg     LIMIT 1
--pg ) e

-- name: event_seqs
SELECT seq FROM event WHERE project = :project AND session = :session AND seq >= :first ORDER BY seq LIMIT :limit

-- name: own_sources
SELECT kind, source, seq FROM event
WHERE project = :project AND session = :session AND seq < :before AND source IS NOT NULL
ORDER BY seq

-- name: events_of_kind
SELECT seq, position, at, said_at, actor, source, digest, kind, version, body, blob, seal
FROM event WHERE project = :project AND session = :session AND seq >= :first AND seq <= :last AND kind = :kind
ORDER BY seq LIMIT :limit

-- The sessions that wrote events of these kinds.
-- name: sessions_with_kinds
SELECT DISTINCT session FROM event WHERE kind IN ({kinds}) ORDER BY session

-- The newest events of these kinds, of any session.
-- name: newest_of_kinds
SELECT e.seq, e.position, e.at, e.said_at, e.actor, e.source, e.digest, e.kind, e.version, e.body, e.blob, e.seal,
    e.project, e.session, s.id
FROM event e JOIN session s ON s.key = e.session AND s.project = e.project
WHERE e.kind IN ({kinds})
ORDER BY e.position DESC LIMIT :limit

-- name: tail
SELECT e.seq, e.position, e.at, e.said_at, e.actor, e.source, e.digest, e.kind, e.version, e.body, e.blob, e.seal,
    e.project, e.session, s.id
FROM event e JOIN session s ON s.key = e.session AND s.project = e.project
WHERE e.position > :after AND s.control = 0
--if me AND {reached(s.project, s.owner, s.key, s.private, s.agent)}
ORDER BY e.position LIMIT :limit

-- name: tail_project
SELECT e.seq, e.position, e.at, e.said_at, e.actor, e.source, e.digest, e.kind, e.version, e.body, e.blob, e.seal,
    e.project, e.session, s.id
FROM event e JOIN session s ON s.key = e.session AND s.project = e.project
WHERE e.position > :after AND s.control = 0
    AND e.project IN ({keys_of_project})
--if me AND {reached(s.project, s.owner, s.key, s.private, s.agent)}
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
