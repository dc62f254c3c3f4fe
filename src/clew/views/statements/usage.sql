-- Usage: a row for each record that says what an answer cost. `record` is a hash of its source, `message` one of the
-- provider's id of the answer. An answer that several sessions record counts for the one that recorded it first.
CREATE TABLE spending (
--pg    project BIGINT NOT NULL,
    session BIGINT NOT NULL,
    record BIGINT NOT NULL,
    message BIGINT NOT NULL,
    position BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    at BIGINT NOT NULL,
    model TEXT NOT NULL,
    input BIGINT NOT NULL,
    output BIGINT NOT NULL,
    cache_read BIGINT NOT NULL,
    cache_write BIGINT NOT NULL,
    cache_write_hour BIGINT NOT NULL,
    reasoning BIGINT NOT NULL,
    cost_micros BIGINT NOT NULL,
    PRIMARY KEY (session, record)
){clustered};
CREATE INDEX spending_message ON spending (message, position);

-- The planner keeps no samples of what sessions say of themselves, so that none outlives an erasure.
--pg ALTER TABLE spending ALTER model SET STATISTICS 0;

--pg ALTER TABLE spending ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON spending USING ({in_reach(project)});

-- name: usage_clear
DELETE FROM spending

-- name: usage_drop
DELETE FROM spending WHERE session = :session

-- name: usage_add
INSERT INTO spending (
--pg    project,
    session, record, message, position, seq, at, model, input, output, cache_read, cache_write,
    cache_write_hour, reasoning, cost_micros)
VALUES (
--pg    :project,
    :session, :record, :message, :position, :seq, :at, :model, :input, :output, :cache_read, :cache_write,
    :cache_write_hour, :reasoning, :cost_micros)
ON CONFLICT (session, record) DO UPDATE SET message = excluded.message, position = excluded.position, at = excluded.at,
    model = excluded.model, input = excluded.input, output = excluded.output, cache_read = excluded.cache_read,
    cache_write = excluded.cache_write, cache_write_hour = excluded.cache_write_hour, reasoning = excluded.reasoning,
    cost_micros = excluded.cost_micros

-- name: usage_sums
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

-- name: usage_hours
-- What each session used, by model and hour of UTC, with the first and the last answer of the hour.
SELECT s.session, s.model, s.at / 3600000000, CASE WHEN s.cost_micros > 0 THEN 1 ELSE 0 END,
    sum(s.input), sum(s.output), sum(s.cache_read), sum(s.cache_write), sum(s.cache_write_hour), sum(s.reasoning),
    sum(s.cost_micros), count(DISTINCT s.message), min(s.at), max(s.at)
FROM spending s
WHERE s.session = (SELECT o.session FROM spending o WHERE o.message = s.message ORDER BY o.position LIMIT 1)
GROUP BY s.session, s.model, 3, 4

-- name: usage_by_place
-- What each answer in a stretch of a session used, by the place of its record.
SELECT s.session, s.model, s.seq, CASE WHEN s.cost_micros > 0 THEN 1 ELSE 0 END, s.input, s.output, s.cache_read,
    s.cache_write, s.cache_write_hour, s.reasoning, s.cost_micros, 1
FROM spending s
WHERE s.session = :session AND s.seq >= :first AND s.seq <= :last
    AND s.session = (SELECT o.session FROM spending o WHERE o.message = s.message ORDER BY o.position LIMIT 1)

-- name: usage_times
SELECT coalesce(min(at), 0), coalesce(max(at), 0) FROM spending
