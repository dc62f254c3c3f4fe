-- The text index: a passage is an event that says something. Its id grows with the hour in which it was said, so that
-- the newest come first without sorting; `at` is in seconds. The text itself stays in the log.
CREATE TABLE passage (
--pg    project BIGINT NOT NULL,
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
--pg    project BIGINT NOT NULL,
    session {id},
    runtime TEXT NOT NULL,
    calls TEXT NOT NULL,
    at BIGINT NOT NULL
);

-- The planner keeps no samples of what sessions say of themselves, so that none outlives an erasure.
--pg ALTER TABLE passage ALTER words SET STATISTICS 0;
--pg ALTER TABLE speaking ALTER runtime SET STATISTICS 0, ALTER calls SET STATISTICS 0;

-- Row-level security computes its condition before any other that could show a row, and so before a search for words: the
-- index of words would be of no use. So the owner searches, for whom the policy does not count, in functions that have
-- the same condition. PostgreSQL looks the words up first, whatever it guesses about the order; it takes any stretch of
-- ids for a short one, and would rather read all of it than use the words: + 0 hides them.
--pg ALTER TABLE passage ENABLE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON passage USING ({in_reach(project)});
--pg CREATE FUNCTION passages_with(wanted TSQUERY, before BIGINT, first BIGINT)
--pg RETURNS TABLE (id BIGINT, session BIGINT, seq BIGINT, at BIGINT) LANGUAGE sql STABLE SECURITY DEFINER ROWS 10
--pg BEGIN ATOMIC
--pg     SELECT p.id, p.session, p.seq, p.at FROM passage p
--pg     WHERE p.words @@ wanted AND p.id + 0 < before AND p.id + 0 >= first AND ({in_reach(p.project)});
--pg END;
--pg CREATE FUNCTION drop_passages(wanted TSQUERY) RETURNS SETOF BIGINT LANGUAGE sql SECURITY DEFINER
--pg BEGIN ATOMIC
--pg     DELETE FROM passage p WHERE p.words @@ wanted AND ({in_reach(p.project)}) RETURNING p.id;
--pg END;
--pg CREATE FUNCTION settle_words() RETURNS BIGINT LANGUAGE sql SECURITY DEFINER
--pg     RETURN gin_clean_pending_list(CAST('passage_words' AS regclass));
--pg REVOKE ALL ON FUNCTION passages_with(TSQUERY, BIGINT, BIGINT) FROM PUBLIC;
--pg REVOKE ALL ON FUNCTION drop_passages(TSQUERY) FROM PUBLIC;
--pg REVOKE ALL ON FUNCTION settle_words() FROM PUBLIC;
--pg ALTER TABLE speaking ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON speaking USING ({in_reach(project)});

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
--pg INSERT INTO passage (project, id, session, seq, at, words)
--pg SELECT project, id, session, seq, at, array_to_tsvector(string_to_array(text, ' '))
--pg FROM json_to_recordset(CAST(:rows AS json))
--pg     AS r (project BIGINT, id BIGINT, session BIGINT, seq BIGINT, at BIGINT, text TEXT)

-- name: words_settle
-- New rows wait in a list that every search reads from end to end; many at once are better put in their places.
--pg SELECT settle_words()

-- name: words_add
--lite INSERT INTO words (rowid, text) VALUES (:id, :text)

-- name: passage_drop
--lite DELETE FROM passage WHERE id IN (SELECT rowid FROM words WHERE words MATCH :match) RETURNING id
--pg SELECT drop_passages(CAST(:match AS tsquery))

-- name: words_drop
--lite DELETE FROM words WHERE rowid = :id

-- name: words_merge
-- Merges the whole index anew, so that nothing is left of what was deleted.
--lite INSERT INTO words (words) VALUES ('optimize')

-- name: speaking_of
SELECT runtime, calls, at FROM speaking WHERE session = :session

-- name: speaking_set
INSERT INTO speaking (
--pg    project,
    session, runtime, calls, at)
VALUES (
--pg    :project,
    :session, :runtime, :calls, :at)
ON CONFLICT (session) DO UPDATE SET runtime = excluded.runtime, calls = excluded.calls, at = excluded.at

-- name: speaking_drop
DELETE FROM speaking WHERE session = :session

