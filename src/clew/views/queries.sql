-- Every statement of the views, by name, one text for both databases. A line after `--if name` is there only when that
-- parameter is given.

-- name: views
SELECT name, version, position FROM view

-- name: views_lock
-- One process folds at a time; SQLite has one writer anyway.
SELECT version FROM clew_views {for_update}

-- name: view_set
INSERT INTO view (name, version, position) VALUES (:name, :version, :position)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, position = excluded.position

-- The list ------------------------------------------------------------------------------------------------------------

-- name: listing_clear
DELETE FROM listing

-- name: listing_drop
DELETE FROM listing WHERE session = :session

-- name: listing_of
SELECT session, project, id, title, agent, person, runtime, machine, folder, state, outcome, events, turns, calls,
    errors, began_at, said_at, kept_at, last_at, private, called_by
FROM listing WHERE session = :session

-- name: listing_set
INSERT INTO listing (session, project, id, title, agent, person, runtime, machine, folder, state, outcome, events,
    turns, calls, errors, began_at, said_at, kept_at, last_at, private, called_by)
VALUES (:session, :project, :id, :title, :agent, :person, :runtime, :machine, :folder, :state, :outcome, :events,
    :turns, :calls, :errors, :began_at, :said_at, :kept_at, :last_at, :private, :called_by)
ON CONFLICT (session) DO UPDATE SET title = excluded.title, agent = excluded.agent, person = excluded.person,
    runtime = excluded.runtime, machine = excluded.machine, folder = excluded.folder, state = excluded.state,
    outcome = excluded.outcome, events = excluded.events, turns = excluded.turns, calls = excluded.calls,
    errors = excluded.errors, began_at = excluded.began_at, said_at = excluded.said_at, kept_at = excluded.kept_at,
    last_at = excluded.last_at, private = excluded.private, called_by = excluded.called_by

-- name: listing
SELECT session, project, id, title, agent, person, runtime, machine, folder, state, outcome, events, turns, calls,
    errors, began_at, said_at, kept_at, last_at, private, called_by
FROM listing l
WHERE last_at <= :before_at AND (last_at < :before_at OR session < :before)
--if project AND project = :project
--if agent AND agent = :agent
--if person AND person = :person
--if runtime AND runtime = :runtime
--if state AND state = :state
--if machine AND machine = :machine
--if since AND last_at >= :since
--if until AND CASE WHEN began_at > 0 THEN began_at ELSE last_at END < :until
--if failed AND errors > 0
--lite --if keys AND session IN ({keys})
--pg --if keys AND session = ANY (ARRAY({keys}))
--if me AND {listing_reached}
ORDER BY last_at DESC, session DESC LIMIT :limit

-- name: listing_called_by
SELECT id FROM listing l
WHERE called_by = :native AND called_by <> '' AND runtime = :runtime
--if me AND {listing_reached}
ORDER BY session LIMIT :limit

-- The working set -----------------------------------------------------------------------------------------------------

-- name: touched_clear
DELETE FROM touched

-- name: touched_drop
DELETE FROM touched WHERE session = :session

-- name: touched_add
INSERT INTO touched (session, type, what, name, read, written, read_seq, written_seq, last_at)
VALUES (:session, :type, :what, :name, :read, :written, :read_seq, :written_seq, :last_at)
ON CONFLICT (session, type, what) DO UPDATE SET read = touched.read + excluded.read,
    written = touched.written + excluded.written,
    read_seq = CASE WHEN excluded.read_seq > 0 THEN excluded.read_seq ELSE touched.read_seq END,
    written_seq = CASE WHEN excluded.written_seq > 0 THEN excluded.written_seq ELSE touched.written_seq END,
    last_at = CASE WHEN excluded.last_at > touched.last_at THEN excluded.last_at ELSE touched.last_at END

-- name: touched_by_name
SELECT t.session, t.type, t.what, t.read, t.written, t.read_seq, t.written_seq, t.last_at, l.id, l.title, l.runtime,
    l.project
FROM touched t JOIN listing l ON l.session = t.session
WHERE t.name = :name
--if type AND t.type = :type
--if project AND l.project = :project
--if me AND {listing_reached}
ORDER BY t.last_at DESC, t.session DESC LIMIT :limit

-- Usage ---------------------------------------------------------------------------------------------------------------

-- name: spending_clear
DELETE FROM spending

-- name: spending_drop
DELETE FROM spending WHERE session = :session

-- name: spending_add
INSERT INTO spending (session, record, message, position, at, model, input, output, cache_read, cache_write,
    cache_write_hour, reasoning, cost_micros)
VALUES (:session, :record, :message, :position, :at, :model, :input, :output, :cache_read, :cache_write,
    :cache_write_hour, :reasoning, :cost_micros)
ON CONFLICT (session, record) DO UPDATE SET message = excluded.message, position = excluded.position, at = excluded.at,
    model = excluded.model, input = excluded.input, output = excluded.output, cache_read = excluded.cache_read,
    cache_write = excluded.cache_write, cache_write_hour = excluded.cache_write_hour, reasoning = excluded.reasoning,
    cost_micros = excluded.cost_micros

-- name: spending
-- What each session used, by model and day, apart by whether the runtime said itself what it cost; `offset` is how far
-- the person's clock is ahead of UTC.
SELECT s.session, s.model, (s.at + :offset) / 86400000000, CASE WHEN s.cost_micros > 0 THEN 1 ELSE 0 END,
    sum(s.input), sum(s.output), sum(s.cache_read), sum(s.cache_write), sum(s.cache_write_hour), sum(s.reasoning),
    sum(s.cost_micros), count(DISTINCT s.message)
