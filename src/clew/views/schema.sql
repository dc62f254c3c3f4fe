-- The views: tables folded from the log. All of this can be dropped and built again; nothing here is the only copy.

-- How far each view has come, and by which version of its fold.
CREATE TABLE view (
    name TEXT PRIMARY KEY,
    version BIGINT NOT NULL,
    position BIGINT NOT NULL
);

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
    called_by TEXT NOT NULL
);
-- What a caller may reach is told from this index alone.
CREATE INDEX listing_last ON listing (last_at, session, began_at, project, private, person, agent);
CREATE INDEX listing_project ON listing (project, last_at, session);
CREATE INDEX listing_agent ON listing (agent, last_at, session);
CREATE INDEX listing_person ON listing (person, last_at, session);
CREATE INDEX listing_runtime ON listing (runtime, last_at, session);
CREATE INDEX listing_state ON listing (state, last_at, session);
CREATE INDEX listing_called_by ON listing (called_by, runtime) WHERE called_by <> '';

-- The working set: what each session touched. `name` is the last part of a path, in lower case.
CREATE TABLE touched (
    session BIGINT NOT NULL,
    type TEXT NOT NULL,
    what TEXT NOT NULL,
    name TEXT NOT NULL,
    read BIGINT NOT NULL,
    written BIGINT NOT NULL,
    read_seq BIGINT NOT NULL,
    written_seq BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    PRIMARY KEY (session, type, what)
){clustered};
CREATE INDEX touched_name ON touched (name, session);

-- Usage: a row for each record that says what an answer cost. `record` is a hash of its source, `message` one of the
-- provider's id of the answer. An answer that several sessions tell of is counted for the one that told it first.
CREATE TABLE spending (
    session BIGINT NOT NULL,
    record BIGINT NOT NULL,
    message BIGINT NOT NULL,
    position BIGINT NOT NULL,
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

-- The text index: a passage is an event that says something. Its id grows with the hour in which it was said, so that
-- the newest come first without sorting; `at` is in seconds. The text itself stays in the log.
CREATE TABLE passage (
    id {id},
    session BIGINT NOT NULL,
    seq BIGINT NOT NULL,
--pg    words TSVECTOR NOT NULL,
    at BIGINT NOT NULL
);
-- What found no room in its hour (views/passages.py: 1,024 in 3,600 seconds), by how many hours further it lies.
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
--pg ALTER TABLE listing ALTER title SET STATISTICS 0, ALTER agent SET STATISTICS 0, ALTER person SET STATISTICS 0,
--pg     ALTER runtime SET STATISTICS 0, ALTER machine SET STATISTICS 0, ALTER folder SET STATISTICS 0,
--pg     ALTER outcome SET STATISTICS 0;
--pg ALTER TABLE touched ALTER type SET STATISTICS 0, ALTER what SET STATISTICS 0, ALTER name SET STATISTICS 0;
--pg ALTER TABLE spending ALTER model SET STATISTICS 0;
--pg ALTER TABLE speaking ALTER runtime SET STATISTICS 0, ALTER calls SET STATISTICS 0;
