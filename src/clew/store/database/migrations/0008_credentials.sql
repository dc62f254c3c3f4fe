-- Credentials: one table for all that callers authenticate with, each with what it was made with.

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

-- A browser's key was made for 14 days by its own principal, and was told from others by its label alone.
INSERT INTO credential (id, kind, parent, principal, hash, scopes, project, label, at, until, used_at, given_by)
SELECT id,
    CASE WHEN scopes = 'login' THEN 'login'
        WHEN substr(principal, 1, 5) = 'link:' THEN 'link'
        WHEN label = 'browser' AND scopes = '' AND project = '' AND given_by = principal
            AND until BETWEEN at + 1209540000000 AND at + 1209660000000 THEN 'browser'
        ELSE 'api_key' END,
    '', principal, hash, CASE WHEN scopes = 'login' THEN '' ELSE scopes END, project, label, at, until, used_at, given_by
FROM api_key;
DROP TABLE api_key;