FROM spending s
WHERE s.at >= :since AND s.at < :until
    AND s.session = (SELECT o.session FROM spending o WHERE o.message = s.message ORDER BY o.position LIMIT 1)
--if keys AND s.session IN ({keys})
GROUP BY s.session, s.model, 3, 4

-- name: spending_times
SELECT coalesce(min(at), 0), coalesce(max(at), 0) FROM spending

-- name: listing_all
SELECT session, project, id, title, agent, person, runtime, machine FROM listing l WHERE TRUE
--if me AND {listing_reached}

-- The text index ------------------------------------------------------------------------------------------------------

-- name: passage_clear
DELETE FROM passage

-- name: words_clear
--lite INSERT INTO words (words) VALUES ('delete-all')

-- name: speaking_clear
DELETE FROM speaking

-- name: passage_last
SELECT coalesce(max(id), -1) FROM passage WHERE id >= :first AND id < :beyond

-- name: passage_spilled
-- How many hours beyond its own a passage lies at the most.
SELECT coalesce(max(id / 1024 - at / 3600), 0) FROM passage WHERE id / 1024 > at / 3600

-- name: passage_add
--lite INSERT INTO passage (id, session, seq, at) VALUES (:id, :session, :seq, :at)
--pg INSERT INTO passage (id, session, seq, at, words)
--pg SELECT id, session, seq, at, array_to_tsvector(string_to_array(text, ' '))
--pg FROM json_to_recordset(CAST(:rows AS json)) AS r (id BIGINT, session BIGINT, seq BIGINT, at BIGINT, text TEXT)

-- name: words_settle
-- New rows wait in a list that every search reads from end to end; many at once are better put in their places.
--pg SELECT gin_clean_pending_list('passage_words')

-- name: words_add
--lite INSERT INTO words (rowid, text) VALUES (:id, :text)

-- name: passage_drop
--lite DELETE FROM passage WHERE id IN (SELECT rowid FROM words WHERE words MATCH :match) RETURNING id
--pg DELETE FROM passage WHERE words @@ CAST(:match AS tsquery) RETURNING id

-- name: words_drop
--lite DELETE FROM words WHERE rowid = :id

-- name: words_merge
-- Merges the whole index anew, so that nothing is left of what was deleted.
--lite INSERT INTO words (words) VALUES ('optimize')

-- name: speaking_of
SELECT runtime, calls, at FROM speaking WHERE session = :session

-- name: speaking_set
INSERT INTO speaking (session, runtime, calls, at) VALUES (:session, :runtime, :calls, :at)
ON CONFLICT (session) DO UPDATE SET runtime = excluded.runtime, calls = excluded.calls, at = excluded.at

-- name: speaking_drop
DELETE FROM speaking WHERE session = :session

-- name: hits
-- The passages that match, newest first. PostgreSQL looks the words up first, whatever it guesses about the order; it
-- takes any stretch of ids for a short one, and would rather read all of it than use the words: + 0 hides them.
--lite SELECT p.id, p.session, p.seq, p.at FROM words w CROSS JOIN passage p ON p.id = w.rowid
--lite WHERE words MATCH :match AND w.rowid < :before AND w.rowid >= :first
--pg WITH p AS MATERIALIZED (
--pg     SELECT id, session, seq, at FROM passage
--pg     WHERE words @@ CAST(:match AS tsquery) AND id + 0 < :before AND id + 0 >= :first)
--pg SELECT p.id, p.session, p.seq, p.at FROM p WHERE TRUE
--if since AND p.at >= :since
--if until AND p.at < :until
--if state AND p.session IN (SELECT session FROM listing WHERE state = :state)
--if me AND EXISTS (SELECT 1 FROM listing l WHERE l.session = p.session AND {listing_reached})
--lite ORDER BY w.rowid DESC LIMIT :limit
--pg ORDER BY p.id DESC LIMIT :limit

-- name: hits_count
-- How many there are, up to a limit. Passages are looked at only when something is asked of them.
SELECT count(*) FROM (
--lite SELECT 1 FROM words w
--pg SELECT 1 FROM passage p
--lite --if joined CROSS JOIN passage p ON p.id = w.rowid
--lite WHERE words MATCH :match AND w.rowid < :before AND w.rowid >= :first
--pg WHERE p.words @@ CAST(:match AS tsquery) AND p.id + 0 < :before AND p.id + 0 >= :first
--if since AND p.at >= :since
--if until AND p.at < :until
--if state AND p.session IN (SELECT session FROM listing WHERE state = :state)
--if me AND EXISTS (SELECT 1 FROM listing l WHERE l.session = p.session AND {listing_reached})
LIMIT :limit) AS counted

-- name: passages
-- All passages, newest first: for a search that has no word.
SELECT p.id, p.session, p.seq, p.at FROM passage p
WHERE p.id < :before AND p.id >= :first
--if since AND p.at >= :since
--if until AND p.at < :until
--if state AND p.session IN (SELECT session FROM listing WHERE state = :state)
--if me AND EXISTS (SELECT 1 FROM listing l WHERE l.session = p.session AND {listing_reached})
ORDER BY p.id DESC LIMIT :limit
