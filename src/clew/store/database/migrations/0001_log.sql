-- The log: projects, sessions, where they stand, what happened, and the bytes too large for a row.
-- Words in braces and lines that start with --pg or --lite are the two databases' few differences (queries.py).

CREATE TABLE project (
    key {key},
    name TEXT NOT NULL UNIQUE
);

-- Who a session is. Only erasure changes a row.
CREATE TABLE session (
    key {key},
    project BIGINT NOT NULL,
    id TEXT {plain} NOT NULL,
    agent TEXT NOT NULL,
    title TEXT NOT NULL,
    metadata TEXT NOT NULL,
    parent BIGINT,
    upto BIGINT NOT NULL,
    opened_at BIGINT NOT NULL,
    control BIGINT NOT NULL,
    UNIQUE (project, key)
);
CREATE UNIQUE INDEX session_id ON session (id);
CREATE UNIQUE INDEX session_control ON session (project) WHERE control = 1;
CREATE INDEX session_parent ON session (parent, upto) WHERE parent IS NOT NULL;

-- Where a session stands. Small and apart from `session`, because every append rewrites it.
CREATE TABLE head (
    project BIGINT NOT NULL,
    session BIGINT NOT NULL,
    state TEXT NOT NULL,
    head BIGINT NOT NULL,
    digest {bytes} NOT NULL,
    at BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    holder TEXT,
    lease_until BIGINT NOT NULL,
    budget_tokens BIGINT,
    budget_cost_micros BIGINT,
    spent_tokens BIGINT NOT NULL,
    spent_cost_micros BIGINT NOT NULL,
    PRIMARY KEY (project, session)
){clustered};

-- What happened. Rows are only ever added; removal empties `body` and `blob` and leaves the `seal` (model/chain.py).
CREATE TABLE event (
    position {position},
    project BIGINT NOT NULL,
    session BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    kind TEXT NOT NULL,
    version BIGINT NOT NULL,
    at BIGINT NOT NULL,
    said_at BIGINT,
    actor TEXT NOT NULL,
    source TEXT,
    digest {bytes} NOT NULL,
    body TEXT,
    blob {bytes},
--pg    PRIMARY KEY (position, project),
    seal {bytes}
);
CREATE UNIQUE INDEX event_seq ON event (project, session, seq);
CREATE UNIQUE INDEX event_source ON event (project, session, source) WHERE source IS NOT NULL;

-- Statistics hold samples of what is stored and would outlive an erasure; no query needs them for these columns.
--pg ALTER TABLE event ALTER body SET STATISTICS 0, ALTER source SET STATISTICS 0, ALTER actor SET STATISTICS 0,
--pg     ALTER kind SET STATISTICS 0;
--pg ALTER TABLE session ALTER agent SET STATISTICS 0, ALTER title SET STATISTICS 0, ALTER metadata SET STATISTICS 0;
--pg ALTER TABLE head ALTER holder SET STATISTICS 0;

-- PostgreSQL's order for tails: the row stays locked until commit, so positions become visible in the order they were
-- given out. SQLite has one writer at a time and needs no clock: its rowid is the position.
--pg CREATE TABLE clock (one BIGINT PRIMARY KEY CHECK (one = 1), position BIGINT NOT NULL);
--pg INSERT INTO clock VALUES (1, 0);

CREATE TABLE blob (
    digest {bytes} PRIMARY KEY,
    size BIGINT NOT NULL,
    refs BIGINT NOT NULL,
    at BIGINT NOT NULL,
    data {bytes}
);

-- How far each reader of the whole log has come.
CREATE TABLE cursor (
    name TEXT PRIMARY KEY,
    position BIGINT NOT NULL,
    at BIGINT NOT NULL
);
