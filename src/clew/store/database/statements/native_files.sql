-- Native files of agent programs, and their segments.

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
