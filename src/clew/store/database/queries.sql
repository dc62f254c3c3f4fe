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

-- name: project_reached
SELECT 1 FROM session s WHERE s.project = :project AND s.control = 0
--if me AND {reached}
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
SELECT s.id, s.key, p.name, s.project, s.agent, s.title, s.metadata, q.id, s.upto, s.opened_at, s.owner, s.private
FROM session s JOIN project p ON p.key = s.project LEFT JOIN session q ON q.key = s.parent
WHERE s.id >= :prefix AND s.id < :beyond AND s.control = 0
--if me AND {reached}
ORDER BY s.id LIMIT 6

-- name: session_by_key
SELECT s.id, s.key, p.name, s.project, s.agent, s.title, s.metadata, q.id, s.upto, s.opened_at, s.owner, s.private
FROM session s JOIN project p ON p.key = s.project LEFT JOIN session q ON q.key = s.parent
WHERE s.key = :key

-- name: sessions_by_key
SELECT s.id, s.key, p.name, s.project, s.agent, s.title, s.metadata, q.id, s.upto, s.opened_at, s.owner, s.private
FROM session s JOIN project p ON p.key = s.project LEFT JOIN session q ON q.key = s.parent
WHERE s.key IN ({keys})

-- name: keys_of_sessions
SELECT id, key FROM session WHERE id IN ({sources})

-- name: control_session
SELECT s.id, s.key, p.name, s.project, s.agent, s.title, s.metadata, NULL, s.upto, s.opened_at, s.owner, s.private
FROM session s JOIN project p ON p.key = s.project
WHERE p.name = :project AND s.control = 1
ORDER BY s.key LIMIT 1

-- name: session_list
SELECT s.id, s.key, p.name, s.project, s.agent, s.title, s.metadata, q.id, s.upto, s.opened_at, s.owner,
    s.private, h.state, h.head, h.digest, h.at, h.epoch, h.holder, h.lease_until,
    h.budget_tokens, h.budget_cost_micros, h.spent_tokens, h.spent_cost_micros
FROM session s JOIN project p ON p.key = s.project LEFT JOIN session q ON q.key = s.parent
    JOIN head h ON h.project = s.project AND h.session = s.key
WHERE s.control = 0
    AND (:project = '' OR p.name = :project)
    AND (:agent = '' OR s.agent = :agent)
    AND (:state = '' OR h.state = :state)
    AND s.key < :before
ORDER BY s.key DESC LIMIT :limit

-- name: sessions_standing
SELECT s.id, s.key, p.name, s.project, s.agent, s.title, s.metadata, q.id, s.upto, s.opened_at, s.owner,
    s.private, h.state, h.head, h.digest, h.at, h.epoch, h.holder, h.lease_until,
    h.budget_tokens, h.budget_cost_micros, h.spent_tokens, h.spent_cost_micros
FROM session s JOIN project p ON p.key = s.project LEFT JOIN session q ON q.key = s.parent
    JOIN head h ON h.project = s.project AND h.session = s.key
WHERE s.key IN ({keys})

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
--if me AND {reached}
ORDER BY s.key

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

-- name: own_sources
SELECT kind, source FROM event
WHERE project = :project AND session = :session AND seq < :before AND source IS NOT NULL

-- name: events_of_kind
SELECT seq, position, at, said_at, actor, source, digest, kind, version, body, blob, seal
FROM event WHERE project = :project AND session = :session AND seq >= :first AND seq <= :last AND kind = :kind
ORDER BY seq LIMIT :limit

-- name: tail
SELECT e.seq, e.position, e.at, e.said_at, e.actor, e.source, e.digest, e.kind, e.version, e.body, e.blob, e.seal,
    e.project, e.session, s.id
FROM event e JOIN session s ON s.key = e.session AND s.project = e.project
WHERE e.position > :after AND s.control = 0
--if me AND {reached}
ORDER BY e.position LIMIT :limit

