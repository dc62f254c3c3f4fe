-- Objects: what names each, and where its bytes are. Rows are locked in the order of their digests, packs after them.

-- Naming an object ends its grace; `waits` is 1 for an object that nothing names yet.
-- name: object_add
INSERT INTO blob (digest, size, refs, at, data, pack, start, length)
VALUES (:digest, :size, :refs, CASE WHEN :waits = 1 THEN {now} ELSE 0 END, :data, :pack, :start, :length)
ON CONFLICT (digest) DO UPDATE SET refs = blob.refs + :refs, at = excluded.at
RETURNING pack, start

-- name: object_add_packed
INSERT INTO blob (digest, size, refs, at, pack, start, length)
VALUES (:digest, :size, 0, {now}, :pack, :start, :length)
ON CONFLICT (digest) DO UPDATE SET at = excluded.at

-- name: object_ref
UPDATE blob SET refs = refs + :refs, at = CASE WHEN :refs > 0 THEN 0 ELSE at END WHERE digest = :digest RETURNING size

-- Begin the grace of an object anew: somebody is about to name it.
-- name: object_touch
UPDATE blob SET at = {now} WHERE digest = :digest RETURNING size

-- name: object_lock
SELECT digest FROM blob WHERE digest = :digest {for_update}

-- name: object_read
SELECT b.data, b.size, p.place, b.pack, b.start, b.length FROM blob b LEFT JOIN pack p ON p.name = b.pack
WHERE b.digest = :digest

-- name: object_stat
SELECT size, refs FROM blob WHERE digest = :digest

-- name: objects_known
SELECT digest FROM blob
--pg WHERE digest IN (SELECT decode(json_array_elements_text(CAST(:names AS json)), 'hex'))
--lite WHERE digest IN (SELECT unhex(value) FROM json_each(:names))

-- name: objects_sizes
SELECT digest, size FROM blob
--pg WHERE digest IN (SELECT decode(json_array_elements_text(CAST(:names AS json)), 'hex'))
--lite WHERE digest IN (SELECT unhex(value) FROM json_each(:names))

-- Count names without an answer, for many rows at once.
-- name: object_name_often
UPDATE blob SET refs = refs + :refs, at = 0 WHERE digest = :digest

-- The objects that are here, locked in order: whoever names them next relies on them.
-- name: objects_lock
SELECT digest FROM blob
--pg WHERE digest IN (SELECT decode(json_array_elements_text(CAST(:names AS json)), 'hex'))
--lite WHERE digest IN (SELECT unhex(value) FROM json_each(:names))
ORDER BY digest {for_update}

-- name: objects_touch
UPDATE blob SET at = {now}
--pg WHERE digest IN (SELECT decode(json_array_elements_text(CAST(:names AS json)), 'hex'))
--lite WHERE digest IN (SELECT unhex(value) FROM json_each(:names))

-- name: objects_read
SELECT b.digest, b.data, b.size, p.place, b.pack, b.start, b.length FROM blob b LEFT JOIN pack p ON p.name = b.pack
--pg WHERE b.digest IN (SELECT decode(json_array_elements_text(CAST(:names AS json)), 'hex'))
--lite WHERE b.digest IN (SELECT unhex(value) FROM json_each(:names))
ORDER BY b.pack, b.start

-- name: objects_after
SELECT digest FROM blob WHERE digest > :after ORDER BY digest LIMIT :limit

-- name: objects_unnamed
SELECT digest FROM blob WHERE refs <= 0 AND at <= {now} - :grace ORDER BY at LIMIT :limit

-- name: object_forget
DELETE FROM blob WHERE digest = :digest AND refs <= 0 AND at <= {now} - :grace
RETURNING size, pack, CASE WHEN data IS NULL AND pack IS NULL THEN 1 ELSE 0 END

-- name: object_move
UPDATE blob SET pack = :pack, start = :start WHERE digest = :digest AND pack = :old AND start = :old_start
RETURNING size

-- name: loose_known
SELECT 1 FROM blob WHERE digest = :digest AND data IS NULL AND pack IS NULL

