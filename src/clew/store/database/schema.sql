-- The whole schema as it is now: the sum of migrations/, written out.


-- `part_of` is the project that this one is part of now, because it was renamed or merged. Its sessions keep their keys.
CREATE TABLE project (
    key {key},
    name TEXT NOT NULL UNIQUE,
    part_of BIGINT
);

-- Who a session is. Only its title, its privacy and erasure change a row.
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
    owner TEXT NOT NULL DEFAULT '',
    private BIGINT NOT NULL DEFAULT 0,
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

-- Objects: their bytes are here, in a pack, or in a file that an older clew wrote. `at` is since when an object waits to be
-- named, and 0 once it was.
CREATE TABLE blob (
    digest {bytes} PRIMARY KEY,
    size BIGINT NOT NULL,
    refs BIGINT NOT NULL,
    at BIGINT NOT NULL,
    data {bytes},
    pack TEXT {plain},
    start BIGINT,
    length BIGINT
);
CREATE INDEX blob_pack ON blob (pack) WHERE pack IS NOT NULL;
CREATE INDEX blob_unnamed ON blob (at) WHERE refs <= 0;

-- How far each reader of the whole log has come.
CREATE TABLE cursor (
    name TEXT PRIMARY KEY,
    position BIGINT NOT NULL,
    at BIGINT NOT NULL
);

-- Retention: how long conversations are kept, and what may not be touched at all.

CREATE TABLE policy (
    project TEXT NOT NULL,
    agent TEXT NOT NULL,
    keep_days BIGINT,
    hold BIGINT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (project, agent)
);

-- Originals: the native files of agent programs, byte for byte, and how far each has been read.

-- `place` is a hash of machine, runtime and path. It outlives an erasure, so that what was erased is not captured again.
CREATE TABLE original (
    key {key},
    place {bytes} NOT NULL UNIQUE,
    project BIGINT NOT NULL,
    session BIGINT NOT NULL,
    machine TEXT NOT NULL,
    runtime TEXT NOT NULL,
    format TEXT NOT NULL,
    path TEXT NOT NULL,
    native TEXT NOT NULL,
    stamp TEXT NOT NULL,
    generation BIGINT NOT NULL,
    kept BIGINT NOT NULL,
    taken BIGINT NOT NULL,
    edges {bytes} NOT NULL,
    state TEXT NOT NULL,
    told BIGINT NOT NULL,
    opaque BIGINT NOT NULL,
    quarantined BIGINT NOT NULL,
    root TEXT NOT NULL,
    written TEXT NOT NULL
);
CREATE INDEX original_session ON original (project, session);
CREATE INDEX original_native ON original (native, runtime);
CREATE INDEX original_root ON original (root, runtime) WHERE root <> '';

-- The bytes of an original, in pieces as it grew. A file that was rewritten begins a new generation. `blob` is their digest;
-- they are in the blob of that name, or here as `data`, packed with the bodies of the session's events `first` to `last`.
CREATE TABLE segment (
    original BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    start BIGINT NOT NULL,
    length BIGINT NOT NULL,
    blob {bytes} NOT NULL,
    first BIGINT,
    last BIGINT,
    data {bytes},
    PRIMARY KEY (original, generation, start)
){clustered};

--pg ALTER TABLE original ALTER path SET STATISTICS 0, ALTER native SET STATISTICS 0, ALTER state SET STATISTICS 0,
--pg     ALTER root SET STATISTICS 0;
--pg ALTER TABLE segment ALTER data SET STATISTICS 0;

-- A team: who there is, what each may do, and the wall between projects.

CREATE INDEX session_owner ON session (owner, project);

-- People, agents and services. `login` is the issuer and the subject of an OpenID provider.
CREATE TABLE principal (
    name TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    login TEXT NOT NULL,
    disabled BIGINT NOT NULL,
    at BIGINT NOT NULL
);
CREATE UNIQUE INDEX principal_login ON principal (login) WHERE login <> '';

CREATE TABLE member (
    team TEXT NOT NULL,
    principal TEXT NOT NULL,
    PRIMARY KEY (team, principal)
);
CREATE INDEX member_principal ON member (principal);

-- Rights on everything, a project, an agent or a session; `rights` are words apart by blanks, `until` 0 is for ever.
CREATE TABLE granted (
    id {key},
    who TEXT NOT NULL,
    rights TEXT NOT NULL,
    project TEXT NOT NULL,
    agent TEXT NOT NULL,
    session TEXT NOT NULL,
    until BIGINT NOT NULL,
    given_by TEXT NOT NULL,
    at BIGINT NOT NULL
);
CREATE UNIQUE INDEX granted_place ON granted (who, project, agent, session);
CREATE INDEX granted_session ON granted (session) WHERE session <> '';

