-- Cursors: how far a reader of the whole log has come.

-- name: cursor_read
SELECT position FROM cursor WHERE name = :name

-- name: cursor_move
INSERT INTO cursor (name, position, at) VALUES (:name, :position, {now})
ON CONFLICT (name) DO UPDATE SET position = excluded.position, at = excluded.at
RETURNING position