-- name: tail_project
SELECT e.seq, e.position, e.at, e.said_at, e.actor, e.source, e.digest, e.kind, e.version, e.body, e.blob, e.seal,
    e.project, e.session, s.id
FROM event e JOIN session s ON s.key = e.session AND s.project = e.project
WHERE e.position > :after AND s.control = 0
    AND e.project = (SELECT key FROM project WHERE name = :project)
--if me AND {reached}
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
UPDATE session SET agent = '', title = '', metadata = '', owner = '' WHERE project = :project AND key = :session

-- name: head_erase
UPDATE head SET holder = NULL, lease_until = 0, epoch = epoch + 1 WHERE project = :project AND session = :session
RETURNING epoch

-- name: session_privacy
UPDATE session SET private = :private WHERE project = :project AND key = :session

-- name: session_title
UPDATE session SET title = :title WHERE project = :project AND key = :session

-- Originals ------------------------------------------------------------------------------------------------------------

-- name: originals_known
SELECT o.place, o.key, o.stamp, o.told, o.opaque, o.quarantined, s.id
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
INSERT INTO segment (original, generation, start, length, blob, first, last, data)
VALUES (:original, :generation, :start, :length, :blob, :first, :last, :data)

-- name: segments
SELECT start, length, blob FROM segment WHERE original = :original AND generation = :generation ORDER BY start

-- name: segment_read
SELECT length, blob, first, last, data FROM segment
WHERE original = :original AND generation = :generation AND start = :start

-- name: bodies
SELECT body FROM event
WHERE project = :project AND session = :session AND seq >= :first AND seq <= :last AND body IS NOT NULL ORDER BY seq

-- name: segments_drop
DELETE FROM segment WHERE original = :original AND generation < :before RETURNING blob, last

-- The team -------------------------------------------------------------------------------------------------------------

-- name: principal_set
INSERT INTO principal (name, title, login, disabled, at) VALUES (:name, :title, :login, 0, {now})
ON CONFLICT (name) DO UPDATE SET
    title = CASE WHEN excluded.title = '' THEN principal.title ELSE excluded.title END,
    login = CASE WHEN excluded.login = '' THEN principal.login ELSE excluded.login END

-- name: principal_disable
UPDATE principal SET disabled = :disabled WHERE name = :name RETURNING name

-- name: principal_named
SELECT name, title, login, disabled, at FROM principal WHERE name = :name

-- name: principal_of_login
SELECT name, title, login, disabled, at FROM principal WHERE login = :login

-- name: principals
SELECT name, title, login, disabled, at FROM principal ORDER BY name

-- name: member_add
INSERT INTO member (team, principal) VALUES (:team, :principal) ON CONFLICT (team, principal) DO NOTHING

-- name: member_remove
DELETE FROM member WHERE team = :team AND principal = :principal RETURNING team

-- name: members
SELECT team, principal FROM member ORDER BY team, principal

-- name: teams_of
SELECT team FROM member WHERE principal = :principal ORDER BY team

-- name: grant_set
INSERT INTO granted (who, rights, project, agent, session, until, given_by, at)
VALUES (:who, :rights, :project, :agent, :session, :until, :given_by, {now})
ON CONFLICT (who, project, agent, session) DO UPDATE SET rights = excluded.rights, until = excluded.until,
    given_by = excluded.given_by, at = excluded.at
RETURNING id

-- name: grant_read
SELECT id, who, rights, project, agent, session, until, given_by, at FROM granted WHERE id = :id

-- name: grant_remove
DELETE FROM granted WHERE id = :id RETURNING id

-- name: grants
SELECT id, who, rights, project, agent, session, until, given_by, at FROM granted
WHERE TRUE
--if who AND who = :who
--if project AND project = :project
--if session AND session = :session
ORDER BY who, project, agent, session