-- What callers authenticate with: browsers, API keys, access tokens, links, logins. Of a secret only its hash is kept. `parent`
-- is the credential that another was made with; no child is good for more than its parent (model/credential.py).
CREATE TABLE credential (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    parent TEXT NOT NULL,
    principal TEXT NOT NULL,
    hash {bytes} NOT NULL,
    scopes TEXT NOT NULL,
    project TEXT NOT NULL,
    label TEXT NOT NULL,
    at BIGINT NOT NULL,
    until BIGINT NOT NULL,
    used_at BIGINT NOT NULL,
    given_by TEXT NOT NULL
);
CREATE INDEX credential_principal ON credential (principal);
CREATE INDEX credential_parent ON credential (parent) WHERE parent <> '';
CREATE INDEX credential_link ON credential (given_by) WHERE kind = 'link';

-- Agents, and by which rules a session finds its own. A name belongs to a project, or to all as the project ''.
CREATE TABLE agent (
    project TEXT NOT NULL,
    name TEXT NOT NULL,
    runtime TEXT NOT NULL,
    model TEXT NOT NULL,
    instructions TEXT NOT NULL,
    tools TEXT NOT NULL,
    owner TEXT NOT NULL,
    place TEXT NOT NULL,
    rules TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (project, name)
);

CREATE TABLE setting (
    project TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (project, name)
);

-- Answers to requests that may come twice, for a day.
CREATE TABLE answered (
    principal TEXT NOT NULL,
    key TEXT NOT NULL,
    request {bytes} NOT NULL,
    status BIGINT NOT NULL,
    answer {bytes} NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (principal, key)
);
CREATE INDEX answered_at ON answered (at);

--pg ALTER TABLE session ALTER owner SET STATISTICS 0;
--pg ALTER TABLE blob ALTER data SET STATISTICS 0;
--pg ALTER TABLE original ALTER machine SET STATISTICS 0, ALTER stamp SET STATISTICS 0, ALTER written SET STATISTICS 0;

-- Audit: a Merkle tree over where sessions stood, and the signed checkpoints of it.

-- A statement that never changes (model/checkpoint.py), and the hashes of the subtrees that it completes. `session` is
-- whom it is about, and empty for the last leaf of a checkpoint.
CREATE TABLE leaf (
    number {id},
    session TEXT {plain} NOT NULL,
    statement TEXT NOT NULL,
    hashes {bytes} NOT NULL
);
CREATE INDEX leaf_session ON leaf (session, number);

-- `signer` is the public key, for whoever has no better word for it.
CREATE TABLE checkpoint (
    number {id},
    size BIGINT NOT NULL UNIQUE,
    note TEXT NOT NULL,
    signer TEXT NOT NULL
);

-- Jobs: background work that is done once, by whichever worker takes it, and tried again when it fails.

-- A job runs once per (kind, project, key). Whoever runs it holds a lease by the database's clock, and its epoch fences a
-- worker that slept past its time. `at` is the last change of the row.
CREATE TABLE job (
    id TEXT {plain} PRIMARY KEY,
    kind TEXT NOT NULL,
    project TEXT NOT NULL,
    key TEXT NOT NULL,
    arguments TEXT NOT NULL,
    state TEXT NOT NULL,
    due_at BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    holder TEXT NOT NULL,
    lease_until BIGINT NOT NULL,
    error TEXT NOT NULL,
    result TEXT NOT NULL,
    made_at BIGINT NOT NULL,
    at BIGINT NOT NULL,
    UNIQUE (kind, project, key)
);
CREATE INDEX job_open ON job (due_at) WHERE state IN ('waiting', 'running');
CREATE INDEX job_made ON job (made_at, id);

-- Objects: the bytes of objects in packs, and objects that name others.

-- Where a pack is: `kept`; `thinned` since an object in it was deleted; `leaving` when its parts are to be deleted; `gone`.
-- A row that is gone stays for a while, so that a writer who was away for hours finds that its pack was removed.
CREATE TABLE pack (
    name TEXT {plain} PRIMARY KEY,
    place TEXT NOT NULL,
    state TEXT NOT NULL,
    at BIGINT NOT NULL
){clustered};
CREATE INDEX pack_state ON pack (state, name) WHERE state <> 'kept';

-- Which objects an object names. They stay as long as it does.
CREATE TABLE manifest (
    digest {bytes} NOT NULL,
    names {bytes} NOT NULL,
    PRIMARY KEY (digest, names)
){clustered};

--pg CREATE TABLE part (key TEXT {plain} PRIMARY KEY, at BIGINT NOT NULL, data BYTEA NOT NULL);
--pg ALTER TABLE part ALTER data SET STATISTICS 0, ALTER data SET STORAGE EXTERNAL;

