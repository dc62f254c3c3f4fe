-- Labels: the tags, stars and notes of each session. The name of a star is the principal whose it is.
CREATE TABLE label (
--pg    project BIGINT NOT NULL,
    session BIGINT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    text TEXT NOT NULL,
    actor TEXT NOT NULL,
    seq BIGINT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (session, kind, name)
){clustered};
CREATE INDEX label_name ON label (kind, name, session);

-- The planner keeps no samples of what sessions say of themselves, so that none outlives an erasure.
--pg ALTER TABLE label ALTER name SET STATISTICS 0, ALTER text SET STATISTICS 0, ALTER actor SET STATISTICS 0;

--pg ALTER TABLE label ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON label USING ({in_reach(project)});

-- name: labels_clear
DELETE FROM label

-- name: labels_drop
DELETE FROM label WHERE session = :session

-- name: labels_add
INSERT INTO label (
--pg    project,
    session, kind, name, text, actor, seq, at)
VALUES (
--pg    :project,
    :session, :kind, :name, :text, :actor, :seq, :at)
ON CONFLICT (session, kind, name) DO NOTHING

-- name: labels_remove
DELETE FROM label WHERE session = :session AND kind = :kind AND name = :name

-- name: labels_of
-- Of the stars, only the one of this principal.
SELECT session, kind, name, text, actor, seq, at FROM label
--lite WHERE session IN ({keys})
--pg WHERE session = ANY (ARRAY({keys}))
AND (kind <> 'star' OR name = :principal)
ORDER BY session, kind, seq, name

-- name: labels_tags
SELECT t.name, count(*), max(l.last_at)
FROM label t JOIN listing l ON l.session = t.session
WHERE t.kind = 'tag'
--if project AND l.project = :project
--if projects AND l.project IN ({projects})
--if me AND {reached(l.project, l.person, l.session, l.private, l.agent)}
GROUP BY t.name ORDER BY count(*) DESC, t.name LIMIT :limit

-- name: labels_sessions
-- The sessions with a label.
SELECT t.session FROM label t JOIN listing l ON l.session = t.session
WHERE t.kind = :kind AND t.name = :name
--if me AND {reached(l.project, l.person, l.session, l.private, l.agent)}
LIMIT :limit
