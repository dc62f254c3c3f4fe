-- The repositories and folders that projects are captured from, and projects that become part of others.

-- name: place_read
-- What is known of a place, with the key and the name that its project has now.
SELECT l.id, COALESCE(r.key, p.key), COALESCE(r.name, p.name), l.machine, l.place, l.mark, l.is_root, l.is_set, l.at
FROM place l JOIN project p ON p.key = l.project LEFT JOIN project r ON r.key = p.part_of
WHERE l.id = :id

-- name: places_with_mark
SELECT l.id, COALESCE(r.key, p.key), COALESCE(r.name, p.name), l.machine, l.place, l.mark, l.is_root, l.is_set, l.at
FROM place l JOIN project p ON p.key = l.project LEFT JOIN project r ON r.key = p.part_of
WHERE l.mark = :mark AND l.mark <> '' AND l.machine = :machine AND l.place <> '' ORDER BY l.at DESC

-- name: places_shown
-- The repositories and folders that have a text.
SELECT l.id, COALESCE(r.key, p.key), COALESCE(r.name, p.name), l.machine, l.place, l.mark, l.is_root, l.is_set, l.at
FROM place l JOIN project p ON p.key = l.project LEFT JOIN project r ON r.key = p.part_of
WHERE l.place <> '' ORDER BY l.machine, l.place

-- name: places_of
-- All places of a project.
SELECT l.id, COALESCE(r.key, p.key), COALESCE(r.name, p.name), l.machine, l.place, l.mark, l.is_root, l.is_set, l.at
FROM place l JOIN project p ON p.key = l.project LEFT JOIN project r ON r.key = p.part_of
WHERE l.project IN ({keys_of_project}) ORDER BY l.machine, l.place

-- name: place_reserve
-- Whoever adds the row first decides what it belongs to; anybody else waits for that.
INSERT INTO place (id, project, machine, place, mark, is_root, is_set, at)
VALUES (:id, 0, :machine, :place, :mark, :is_root, 0, {now})
ON CONFLICT (id) DO NOTHING RETURNING id

-- name: place_set
INSERT INTO place (id, project, machine, place, mark, is_root, is_set, at)
VALUES (:id, :project, :machine, :place, :mark, :is_root, :is_set, {now})
ON CONFLICT (id) DO UPDATE SET project = excluded.project, place = excluded.place, mark = excluded.mark,
    is_root = excluded.is_root, is_set = excluded.is_set, at = excluded.at

-- name: places_forget
-- Removes the text of the places of a project that has no session left but erased ones.
UPDATE place SET place = ''
WHERE project = :project AND NOT EXISTS (
    SELECT 1 FROM session s JOIN head h ON h.project = s.project AND h.session = s.key
    WHERE s.project = :project AND s.control = 0 AND h.state <> 'erased' AND s.key <> :session)

-- name: project_lock
SELECT key FROM project WHERE name = :name {for_update}

-- name: project_new
INSERT INTO project (name) VALUES (:name) ON CONFLICT (name) DO NOTHING RETURNING key

-- name: sessions_began
-- How the sessions of a project began: their metadata, and the events that name a working directory.
SELECT s.metadata, e.body FROM session s
    LEFT JOIN event e ON e.project = s.project AND e.session = s.key AND e.seq > s.upto AND e.seq <= s.upto + 4
        AND e.kind = 'runtime_attached'
WHERE s.project IN ({keys_of_project}) AND s.control = 0

-- name: sessions_counted
-- How many sessions each project has that are not erased, by the key that it has now.
SELECT COALESCE(p.part_of, p.key), count(*)
FROM session s JOIN project p ON p.key = s.project JOIN head h ON h.project = s.project AND h.session = s.key
WHERE s.control = 0 AND h.state <> 'erased'
--if me AND {reached(s.project, s.owner, s.key, s.private, s.agent)}
GROUP BY 1

-- name: project_join
-- A project, and all that became part of it before, becomes part of another, which may itself have been part of it.
UPDATE project SET part_of = CASE WHEN key = :into THEN NULL ELSE CAST(:into AS BIGINT) END
WHERE key = :project OR part_of = :project OR key = :into

-- name: grants_on
SELECT id, who, rights, agent, until FROM granted WHERE project = :name AND session = '' ORDER BY id

-- name: grant_move
UPDATE granted SET project = :name WHERE id = :id

-- name: keys_move
UPDATE credential SET project = :name WHERE project = :old RETURNING id

-- name: policies_move
UPDATE policy SET project = :name WHERE project = :old

-- name: policies_drop
DELETE FROM policy WHERE project = :old

-- name: agents_move
UPDATE agent SET project = :name WHERE project = :old
