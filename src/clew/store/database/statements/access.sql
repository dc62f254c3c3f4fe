-- Principals, teams, grants, API keys, agents, settings and saved views.

-- name: principal_set
INSERT INTO principal (name, title, login, disabled, at) VALUES (:name, :title, :login, 0, {now})
ON CONFLICT (name) DO UPDATE SET
    title = CASE WHEN excluded.title = '' THEN principal.title ELSE excluded.title END,
    login = CASE WHEN excluded.login = '' THEN principal.login ELSE excluded.login END

-- name: principal_disable
UPDATE principal SET disabled = :disabled WHERE name = :name RETURNING name

-- name: principal_named
SELECT name, title, login, disabled, at FROM principal WHERE name = :name

-- name: principal_of_login
SELECT name, title, login, disabled, at FROM principal WHERE login = :login

-- name: principals
SELECT name, title, login, disabled, at FROM principal ORDER BY name

-- name: member_add
INSERT INTO member (team, principal) VALUES (:team, :principal) ON CONFLICT (team, principal) DO NOTHING

-- name: member_remove
DELETE FROM member WHERE team = :team AND principal = :principal RETURNING team

-- name: members
SELECT team, principal FROM member ORDER BY team, principal

-- name: teams_of
SELECT team FROM member WHERE principal = :principal ORDER BY team

-- name: grant_set
INSERT INTO granted (who, rights, project, agent, session, until, given_by, at)
VALUES (:who, :rights, :project, :agent, :session, :until, :given_by, {now})
ON CONFLICT (who, project, agent, session) DO UPDATE SET rights = excluded.rights, until = excluded.until,
    given_by = excluded.given_by, at = excluded.at
RETURNING id

-- name: grant_read
SELECT id, who, rights, project, agent, session, until, given_by, at FROM granted WHERE id = :id

-- name: grant_remove
DELETE FROM granted WHERE id = :id RETURNING id

-- name: grants
SELECT id, who, rights, project, agent, session, until, given_by, at FROM granted
WHERE TRUE
--if who AND who = :who
--if project AND project = :project
--if session AND session = :session
ORDER BY who, project, agent, session

-- name: grants_of
-- What counts for a principal: its own grants and those of its teams.
SELECT id, who, rights, project, agent, session, until, given_by, at FROM granted WHERE who = :principal
UNION ALL SELECT g.id, g.who, g.rights, g.project, g.agent, g.session, g.until, g.given_by, g.at
FROM member m JOIN granted g ON g.who = m.team WHERE m.principal = :principal

-- name: grants_erase
DELETE FROM granted WHERE session = :session

-- name: projects_of_accessible_sessions
-- The projects with a session that a principal opened or was granted by itself, and those that they are part of now.
WITH own (project) AS (
SELECT DISTINCT project FROM session WHERE owner = :me
UNION SELECT s.project FROM granted g JOIN session s ON s.id = g.session WHERE g.who = :me AND g.session <> ''
UNION SELECT s.project FROM member m JOIN granted g ON g.who = m.team JOIN session s ON s.id = g.session
WHERE m.principal = :me AND g.session <> ''
)
SELECT project FROM own
UNION SELECT p.part_of FROM own JOIN project p ON p.key = own.project WHERE p.part_of IS NOT NULL

-- name: principal_lock
SELECT name FROM principal WHERE name = :name {for_update}

-- name: credential_add
-- An access token that is here already, perhaps ended, stays as it is.
INSERT INTO credential
    (id, kind, parent, principal, hash, scopes, project, label, at, until, used_at, given_by)
VALUES (:id, :kind, :parent, :principal, :hash, :scopes, :project, :label, {now}, :until, 0, :given_by)
ON CONFLICT (id) DO NOTHING
RETURNING at

-- name: credential_chain
-- A credential and what it descends from. A link is nobody's; it is as good as who gave it.
WITH RECURSIVE chain (id, depth) AS (
    SELECT id, 0 FROM credential WHERE id = :id
    UNION ALL SELECT c.parent, chain.depth + 1 FROM chain JOIN credential c ON c.id = chain.id
    WHERE c.parent <> '' AND chain.depth < 32
)
SELECT k.id, k.kind, k.parent, k.principal, k.hash, k.scopes, k.project, k.label, k.at, k.until, k.used_at, k.given_by,
    coalesce(p.disabled, 0)
FROM chain JOIN credential k ON k.id = chain.id
    LEFT JOIN principal p ON p.name = CASE WHEN substr(k.principal, 1, 5) = 'link:' THEN k.given_by ELSE k.principal END
ORDER BY chain.depth

-- name: credential_used
UPDATE credential SET used_at = :at WHERE id = :id AND used_at < :at RETURNING id

