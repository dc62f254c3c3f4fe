-- The text index: a passage is an event that says something. Its id grows with the hour in which it was said, so that
-- the newest come first without sorting; `at` is in seconds. The text itself stays in the log.
CREATE TABLE passage (
    id {id},
    session BIGINT NOT NULL,
    seq BIGINT NOT NULL,
--pg    words TSVECTOR NOT NULL,
    at BIGINT NOT NULL
);
-- What found no room in its hour (views/text.py: 1,024 in 3,600 seconds), by how many hours further it lies.
--lite CREATE INDEX passage_spilled ON passage (id / 1024 - at / 3600) WHERE id / 1024 > at / 3600;
--pg CREATE INDEX passage_spilled ON passage ((id / 1024 - at / 3600)) WHERE id / 1024 > at / 3600;
--lite CREATE VIRTUAL TABLE words USING fts5 (text, content='', contentless_delete=1, detail=none, tokenize='ascii');
--pg CREATE INDEX passage_words ON passage USING gin (words);

-- What the text index must remember of a session from one event to the next: its runtime, the tools of the calls that
-- have not returned, and what the clock showed last.
CREATE TABLE speaking (
    session {id},
    runtime TEXT NOT NULL,
    calls TEXT NOT NULL,
    at BIGINT NOT NULL
);

-- The planner keeps no samples of what sessions say of themselves, so that none outlives an erasure.
--pg ALTER TABLE passage ALTER words SET STATISTICS 0;
--pg ALTER TABLE speaking ALTER runtime SET STATISTICS 0, ALTER calls SET STATISTICS 0;

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
--if status AND p.session IN (SELECT session FROM listing WHERE CASE WHEN state <> 'active' THEN state
--if status     WHEN last_at < CASE waiting WHEN 1 THEN CAST(:unanswered_since AS BIGINT)
--if status         ELSE CAST(:quiet_since AS BIGINT) END THEN 'idle'
--if status     WHEN waiting = 1 THEN 'waiting' ELSE 'active' END = :status)
--if me AND EXISTS (SELECT 1 FROM listing l WHERE l.session = p.session AND {reached(l.project, l.person, l.session, l.private, l.agent)})
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
--if status AND p.session IN (SELECT session FROM listing WHERE CASE WHEN state <> 'active' THEN state
--if status     WHEN last_at < CASE waiting WHEN 1 THEN CAST(:unanswered_since AS BIGINT)
--if status         ELSE CAST(:quiet_since AS BIGINT) END THEN 'idle'
--if status     WHEN waiting = 1 THEN 'waiting' ELSE 'active' END = :status)
--if me AND EXISTS (SELECT 1 FROM listing l WHERE l.session = p.session AND {reached(l.project, l.person, l.session, l.private, l.agent)})
LIMIT :limit) AS counted

-- name: passages
-- All passages, newest first: for a search that has no word.
SELECT p.id, p.session, p.seq, p.at FROM passage p
WHERE p.id < :before AND p.id >= :first
--if since AND p.at >= :since
--if until AND p.at < :until
--if status AND p.session IN (SELECT session FROM listing WHERE CASE WHEN state <> 'active' THEN state
--if status     WHEN last_at < CASE waiting WHEN 1 THEN CAST(:unanswered_since AS BIGINT)
--if status         ELSE CAST(:quiet_since AS BIGINT) END THEN 'idle'
--if status     WHEN waiting = 1 THEN 'waiting' ELSE 'active' END = :status)
--if me AND EXISTS (SELECT 1 FROM listing l WHERE l.session = p.session AND {reached(l.project, l.person, l.session, l.private, l.agent)})
ORDER BY p.id DESC LIMIT :limit