-- name: grants_of
-- What counts for a principal: its own grants and those of its teams.
SELECT id, who, rights, project, agent, session, until, given_by, at FROM granted WHERE who = :principal
UNION ALL SELECT g.id, g.who, g.rights, g.project, g.agent, g.session, g.until, g.given_by, g.at
FROM member m JOIN granted g ON g.who = m.team WHERE m.principal = :principal

-- name: grants_erase
DELETE FROM granted WHERE session = :session

-- name: projects_of_accessible_sessions
-- The projects with a session that a principal opened or was granted by itself.
SELECT DISTINCT project FROM session WHERE owner = :me
UNION SELECT s.project FROM granted g JOIN session s ON s.id = g.session WHERE g.who = :me AND g.session <> ''
UNION SELECT s.project FROM member m JOIN granted g ON g.who = m.team JOIN session s ON s.id = g.session
WHERE m.principal = :me AND g.session <> ''

-- name: key_add
INSERT INTO api_key (id, principal, hash, scopes, project, label, at, until, used_at, given_by)
VALUES (:id, :principal, :hash, :scopes, :project, :label, {now}, :until, 0, :given_by)
RETURNING at

-- name: key_read
-- A link is nobody's; it is as good as who gave it.
SELECT k.id, k.principal, k.hash, k.scopes, k.project, k.label, k.at, k.until, k.used_at, k.given_by,
    coalesce(p.disabled, 0)
FROM api_key k
    LEFT JOIN principal p ON p.name = CASE WHEN substr(k.principal, 1, 5) = 'link:' THEN k.given_by ELSE k.principal END
WHERE k.id = :id

-- name: key_used
UPDATE api_key SET used_at = :at WHERE id = :id AND used_at < :at RETURNING id

-- name: key_redeem
-- Only the first who comes with a key that is good for once.
UPDATE api_key SET used_at = {now} WHERE id = :id AND used_at = 0 AND scopes = 'login' RETURNING id

-- name: key_end
UPDATE api_key SET until = :until WHERE id = :id AND (until = 0 OR until > :until) RETURNING id

-- name: keys_of
SELECT id, principal, hash, scopes, project, label, at, until, used_at, given_by, 0 FROM api_key
WHERE TRUE
--if principal AND principal = :principal
ORDER BY principal, at, id

-- name: agent_set
INSERT INTO agent (name, project, runtime, model, instructions, tools, owner, place, rules, at)
VALUES (:name, :project, :runtime, :model, :instructions, :tools, :owner, :place, :rules, {now})
ON CONFLICT (name) DO UPDATE SET project = excluded.project, runtime = excluded.runtime, model = excluded.model,
    instructions = excluded.instructions, tools = excluded.tools, owner = excluded.owner, place = excluded.place,
    rules = excluded.rules, at = excluded.at

-- name: agent_remove
DELETE FROM agent WHERE name = :name RETURNING name

-- name: agents
SELECT name, project, runtime, model, instructions, tools, owner, place, rules, at FROM agent ORDER BY name

-- name: setting_set
INSERT INTO setting (project, name, value) VALUES (:project, :name, :value)
ON CONFLICT (project, name) DO UPDATE SET value = excluded.value

-- name: settings
SELECT project, name, value FROM setting ORDER BY project, name

-- name: answer_read
SELECT request, status, answer FROM answered WHERE principal = :principal AND key = :key

-- name: answer_add
INSERT INTO answered (principal, key, request, status, answer, at)
VALUES (:principal, :key, :request, :status, :answer, {now})
ON CONFLICT (principal, key) DO NOTHING
RETURNING status

-- name: answers_about
-- Answers that tell of a session.
--lite DELETE FROM answered WHERE instr(answer, CAST(:session AS BLOB)) > 0
--pg DELETE FROM answered WHERE position(convert_to(:session, 'UTF8') IN answer) > 0

-- name: answers_forget
DELETE FROM answered WHERE at < {now} - :age

