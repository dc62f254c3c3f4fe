-- The list: a line for each session.
CREATE TABLE listing (
    session {id},
    project BIGINT NOT NULL,
    id TEXT NOT NULL,
    title TEXT NOT NULL,
    agent TEXT NOT NULL,
    person TEXT NOT NULL,
    runtime TEXT NOT NULL,
    machine TEXT NOT NULL,
    folder TEXT NOT NULL,
    state TEXT NOT NULL,
    outcome TEXT NOT NULL,
    events BIGINT NOT NULL,
    turns BIGINT NOT NULL,
    calls BIGINT NOT NULL,
    errors BIGINT NOT NULL,
    began_at BIGINT NOT NULL,
    said_at BIGINT NOT NULL,
    kept_at BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    private BIGINT NOT NULL,
    called_by TEXT NOT NULL,
    waiting BIGINT NOT NULL,
    titled BIGINT NOT NULL,
    empty BIGINT NOT NULL
);
-- This index alone decides what a caller may reach.
CREATE INDEX listing_last ON listing (last_at, session, began_at, project, private, person, agent);
CREATE INDEX listing_project ON listing (project, last_at, session);
CREATE INDEX listing_agent ON listing (agent, last_at, session);
CREATE INDEX listing_person ON listing (person, last_at, session);
CREATE INDEX listing_runtime ON listing (runtime, last_at, session);
CREATE INDEX listing_state ON listing (state, last_at, session);
CREATE INDEX listing_called_by ON listing (called_by, runtime) WHERE called_by <> '';

-- The planner keeps no samples of what sessions say of themselves, so that none outlives an erasure.
--pg ALTER TABLE listing ALTER title SET STATISTICS 0, ALTER agent SET STATISTICS 0, ALTER person SET STATISTICS 0,
--pg     ALTER runtime SET STATISTICS 0, ALTER machine SET STATISTICS 0, ALTER folder SET STATISTICS 0,
--pg     ALTER outcome SET STATISTICS 0;

--pg ALTER TABLE listing ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON listing USING ({in_reach(project)});

-- name: sessions_clear
DELETE FROM listing

-- name: sessions_drop
DELETE FROM listing WHERE session = :session

-- name: sessions_row
SELECT session, project, id, title, agent, person, runtime, machine, folder, state, outcome, events, turns, calls,
    errors, began_at, said_at, kept_at, last_at, private, called_by, waiting, titled, empty
FROM listing WHERE session = :session

-- name: sessions_rows
SELECT session, project, id, title, agent, person, runtime, machine, folder, state, outcome, events, turns, calls,
    errors, began_at, said_at, kept_at, last_at, private, called_by, waiting, titled, empty
FROM listing WHERE session IN ({keys})

-- name: sessions_set
INSERT INTO listing (session, project, id, title, agent, person, runtime, machine, folder, state, outcome, events,
    turns, calls, errors, began_at, said_at, kept_at, last_at, private, called_by, waiting, titled, empty)
VALUES (:session, :project, :id, :title, :agent, :person, :runtime, :machine, :folder, :state, :outcome, :events,
    :turns, :calls, :errors, :began_at, :said_at, :kept_at, :last_at, :private, :called_by,
    :waiting, :titled, :empty)
ON CONFLICT (session) DO UPDATE SET title = excluded.title, agent = excluded.agent, person = excluded.person,
    runtime = excluded.runtime, machine = excluded.machine, folder = excluded.folder, state = excluded.state,
    outcome = excluded.outcome, events = excluded.events, turns = excluded.turns, calls = excluded.calls,
    errors = excluded.errors, began_at = excluded.began_at, said_at = excluded.said_at, kept_at = excluded.kept_at,
    last_at = excluded.last_at, private = excluded.private, called_by = excluded.called_by,
    waiting = excluded.waiting, titled = excluded.titled, empty = excluded.empty

-- name: sessions_page
SELECT session, project, id, title, agent, person, runtime, machine, folder, state, outcome, events, turns, calls,
    errors, began_at, said_at, kept_at, last_at, private, called_by, waiting, titled, empty