-- name: credential_redeem
-- Only the first who comes with a login.
UPDATE credential SET used_at = {now} WHERE id = :id AND used_at = 0 AND kind = 'login' RETURNING id

-- name: credential_end
-- A credential and all that descend from it.
WITH RECURSIVE below (id) AS (
    SELECT id FROM credential WHERE id = :id UNION SELECT c.id FROM below b JOIN credential c ON c.parent = b.id
)
UPDATE credential SET until = :until WHERE id IN (SELECT id FROM below) AND (until = 0 OR until > :until) RETURNING id

-- name: credentials_end
-- All that a principal holds, the links it made, and what descends from them.
WITH RECURSIVE below (id) AS (
    SELECT id FROM credential WHERE principal = :principal OR (kind = 'link' AND given_by = :principal)
    UNION SELECT c.id FROM below b JOIN credential c ON c.parent = b.id
)
UPDATE credential SET until = :until WHERE id IN (SELECT id FROM below) AND (until = 0 OR until > :until) RETURNING id

-- name: credential_end_browser
-- The browser login of a principal that was not used for longest.
UPDATE credential SET until = {now} WHERE id = (
    SELECT id FROM credential WHERE principal = :principal AND kind = 'browser' AND (until = 0 OR until > {now})
    ORDER BY used_at, at, id LIMIT 1
) RETURNING id

-- name: credential_reparent
UPDATE credential SET parent = :new WHERE parent = :old AND id <> :new

-- name: credentials_live
-- How many credentials a principal holds that have not ended, access tokens apart.
SELECT count(*) FROM credential
WHERE (principal = :holder OR (kind = 'link' AND given_by = :holder)) AND (until = 0 OR until > {now})
    AND CASE WHEN kind = 'access_token' THEN 1 ELSE 0 END = :tokens

-- name: credentials_forget
DELETE FROM credential WHERE kind = 'access_token' AND until < {now} - :age

-- name: credentials_of
SELECT id, kind, parent, principal, hash, scopes, project, label, at, until, used_at, given_by, 0 FROM credential
WHERE TRUE
--if principal AND (principal = :principal OR (kind = 'link' AND given_by = :principal))
ORDER BY principal, at, id

-- name: agent_set
INSERT INTO agent (name, project, runtime, model, instructions, tools, owner, place, rules, at)
VALUES (:name, :project, :runtime, :model, :instructions, :tools, :owner, :place, :rules, {now})
ON CONFLICT (project, name) DO UPDATE SET runtime = excluded.runtime, model = excluded.model,
    instructions = excluded.instructions, tools = excluded.tools, owner = excluded.owner, place = excluded.place,
    rules = excluded.rules, at = excluded.at

-- name: agent_remove
DELETE FROM agent WHERE project = :project AND name = :name RETURNING name

-- name: agents
SELECT name, project, runtime, model, instructions, tools, owner, place, rules, at FROM agent ORDER BY name, project

-- name: setting_set
INSERT INTO setting (project, name, value) VALUES (:project, :name, :value)
ON CONFLICT (project, name) DO UPDATE SET value = excluded.value

-- name: settings
SELECT project, name, value FROM setting ORDER BY project, name

-- name: saved_view_set
INSERT INTO saved_view (principal, name, filters, at)
SELECT :principal, :name, :filters, {now}
WHERE EXISTS (SELECT 1 FROM saved_view WHERE principal = :principal AND name = :name)
    OR (SELECT count(*) FROM saved_view WHERE principal = :principal) < :most
ON CONFLICT (principal, name) DO UPDATE SET filters = excluded.filters, at = excluded.at
RETURNING name

-- name: saved_view_remove
DELETE FROM saved_view WHERE principal = :principal AND name = :name RETURNING name

-- name: saved_views
SELECT name, filters, at FROM saved_view WHERE principal = :principal ORDER BY at, name

-- name: answer_read
SELECT request, status, answer FROM answered WHERE principal = :principal AND key = :key

-- name: answer_add
INSERT INTO answered (principal, key, request, status, answer, at)
VALUES (:principal, :key, :request, :status, :answer, {now})
ON CONFLICT (principal, key) DO NOTHING
RETURNING status

-- name: answers_about
-- Answers that tell of a session.
--lite DELETE FROM answered WHERE instr(answer, CAST(:session AS BLOB)) > 0
--pg DELETE FROM answered WHERE position(convert_to(:session, 'UTF8') IN answer) > 0

-- name: answers_forget
DELETE FROM answered WHERE at < {now} - :age RETURNING status

-- name: answer_oldest
SELECT at FROM answered WHERE at < {now} - :age ORDER BY at LIMIT 1