-- Row-level security on every table with rows of a tenant. Each policy hides the rows of projects that a connection does
-- not read for; rows that belong to no project are shown only to a connection that reads for all of them.

-- What a connection reads for: `clew.reach` is `*`, or numbers of projects separated by commas. A policy asks in a
-- sub-select, which PostgreSQL runs once per statement and not for every row.
--pg CREATE FUNCTION reaches_everything() RETURNS BOOLEAN LANGUAGE sql STABLE
--pg     RETURN current_setting('clew.reach', TRUE) = '*';
--pg CREATE FUNCTION reached_projects() RETURNS BIGINT[] LANGUAGE sql STABLE
--pg     RETURN CASE current_setting('clew.reach', TRUE) WHEN '*' THEN NULL
--pg         ELSE CAST(string_to_array(current_setting('clew.reach', TRUE), ',') AS BIGINT[]) END;

--pg ALTER TABLE session ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg ALTER TABLE head ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg ALTER TABLE event ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg ALTER TABLE original ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON session USING ({in_reach(project)});
--pg CREATE POLICY wall ON head USING ({in_reach(project)});
--pg CREATE POLICY wall ON event USING ({in_reach(project)});
--pg CREATE POLICY wall ON original USING ({in_reach(project)});

--pg ALTER TABLE project ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg ALTER TABLE segment ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg ALTER TABLE policy ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg ALTER TABLE job ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg ALTER TABLE agent ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg ALTER TABLE setting ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg ALTER TABLE granted ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON project USING ({in_reach(key)});
--pg CREATE POLICY wall ON segment
--pg     USING ({everything} OR EXISTS (SELECT 1 FROM original o WHERE o.key = segment.original));
--pg CREATE POLICY wall ON policy USING ({in_reach_by_name(project)});
--pg CREATE POLICY wall ON job USING ({in_reach_by_name(project)});
-- An agent or a setting of no project belongs to all of them.
--pg CREATE POLICY wall ON agent USING (project = '' OR {in_reach_by_name(project)});
--pg CREATE POLICY wall ON setting USING (project = '' OR {in_reach_by_name(project)});
--pg CREATE POLICY wall ON granted USING ({in_reach_by_name(project)}
--pg     OR (session <> '' AND EXISTS (SELECT 1 FROM session s WHERE s.id = granted.session)));

-- Rows that belong to no project: principals and what they hold, objects, and the audit tree, which is about all sessions.
--pg ALTER TABLE principal ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg ALTER TABLE member ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg ALTER TABLE credential ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg ALTER TABLE answered ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg ALTER TABLE cursor ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg ALTER TABLE blob ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg ALTER TABLE manifest ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg ALTER TABLE pack ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg ALTER TABLE part ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg ALTER TABLE leaf ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg ALTER TABLE checkpoint ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON principal USING ({everything});
--pg CREATE POLICY wall ON member USING ({everything});
--pg CREATE POLICY wall ON credential USING ({everything});
--pg CREATE POLICY wall ON answered USING ({everything});
--pg CREATE POLICY wall ON cursor USING ({everything});
--pg CREATE POLICY wall ON blob USING ({everything});
--pg CREATE POLICY wall ON manifest USING ({everything});
--pg CREATE POLICY wall ON pack USING ({everything});
--pg CREATE POLICY wall ON part USING ({everything});
--pg CREATE POLICY wall ON leaf USING ({everything});
--pg CREATE POLICY wall ON checkpoint USING ({everything});

-- Projects: the repositories and folders that each is.

-- What a project is captured from: a repository by the address of its remote (then `machine` is empty), or a folder of a
-- machine. `id` is a hash of machine and place, and outlives an erasure; `place` is the text, and empty for a folder inside
-- a repository. `mark` is a hash of how the repository began, by which a moved one is recognised.
CREATE TABLE place (
    id {bytes} PRIMARY KEY,
    project BIGINT NOT NULL,
    machine TEXT NOT NULL,
    place TEXT NOT NULL,
    mark TEXT NOT NULL,
    is_root BIGINT NOT NULL,
    is_set BIGINT NOT NULL,
    at BIGINT NOT NULL
){clustered};
CREATE INDEX place_project ON place (project);
CREATE INDEX place_mark ON place (mark) WHERE mark <> '';
--pg ALTER TABLE place ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON place USING ({in_reach(project)});
--pg ALTER TABLE place ALTER place SET STATISTICS 0, ALTER machine SET STATISTICS 0;

-- Lists of sessions that people saved under a name, each principal's own.
CREATE TABLE saved_view (
    principal TEXT NOT NULL,
    name TEXT NOT NULL,
    filters TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (principal, name)
);
--pg ALTER TABLE saved_view ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON saved_view USING ({everything});