FROM listing l
WHERE last_at <= :before_at AND (last_at < :before_at OR session < :before)
--if project AND project = :project
--if projects AND project IN ({projects})
--if agent AND agent = :agent
--if person AND person = :person
--if runtime AND runtime = :runtime
--if state AND state = :state
--if status AND CASE WHEN state <> 'active' THEN state
--if status     WHEN last_at < CASE waiting WHEN 1 THEN CAST(:unanswered_since AS BIGINT)
--if status         ELSE CAST(:quiet_since AS BIGINT) END THEN 'idle'
--if status     WHEN waiting = 1 THEN 'waiting' ELSE 'active' END = :status
--if machine AND machine = :machine
--if folder AND (folder = :folder OR folder {plain} >= :below AND folder {plain} < :beyond)
--if since AND last_at >= :since
--if until AND CASE WHEN began_at > 0 THEN began_at ELSE last_at END < :until
--if quiet AND last_at < :quiet
--if failed AND errors > 0
--if filled AND empty = 0
--if tag AND session IN (SELECT session FROM label WHERE kind = 'tag' AND name = :tag)
--if starred AND session IN (SELECT session FROM label WHERE kind = 'star' AND name = :starred)
--lite --if keys AND session IN ({keys})
--pg --if keys AND session = ANY (ARRAY({keys}))
--if me AND {reached(l.project, l.person, l.session, l.private, l.agent)}
ORDER BY last_at DESC, session DESC LIMIT :limit

-- name: sessions_sorted
-- The list in another order, the largest value first. `prices` has the prices of models, as views/prices.py does; the sums
-- of a session are few, so its cost is computed here.
WITH price AS MATERIALIZED (
--lite    SELECT value ->> 0 AS model, value ->> 1 AS input, value ->> 2 AS output, value ->> 3 AS cache_read,
--lite        value ->> 4 AS cache_write, value ->> 5 AS cache_write_hour FROM json_each(:prices)
--pg    SELECT p ->> 0 AS model, CAST(p ->> 1 AS BIGINT) AS input, CAST(p ->> 2 AS BIGINT) AS output,
--pg        CAST(p ->> 3 AS BIGINT) AS cache_read, CAST(p ->> 4 AS BIGINT) AS cache_write,
--pg        CAST(p ->> 5 AS BIGINT) AS cache_write_hour FROM json_array_elements(CAST(:prices AS json)) p
),
sorted AS MATERIALIZED (
    SELECT session, CASE CAST(:sort AS TEXT)
        WHEN 'began' THEN began_at WHEN 'duration' THEN last_at - began_at WHEN 'turns' THEN turns
        WHEN 'calls' THEN calls WHEN 'errors' THEN errors
        WHEN 'tokens' THEN CAST(coalesce(
            (SELECT sum(q.input + q.output + q.cache_write) FROM quarter q WHERE q.session = l.session), 0) AS BIGINT)
        ELSE CAST(coalesce(
            (SELECT sum(CASE WHEN q.is_reported = 1 THEN q.cost_micros * 1000000
                ELSE q.input * p.input + q.output * p.output + q.cache_read * p.cache_read
                    + (q.cache_write - q.cache_write_hour) * p.cache_write + q.cache_write_hour * p.cache_write_hour END)
             FROM quarter q LEFT JOIN price p ON p.model = q.model WHERE q.session = l.session), -1) AS BIGINT)
        END AS value
    FROM listing l
    WHERE TRUE
--if project AND project = :project
--if projects AND project IN ({projects})
--if agent AND agent = :agent
--if person AND person = :person
--if runtime AND runtime = :runtime
--if state AND state = :state
--if status AND CASE WHEN state <> 'active' THEN state
--if status     WHEN last_at < CASE waiting WHEN 1 THEN CAST(:unanswered_since AS BIGINT)
--if status         ELSE CAST(:quiet_since AS BIGINT) END THEN 'idle'
--if status     WHEN waiting = 1 THEN 'waiting' ELSE 'active' END = :status
--if machine AND machine = :machine
--if folder AND (folder = :folder OR folder {plain} >= :below AND folder {plain} < :beyond)
--if since AND last_at >= :since
--if until AND CASE WHEN began_at > 0 THEN began_at ELSE last_at END < :until
--if quiet AND last_at < :quiet
--if failed AND errors > 0
--if filled AND empty = 0
--if tag AND session IN (SELECT session FROM label WHERE kind = 'tag' AND name = :tag)
--if starred AND session IN (SELECT session FROM label WHERE kind = 'star' AND name = :starred)
--lite --if keys AND session IN ({keys})
--pg --if keys AND session = ANY (ARRAY({keys}))
--if me AND {reached(l.project, l.person, l.session, l.private, l.agent)}
)
SELECT s.value, l.session, l.project, l.id, l.title, l.agent, l.person, l.runtime, l.machine, l.folder, l.state, l.outcome,
    l.events, l.turns, l.calls, l.errors, l.began_at, l.said_at, l.kept_at, l.last_at, l.private, l.called_by, l.waiting, l.titled, l.empty
