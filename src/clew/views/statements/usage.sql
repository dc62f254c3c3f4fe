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
CREATE INDEX spending_at ON spending (session, at);

-- The sums of each quarter of an hour, so that a year is summed up without reading each answer. Quarters, because every
-- zone's days begin with one. An answer counts in the quarter of its first record.
CREATE TABLE quarter (
--pg    project BIGINT NOT NULL,
    session BIGINT NOT NULL,
    number BIGINT NOT NULL,
    model TEXT NOT NULL,
    is_reported BIGINT NOT NULL,
    input BIGINT NOT NULL,
    output BIGINT NOT NULL,
    cache_read BIGINT NOT NULL,
    cache_write BIGINT NOT NULL,
    cache_write_hour BIGINT NOT NULL,
    reasoning BIGINT NOT NULL,
    cost_micros BIGINT NOT NULL,
    answers BIGINT NOT NULL,
    first_at BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    PRIMARY KEY (session, number, model, is_reported)
){clustered};
CREATE INDEX quarter_number ON quarter (number);

-- The planner keeps no samples of what sessions say of themselves, so that none outlives an erasure.
--pg ALTER TABLE spending ALTER model SET STATISTICS 0;
--pg ALTER TABLE quarter ALTER model SET STATISTICS 0;

--pg ALTER TABLE spending ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON spending USING ({in_reach(project)});
--pg ALTER TABLE quarter ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON quarter USING ({in_reach(project)});

-- name: usage_clear
DELETE FROM spending

-- name: quarters_clear
DELETE FROM quarter

-- name: usage_drop
DELETE FROM spending WHERE session = :session

-- name: quarters_drop
DELETE FROM quarter WHERE session = :session

-- name: usage_recorded
-- The answers that some records of a session were of.
SELECT DISTINCT message FROM spending WHERE session = :session AND record IN ({keys})

-- name: usage_quarters
-- The quarters with a record of one of these answers.
SELECT DISTINCT session, at / 900000000 FROM spending WHERE message IN ({keys})

-- name: usage_shared
-- The quarters of other sessions with a record of an answer that this session has.
SELECT DISTINCT o.session, o.at / 900000000 FROM spending s JOIN spending o ON o.message = s.message
WHERE s.session = :session AND o.session <> :session

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

-- name: quarter_remove
DELETE FROM quarter WHERE session = :session AND number = :number

-- name: quarter_add
INSERT INTO quarter (
--pg    project,
    session, number, model, is_reported, input, output, cache_read, cache_write, cache_write_hour, reasoning,
    cost_micros, answers, first_at, last_at)
SELECT
--pg    s.project,
    s.session, s.at / 900000000, s.model, CASE WHEN s.cost_micros > 0 THEN 1 ELSE 0 END,
    sum(s.input), sum(s.output), sum(s.cache_read), sum(s.cache_write), sum(s.cache_write_hour), sum(s.reasoning),
    sum(s.cost_micros),
    sum(CASE WHEN s.position = (SELECT min(o.position) FROM spending o WHERE o.message = s.message) THEN 1 ELSE 0 END),
    min(s.at), max(s.at)
FROM spending s
WHERE s.session = :session AND s.at >= CAST(:number AS BIGINT) * 900000000
    AND s.at < (CAST(:number AS BIGINT) + 1) * 900000000
    AND s.session = (SELECT o.session FROM spending o WHERE o.message = s.message ORDER BY o.position LIMIT 1)
GROUP BY
--pg    s.project,
    s.session, s.at / 900000000, s.model, CASE WHEN s.cost_micros > 0 THEN 1 ELSE 0 END

-- name: usage_of
-- What each of these sessions used, by model, apart by whether the runtime said itself what it cost.
SELECT s.model, s.is_reported, 0, s.session, 0, '', '', '', '',
    sum(s.input), sum(s.output), sum(s.cache_read), sum(s.cache_write), sum(s.cache_write_hour), sum(s.reasoning),
    sum(s.cost_micros), sum(s.answers)
FROM quarter s WHERE s.session IN ({keys}) GROUP BY s.session, s.model, s.is_reported

