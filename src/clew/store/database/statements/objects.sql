-- Blobs, and how many events name each.

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

-- name: database_size
--pg SELECT pg_database_size(current_database())
--lite SELECT 0