-- Audit ----------------------------------------------------------------------------------------------------------------

-- name: heads_between
-- Where each session with an event between two positions stood at the second of them. Nothing is joined but by a whole
-- primary key: with a join on the project as well PostgreSQL reads all sessions of it for each of them.
SELECT s.id, (SELECT name FROM project p WHERE p.key = s.project), s.opened_at, s.control, n.seq,
    (SELECT digest FROM event e WHERE e.project = n.project AND e.session = n.session AND e.seq = n.seq)
FROM (
    SELECT project, session, max(seq) AS seq FROM event WHERE position > :after AND position <= :upto
    GROUP BY project, session
) n
JOIN session s ON s.key = n.session
ORDER BY s.key

-- name: leaf_add
INSERT INTO leaf (number, session, statement, hashes) VALUES (:number, :session, :statement, :hashes)

-- name: leaf_read
SELECT statement, hashes FROM leaf WHERE number = :number

-- name: leaf_of
-- The newest leaf about a session in a tree of this size.
SELECT number, statement FROM leaf WHERE session = :session AND number < :size ORDER BY number DESC LIMIT 1

-- name: leaves
SELECT number, session, statement, hashes FROM leaf WHERE number > :after AND number < :size ORDER BY number LIMIT :limit

-- name: event_digest_of
-- The digest of an event, by the id of the session that wrote it.
SELECT e.digest FROM session s JOIN event e ON e.project = s.project AND e.session = s.key
WHERE s.id = :session AND e.seq = :seq

-- name: checkpoint_add
INSERT INTO checkpoint (number, size, note, signer) VALUES (:number, :size, :note, :signer)

-- name: checkpoint_newest
SELECT number, size, note, signer FROM checkpoint ORDER BY number DESC LIMIT 1

-- name: tree_extent
-- In one look, so that a checkpoint that is being made is there whole or not at all.
SELECT (SELECT max(number) + 1 FROM leaf), (SELECT max(size) FROM checkpoint)

-- name: checkpoint_read
SELECT number, size, note, signer FROM checkpoint WHERE number = :number

-- name: checkpoints
SELECT number, size, note, signer FROM checkpoint WHERE number > :after ORDER BY number LIMIT :limit

-- name: checkpoints_before
SELECT number, size, note, signer FROM checkpoint WHERE number < :before ORDER BY number DESC LIMIT :limit

-- name: standings
-- Every session with what is stated of it in the tree, also one whose other rows are gone.
SELECT s.key, s.id, p.name, s.project, s.opened_at, s.control, s.upto, q.id, h.head
FROM session s LEFT JOIN project p ON p.key = s.project LEFT JOIN session q ON q.key = s.parent
    LEFT JOIN head h ON h.project = s.project AND h.session = s.key
WHERE s.key > :after
--if project AND p.name = :project
ORDER BY s.key LIMIT :limit

-- name: first_position
-- The lowest position of the events of a session after one of them.
SELECT min(position) FROM event WHERE project = :project AND session = :session AND seq > :seq

-- name: strays
-- Events of no session.
SELECT e.project, e.session, min(e.seq) FROM event e
WHERE NOT EXISTS (SELECT 1 FROM session s WHERE s.key = e.session AND s.project = e.project)
GROUP BY e.project, e.session ORDER BY 1, 2 LIMIT :limit

-- name: control_logs
SELECT s.key, s.project, p.name, s.id FROM session s JOIN project p ON p.key = s.project
WHERE s.control = 1
--if project AND p.name = :project
ORDER BY s.key

-- name: entries_before
-- What a control log holds, newest first.
SELECT seq, position, at, said_at, actor, source, digest, kind, version, body, blob, seal
FROM event WHERE project = :project AND session = :session AND position < :before
--if since AND at >= :since
--if until AND at < :until
--if principal AND actor = :principal
ORDER BY seq DESC LIMIT :limit