-- name: objects_summary
SELECT count(*), coalesce(sum(size), 0), count(pack), coalesce(sum(CASE WHEN refs <= 0 THEN 1 ELSE 0 END), 0) FROM blob

-- Manifests: objects that name others.

-- name: manifest_add
INSERT INTO manifest (digest, names) VALUES (:digest, :names) ON CONFLICT DO NOTHING RETURNING names

-- name: manifest_add_often
INSERT INTO manifest (digest, names) VALUES (:digest, :names) ON CONFLICT DO NOTHING

-- name: manifests_known
SELECT DISTINCT digest FROM manifest
--pg WHERE digest IN (SELECT decode(json_array_elements_text(CAST(:names AS json)), 'hex'))
--lite WHERE digest IN (SELECT unhex(value) FROM json_each(:names))

-- name: manifest_names
SELECT names FROM manifest WHERE digest = :digest ORDER BY names

-- name: manifest_forget
DELETE FROM manifest WHERE digest = :digest RETURNING names

-- Whether one of these objects names another, itself or through others.
-- name: manifest_reaches
WITH RECURSIVE reached (digest) AS (
    SELECT digest FROM blob
--pg WHERE digest IN (SELECT decode(json_array_elements_text(CAST(:names AS json)), 'hex'))
--lite WHERE digest IN (SELECT unhex(value) FROM json_each(:names))
    UNION SELECT m.names FROM manifest m JOIN reached r ON m.digest = r.digest
)
SELECT 1 FROM reached WHERE digest = :digest LIMIT 1

-- Those of these objects that an object names itself.
-- name: manifest_has
SELECT names FROM manifest WHERE digest = :digest
--pg AND names IN (SELECT decode(json_array_elements_text(CAST(:names AS json)), 'hex'))
--lite AND names IN (SELECT unhex(value) FROM json_each(:names))

-- Those of these objects that are among the roots, or that a root names, itself or through others.
-- name: manifest_reached
WITH RECURSIVE reached (digest) AS (
    SELECT digest FROM blob
--pg WHERE digest IN (SELECT decode(json_array_elements_text(CAST(:roots AS json)), 'hex'))
--lite WHERE digest IN (SELECT unhex(value) FROM json_each(:roots))
    UNION SELECT m.names FROM manifest m JOIN reached r ON m.digest = r.digest
)
SELECT digest FROM reached
--pg WHERE digest IN (SELECT decode(json_array_elements_text(CAST(:names AS json)), 'hex'))
--lite WHERE digest IN (SELECT unhex(value) FROM json_each(:names))

-- Objects that another names and that are not here.
-- name: objects_missing
SELECT DISTINCT m.names FROM manifest m LEFT JOIN blob b ON b.digest = m.names WHERE b.digest IS NULL ORDER BY m.names
LIMIT :limit

-- Which objects name these.
-- name: manifests_naming
SELECT digest, names FROM manifest
--pg WHERE names IN (SELECT decode(json_array_elements_text(CAST(:names AS json)), 'hex'))
--lite WHERE names IN (SELECT unhex(value) FROM json_each(:names))

-- Which events have one of these objects as their body.
-- name: bodies_in_objects
SELECT e.blob, s.id, e.seq FROM event e JOIN session s ON s.key = e.session AND s.project = e.project
--pg WHERE e.blob IN (SELECT decode(json_array_elements_text(CAST(:names AS json)), 'hex'))
--lite WHERE e.blob IN (SELECT unhex(value) FROM json_each(:names))
ORDER BY e.position

-- Which native files have one of these objects as a part.
-- name: segments_in_objects
SELECT g.blob, s.id, o.path, o.machine, g.start, g.length
FROM segment g JOIN original o ON o.key = g.original JOIN session s ON s.key = o.session AND s.project = o.project
--pg WHERE g.blob IN (SELECT decode(json_array_elements_text(CAST(:names AS json)), 'hex')) AND g.data IS NULL
--lite WHERE g.blob IN (SELECT unhex(value) FROM json_each(:names)) AND g.data IS NULL
ORDER BY o.path, g.start

