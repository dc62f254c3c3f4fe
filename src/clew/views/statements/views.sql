-- Every view: how far it has come. A line after `--if name` is there only when that parameter is given.

-- How far each view has come, and by which version of its fold.
CREATE TABLE view (
    name TEXT PRIMARY KEY,
    version BIGINT NOT NULL,
    position BIGINT NOT NULL
);

-- name: views
SELECT name, version, position FROM view

-- name: views_lock
-- One process folds at a time; SQLite has one writer anyway.
SELECT version FROM clew_views {for_update}

-- name: view_set
INSERT INTO view (name, version, position) VALUES (:name, :version, :position)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, position = excluded.position
