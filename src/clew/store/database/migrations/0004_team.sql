-- A team: who there is, what each may do, and the wall between projects.

ALTER TABLE session ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE session ADD COLUMN private BIGINT NOT NULL DEFAULT 0;
UPDATE session SET owner = coalesce((
    SELECT e.actor FROM event e
    WHERE e.project = session.project AND e.session = session.key AND e.seq = session.upto + 1), '');
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

-- API keys and links. Of the secret only its hash is kept.
CREATE TABLE api_key (
    id TEXT PRIMARY KEY,
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
CREATE INDEX api_key_principal ON api_key (principal);

-- Agents, and by which rules a session finds its own.
CREATE TABLE agent (
    name TEXT PRIMARY KEY,
    project TEXT NOT NULL,
    runtime TEXT NOT NULL,
    model TEXT NOT NULL,
    instructions TEXT NOT NULL,
    tools TEXT NOT NULL,
    owner TEXT NOT NULL,
    place TEXT NOT NULL,
    rules TEXT NOT NULL,
    at BIGINT NOT NULL
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

-- The second wall: a connection sees the projects it said it reads for, and none before it has said so. `*` is clew
-- itself. A role that is a superuser or bypasses row level security walks through; `clew doctor` tells.
--pg ALTER TABLE session ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg ALTER TABLE head ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg ALTER TABLE event ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg ALTER TABLE original ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON session USING (CASE current_setting('clew.reach', TRUE) WHEN '*' THEN TRUE
--pg     ELSE project = ANY (CAST(string_to_array(current_setting('clew.reach', TRUE), ',') AS BIGINT[])) END);
--pg CREATE POLICY wall ON head USING (CASE current_setting('clew.reach', TRUE) WHEN '*' THEN TRUE
--pg     ELSE project = ANY (CAST(string_to_array(current_setting('clew.reach', TRUE), ',') AS BIGINT[])) END);
--pg CREATE POLICY wall ON event USING (CASE current_setting('clew.reach', TRUE) WHEN '*' THEN TRUE
--pg     ELSE project = ANY (CAST(string_to_array(current_setting('clew.reach', TRUE), ',') AS BIGINT[])) END);
--pg CREATE POLICY wall ON original USING (CASE current_setting('clew.reach', TRUE) WHEN '*' THEN TRUE
--pg     ELSE project = ANY (CAST(string_to_array(current_setting('clew.reach', TRUE), ',') AS BIGINT[])) END);

--pg ALTER TABLE session ALTER owner SET STATISTICS 0;
--pg ALTER TABLE blob ALTER data SET STATISTICS 0;
--pg ALTER TABLE original ALTER machine SET STATISTICS 0, ALTER stamp SET STATISTICS 0, ALTER written SET STATISTICS 0;