-- Point an object to a sound copy of its bytes.
-- name: object_mend
UPDATE blob SET data = :data, pack = :pack, start = :start, length = :length WHERE digest = :digest RETURNING size

-- Whether there is any object that names others.
-- name: manifests_any
SELECT 1 FROM manifest LIMIT 1

-- What these objects take, with all that they name in turn: how many, their bytes, and what these take compressed.
-- name: manifest_sizes
WITH RECURSIVE reached (digest) AS (
    SELECT digest FROM blob
--pg WHERE digest IN (SELECT decode(json_array_elements_text(CAST(:roots AS json)), 'hex'))
--lite WHERE digest IN (SELECT unhex(value) FROM json_each(:roots))
    UNION SELECT m.names FROM manifest m JOIN reached r ON m.digest = r.digest
)
SELECT count(*), coalesce(sum(b.size), 0), coalesce(sum(coalesce(b.length, length(b.data), b.size)), 0)
FROM reached r JOIN blob b ON b.digest = r.digest

-- Packs. The writer of a pack and the collector both add its row, and the first one decides what becomes of it.

-- name: pack_add
INSERT INTO pack (name, place, state, at) VALUES (:name, :store_name, 'kept', {now})
ON CONFLICT (name) DO UPDATE SET at = excluded.at WHERE pack.state IN ('kept', 'thinned')
RETURNING name

-- name: pack_thin
UPDATE pack SET state = 'thinned', at = {now} WHERE name = :name AND state = 'kept'

-- name: packs_in_state
SELECT name, place FROM pack WHERE state = :state AND name > :after AND at <= {now} - :grace ORDER BY name LIMIT :limit

-- name: pack_state
SELECT state FROM pack WHERE name = :name

-- name: pack_objects
SELECT digest, start, length FROM blob WHERE pack = :name ORDER BY start

-- name: pack_lock
SELECT name FROM pack WHERE name = :name {for_update}

-- `waits` is 1 for a pack whose objects were moved: a backup under way may still copy rows that point to it.
-- name: pack_leave
UPDATE pack SET state = 'leaving', at = CASE WHEN :waits = 1 THEN {now} ELSE 0 END
WHERE name = :name AND state = 'thinned' AND NOT EXISTS (SELECT 1 FROM blob WHERE pack = :name)

-- A pack that nobody finished, or parts of it that came after it was removed.
-- name: pack_abandon
INSERT INTO pack (name, place, state, at) VALUES (:name, :store_name, 'leaving', 0)
ON CONFLICT (name) DO UPDATE SET state = 'leaving', at = excluded.at WHERE pack.state = 'gone'

-- name: pack_gone
UPDATE pack SET state = 'gone', at = {now} WHERE name = :name AND state = 'leaving'

-- name: packs_gone_since
SELECT 1 FROM pack WHERE state = 'gone' AND at <= {now} - :keep LIMIT 1

-- name: packs_forget
DELETE FROM pack WHERE state = 'gone' AND at <= {now} - :keep

-- name: packs_summary
SELECT place, state, count(*) FROM pack GROUP BY place, state ORDER BY place, state

-- name: packs_at
SELECT name FROM pack WHERE place = :store_name AND state IN ('kept', 'thinned') AND name > :after ORDER BY name LIMIT :limit

-- Parts of packs in PostgreSQL.

-- name: part_write
--pg INSERT INTO part (key, at, data) VALUES (:key, {now}, :data)
--pg ON CONFLICT (key) DO UPDATE SET at = excluded.at, data = excluded.data
--lite SELECT 0

-- name: part_read
--pg SELECT substring(data FROM CAST(:start AS INTEGER) FOR CAST(:length AS INTEGER)) FROM part WHERE key = :key
--lite SELECT 0

-- name: part_remove
--pg DELETE FROM part WHERE key = :key
--lite SELECT 0

-- name: part_list
--pg SELECT key, {now} - at FROM part WHERE key >= :first AND key > :after AND key < :last ORDER BY key LIMIT :limit
--lite SELECT 0

-- name: database_size
--pg SELECT pg_database_size(current_database())
--lite SELECT 0