-- name: usage_by
-- Usage by model and the columns that are asked for, in whole quarters. A `span` is a day or an hour; `offset` is how far
-- the person's clock is ahead of UTC.
SELECT s.model, s.is_reported, (s.number * 900000000 + CAST(:offset AS BIGINT)) / CAST(:span AS BIGINT),
    CASE WHEN CAST(:by_session AS BIGINT) = 1 THEN s.session ELSE 0 END,
    CASE WHEN CAST(:by_project AS BIGINT) = 1 THEN l.project ELSE 0 END,
    CASE WHEN CAST(:by_agent AS BIGINT) = 1 THEN l.agent ELSE '' END,
    CASE WHEN CAST(:by_person AS BIGINT) = 1 THEN l.person ELSE '' END,
    CASE WHEN CAST(:by_runtime AS BIGINT) = 1 THEN l.runtime ELSE '' END,
    CASE WHEN CAST(:by_machine AS BIGINT) = 1 THEN l.machine ELSE '' END,
    sum(s.input), sum(s.output), sum(s.cache_read), sum(s.cache_write), sum(s.cache_write_hour), sum(s.reasoning),
    sum(s.cost_micros), sum(s.answers)
FROM quarter s JOIN listing l ON l.session = s.session
WHERE s.number >= :first AND s.number < :beyond
--if model AND s.model = :model
--if session AND s.session = :session
--if project AND l.project = :project
--if projects AND l.project IN ({projects})
--if agent AND l.agent = :agent
--if person AND l.person = :person
--if runtime AND l.runtime = :runtime
--if me AND {reached(l.project, l.person, l.session, l.private, l.agent)}
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9

-- name: usage_within
-- The same inside of a quarter.
SELECT s.model, CASE WHEN s.cost_micros > 0 THEN 1 ELSE 0 END, (s.at + CAST(:offset AS BIGINT)) / CAST(:span AS BIGINT),
    CASE WHEN CAST(:by_session AS BIGINT) = 1 THEN s.session ELSE 0 END,
    CASE WHEN CAST(:by_project AS BIGINT) = 1 THEN l.project ELSE 0 END,
    CASE WHEN CAST(:by_agent AS BIGINT) = 1 THEN l.agent ELSE '' END,
    CASE WHEN CAST(:by_person AS BIGINT) = 1 THEN l.person ELSE '' END,
    CASE WHEN CAST(:by_runtime AS BIGINT) = 1 THEN l.runtime ELSE '' END,
    CASE WHEN CAST(:by_machine AS BIGINT) = 1 THEN l.machine ELSE '' END,
    sum(s.input), sum(s.output), sum(s.cache_read), sum(s.cache_write), sum(s.cache_write_hour), sum(s.reasoning),
    sum(s.cost_micros),
    sum(CASE WHEN s.position = (SELECT min(o.position) FROM spending o WHERE o.message = s.message) THEN 1 ELSE 0 END)
FROM spending s JOIN listing l ON l.session = s.session
WHERE s.session IN (SELECT q.session FROM quarter q WHERE q.number = CAST(:since AS BIGINT) / 900000000)
    AND s.at >= :since AND s.at < :until
    AND s.session = (SELECT o.session FROM spending o WHERE o.message = s.message ORDER BY o.position LIMIT 1)
--if model AND s.model = :model
--if session AND s.session = :session
--if project AND l.project = :project
--if projects AND l.project IN ({projects})
--if agent AND l.agent = :agent
--if person AND l.person = :person
--if runtime AND l.runtime = :runtime
--if me AND {reached(l.project, l.person, l.session, l.private, l.agent)}
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9

-- name: usage_hours
-- What was used by person, program, model and hour of UTC, with the first and the last answer of the hour.
SELECT s.model, s.is_reported, s.number / 4, 0, 0, '', l.person, l.runtime, '',
    sum(s.input), sum(s.output), sum(s.cache_read), sum(s.cache_write), sum(s.cache_write_hour), sum(s.reasoning),
    sum(s.cost_micros), sum(s.answers), min(s.first_at), max(s.last_at)
FROM quarter s JOIN listing l ON l.session = s.session
WHERE TRUE
--if person AND l.person = :person
--if runtime AND l.runtime = :runtime
--if me AND {reached(l.project, l.person, l.session, l.private, l.agent)}
GROUP BY s.model, s.is_reported, s.number / 4, l.person, l.runtime

-- name: usage_by_place
-- What each answer in a stretch of a session used, by the place of its record.
SELECT s.model, CASE WHEN s.cost_micros > 0 THEN 1 ELSE 0 END, s.seq, s.session, 0, '', '', '', '', s.input, s.output,
    s.cache_read, s.cache_write, s.cache_write_hour, s.reasoning, s.cost_micros, 1
FROM spending s
WHERE s.session = :session AND s.seq >= :first AND s.seq <= :last
    AND s.session = (SELECT o.session FROM spending o WHERE o.message = s.message ORDER BY o.position LIMIT 1)

-- name: usage_times
-- When the first and the last answers were, by their quarters.
SELECT coalesce(min(number), 0), coalesce(max(number), 0) + 1 FROM quarter