-- name: hits
-- The passages that match, newest first.
--lite SELECT p.id, p.session, p.seq, p.at FROM words w CROSS JOIN passage p ON p.id = w.rowid
--lite WHERE words MATCH :match AND w.rowid < :before AND w.rowid >= :first
--pg SELECT p.id, p.session, p.seq, p.at FROM passages_with(CAST(:match AS tsquery), :before, :first) p WHERE TRUE
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
-- How many there are, up to a limit. Passages are looked at only when something is asked of them. PostgreSQL calls a
-- function that is selected row by row, and so stops at the limit; one in FROM would run to its end.
SELECT count(*) FROM (
--lite SELECT 1 FROM words w
--pg SELECT 1 FROM (
--pg     SELECT (f.passage).session, (f.passage).at
--pg     FROM (SELECT passages_with(CAST(:match AS tsquery), :before, :first) AS passage) f) p
--pg WHERE TRUE
--lite --if joined CROSS JOIN passage p ON p.id = w.rowid
--lite WHERE words MATCH :match AND w.rowid < :before AND w.rowid >= :first
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

-- name: candidates
-- The passages with any of some words, those with the most weight first.
--lite SELECT p.id, p.session, p.seq, p.at FROM (
--lite SELECT u.id, sum(u.weight) AS weight FROM (
--lite SELECT rowid AS id, CAST(:weight0 AS BIGINT) AS weight FROM words WHERE words MATCH :match0 AND rowid < :before AND rowid >= :first
--lite --if match1 UNION ALL SELECT rowid, CAST(:weight1 AS BIGINT) FROM words WHERE words MATCH :match1 AND rowid < :before AND rowid >= :first
--lite --if match2 UNION ALL SELECT rowid, CAST(:weight2 AS BIGINT) FROM words WHERE words MATCH :match2 AND rowid < :before AND rowid >= :first
--lite --if match3 UNION ALL SELECT rowid, CAST(:weight3 AS BIGINT) FROM words WHERE words MATCH :match3 AND rowid < :before AND rowid >= :first
--lite --if match4 UNION ALL SELECT rowid, CAST(:weight4 AS BIGINT) FROM words WHERE words MATCH :match4 AND rowid < :before AND rowid >= :first
--lite --if match5 UNION ALL SELECT rowid, CAST(:weight5 AS BIGINT) FROM words WHERE words MATCH :match5 AND rowid < :before AND rowid >= :first
--lite --if match6 UNION ALL SELECT rowid, CAST(:weight6 AS BIGINT) FROM words WHERE words MATCH :match6 AND rowid < :before AND rowid >= :first
--lite --if match7 UNION ALL SELECT rowid, CAST(:weight7 AS BIGINT) FROM words WHERE words MATCH :match7 AND rowid < :before AND rowid >= :first
--lite --if match8 UNION ALL SELECT rowid, CAST(:weight8 AS BIGINT) FROM words WHERE words MATCH :match8 AND rowid < :before AND rowid >= :first
--lite --if match9 UNION ALL SELECT rowid, CAST(:weight9 AS BIGINT) FROM words WHERE words MATCH :match9 AND rowid < :before AND rowid >= :first
--lite --if match10 UNION ALL SELECT rowid, CAST(:weight10 AS BIGINT) FROM words WHERE words MATCH :match10 AND rowid < :before AND rowid >= :first
--lite --if match11 UNION ALL SELECT rowid, CAST(:weight11 AS BIGINT) FROM words WHERE words MATCH :match11 AND rowid < :before AND rowid >= :first
--lite ) u
--lite --if joined JOIN passage p ON p.id = u.id
--pg SELECT p.id, p.session, p.seq, p.at FROM (
--pg SELECT f.id, f.session, f.seq, f.at, CAST(:weight0 AS BIGINT) AS weight FROM passages_with(CAST(:match0 AS tsquery), :before, :first) f
--pg --if match1 UNION ALL SELECT f.id, f.session, f.seq, f.at, CAST(:weight1 AS BIGINT) FROM passages_with(CAST(:match1 AS tsquery), :before, :first) f
--pg --if match2 UNION ALL SELECT f.id, f.session, f.seq, f.at, CAST(:weight2 AS BIGINT) FROM passages_with(CAST(:match2 AS tsquery), :before, :first) f
--pg --if match3 UNION ALL SELECT f.id, f.session, f.seq, f.at, CAST(:weight3 AS BIGINT) FROM passages_with(CAST(:match3 AS tsquery), :before, :first) f
--pg --if match4 UNION ALL SELECT f.id, f.session, f.seq, f.at, CAST(:weight4 AS BIGINT) FROM passages_with(CAST(:match4 AS tsquery), :before, :first) f
--pg --if match5 UNION ALL SELECT f.id, f.session, f.seq, f.at, CAST(:weight5 AS BIGINT) FROM passages_with(CAST(:match5 AS tsquery), :before, :first) f
--pg --if match6 UNION ALL SELECT f.id, f.session, f.seq, f.at, CAST(:weight6 AS BIGINT) FROM passages_with(CAST(:match6 AS tsquery), :before, :first) f
--pg --if match7 UNION ALL SELECT f.id, f.session, f.seq, f.at, CAST(:weight7 AS BIGINT) FROM passages_with(CAST(:match7 AS tsquery), :before, :first) f
--pg --if match8 UNION ALL SELECT f.id, f.session, f.seq, f.at, CAST(:weight8 AS BIGINT) FROM passages_with(CAST(:match8 AS tsquery), :before, :first) f
--pg --if match9 UNION ALL SELECT f.id, f.session, f.seq, f.at, CAST(:weight9 AS BIGINT) FROM passages_with(CAST(:match9 AS tsquery), :before, :first) f
--pg --if match10 UNION ALL SELECT f.id, f.session, f.seq, f.at, CAST(:weight10 AS BIGINT) FROM passages_with(CAST(:match10 AS tsquery), :before, :first) f
--pg --if match11 UNION ALL SELECT f.id, f.session, f.seq, f.at, CAST(:weight11 AS BIGINT) FROM passages_with(CAST(:match11 AS tsquery), :before, :first) f
--pg ) p
WHERE TRUE
--if since AND p.at >= :since
--if until AND p.at < :until
--if me AND EXISTS (SELECT 1 FROM listing l WHERE l.session = p.session AND {reached(l.project, l.person, l.session, l.private, l.agent)})
--lite GROUP BY u.id ORDER BY 2 DESC, 1 DESC LIMIT :limit) c JOIN passage p ON p.id = c.id ORDER BY c.weight DESC, c.id DESC
--pg GROUP BY p.id, p.session, p.seq, p.at ORDER BY sum(p.weight) DESC, p.id DESC LIMIT :limit

-- name: known_standing
-- What is still true of what some sessions wrote down.
SELECT session, seq FROM known WHERE valid = 1 AND session IN ({keys})