FROM sorted s JOIN listing l ON l.session = s.session
WHERE s.value < :before_value OR (s.value = :before_value AND s.session < :before)
ORDER BY s.value DESC, s.session DESC LIMIT :limit

-- name: sessions_models
SELECT DISTINCT model FROM quarter LIMIT 10000

-- name: sessions_count
-- How many there are, and how many of them have nothing in them.
SELECT count(*), coalesce(sum(empty), 0) FROM listing l
WHERE TRUE
--if project AND project = :project
--if projects AND project IN ({projects})
--if agent AND agent = :agent
--if person AND person = :person
--if runtime AND runtime = :runtime
--if state AND state = :state
--if status AND CASE WHEN state <> 'active' THEN state
--if status     WHEN last_at < CASE waiting WHEN 1 THEN CAST(:unanswered_since AS BIGINT)
--if status         ELSE CAST(:quiet_since AS BIGINT) END THEN 'idle'
--if status     WHEN waiting = 1 THEN 'waiting' ELSE 'active' END = :status
--if machine AND machine = :machine
--if folder AND (folder = :folder OR folder {plain} >= :below AND folder {plain} < :beyond)
--if since AND last_at >= :since
--if until AND CASE WHEN began_at > 0 THEN began_at ELSE last_at END < :until
--if quiet AND last_at < :quiet
--if failed AND errors > 0
--if filled AND empty = 0
--if tag AND session IN (SELECT session FROM label WHERE kind = 'tag' AND name = :tag)
--if starred AND session IN (SELECT session FROM label WHERE kind = 'star' AND name = :starred)
--lite --if keys AND session IN ({keys})
--pg --if keys AND session = ANY (ARRAY({keys}))
--if me AND {reached(l.project, l.person, l.session, l.private, l.agent)}

-- name: sessions_called_by
SELECT id, title, agent, state, began_at, last_at, events, turns, calls, errors FROM listing l
WHERE called_by = :native AND called_by <> '' AND runtime = :runtime
--if me AND {reached(l.project, l.person, l.session, l.private, l.agent)}
ORDER BY session LIMIT :limit

-- name: sessions_names
SELECT session, id, title FROM listing WHERE session IN ({keys})

-- name: sessions_by_project
SELECT project, count(*), max(last_at) FROM listing l WHERE state <> 'erased'
--if me AND {reached(l.project, l.person, l.session, l.private, l.agent)}
GROUP BY project

-- name: sessions_summed
-- What was done by each agent, program, person or machine. A session that is going on is active or waits for a person.
SELECT CASE :by WHEN 'agent' THEN agent WHEN 'person' THEN person WHEN 'machine' THEN machine ELSE runtime END,
    count(*), coalesce(sum(turns), 0), coalesce(sum(calls), 0), coalesce(sum(errors), 0), max(last_at),
    coalesce(sum(CASE WHEN state = 'active' AND waiting = 0 AND last_at >= :quiet_since THEN 1 ELSE 0 END), 0),
    coalesce(sum(CASE WHEN state = 'active' AND waiting = 1 AND last_at >= :unanswered_since THEN 1 ELSE 0 END), 0)
FROM listing l WHERE state <> 'erased' AND empty = 0
--if project AND project = :project
--if projects AND project IN ({projects})
--if since AND last_at >= :since
--if until AND CASE WHEN began_at > 0 THEN began_at ELSE last_at END < :until
--if me AND {reached(l.project, l.person, l.session, l.private, l.agent)}
GROUP BY 1 ORDER BY max(last_at) DESC, 1 LIMIT :limit
