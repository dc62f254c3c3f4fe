-- The audit tree and its checkpoints.

-- name: heads_between
-- Where each session with an event between two positions stood at the second of them, and in which project it was opened.
-- Nothing is joined but by a whole
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

-- name: checkpoint_lock
-- Two witnesses may countersign at the same time.
SELECT note FROM checkpoint WHERE number = :number {for_update}

-- name: checkpoint_sign
UPDATE checkpoint SET note = :note WHERE number = :number

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
SELECT s.key, s.project, COALESCE(r.name, p.name), s.id
FROM session s JOIN project p ON p.key = s.project LEFT JOIN project r ON r.key = p.part_of
WHERE s.control = 1
--if project AND s.project IN ({keys_of_project})
ORDER BY s.key

-- name: entries_before
-- What a control log holds, newest first.
SELECT seq, position, at, said_at, actor, source, digest, kind, version, body, blob, seal
FROM event WHERE project = :project AND session = :session AND position < :before
--if since AND at >= :since
--if until AND at < :until
--if principal AND actor = :principal
ORDER BY seq DESC LIMIT :limit
