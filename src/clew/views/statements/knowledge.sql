-- What every session knows: a row for each event that adds to its knowledge or takes from it (`body` is NULL then).
-- `valid` is 1 for what `recall` finds: the newest of its name, and not scratch. A long body is in the log alone.
CREATE TABLE known (
--pg    project BIGINT NOT NULL,
    session BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    tier TEXT NOT NULL,
    name BIGINT NOT NULL,
    kind TEXT NOT NULL,
    gone BIGINT NOT NULL,
    valid BIGINT NOT NULL,
    scope TEXT NOT NULL,
    at BIGINT NOT NULL,
    who TEXT NOT NULL,
    body TEXT,
    PRIMARY KEY (session, seq)
){clustered};
CREATE INDEX known_name ON known (session, tier, name, seq);
CREATE INDEX known_newest ON known (at, session, seq) WHERE valid = 1;

-- The planner keeps no samples of what sessions say of themselves, so that none outlives an erasure.
--pg ALTER TABLE known ALTER body SET STATISTICS 0, ALTER who SET STATISTICS 0, ALTER scope SET STATISTICS 0;

--pg ALTER TABLE known ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON known USING ({in_reach(project)});

-- name: known_clear
DELETE FROM known

-- name: known_drop
DELETE FROM known WHERE session = :session

-- name: known_end
-- An event about the same thing came after.
UPDATE known SET valid = 0
WHERE session = :session AND tier = :tier AND name = :name AND seq < :seq AND valid = 1

-- name: known_add
INSERT INTO known (
--pg    project,
    session, seq, tier, name, kind, gone, valid, scope, at, who, body)
VALUES (
--pg    :project,
    :session, :seq, :tier, :name, :kind, :gone, :valid, :scope, :at, :who, :body)

-- name: known_of
-- The newest of each name that a session wrote in a stretch of its history.
SELECT k.session, k.seq, k.tier, k.name, k.kind, k.gone, k.at, k.who, k.body FROM known k
WHERE k.session = :session AND k.seq >= :first AND k.seq <= :last
    AND NOT EXISTS (SELECT 1 FROM known n WHERE n.session = k.session AND n.tier = k.tier AND n.name = k.name
        AND n.seq > k.seq AND n.seq <= :last)
ORDER BY k.seq

-- name: known_newest
-- What is known anywhere, newest first.
SELECT k.session, k.seq, k.tier, k.name, k.kind, k.gone, k.at, k.who, k.body, l.id
FROM known k JOIN listing l ON l.session = k.session
WHERE k.valid = 1 AND k.at <= :at AND (k.at < :at OR k.session < :before OR (k.session = :before AND k.seq < :seq))
--if project AND l.project = :project
--if projects AND l.project IN ({projects})
--if scope AND k.scope = :scope
--if me AND {reached(l.project, l.person, l.session, l.private, l.agent)}
ORDER BY k.at DESC, k.session DESC, k.seq DESC LIMIT :limit

-- name: known_matching
-- The same among the passages that match.
--lite SELECT k.session, k.seq, k.tier, k.name, k.kind, k.gone, k.at, k.who, k.body, l.id
--lite FROM words w CROSS JOIN passage p ON p.id = w.rowid CROSS JOIN known k ON k.session = p.session AND k.seq = p.seq
--lite CROSS JOIN listing l ON l.session = k.session
--lite WHERE words MATCH :match
--pg SELECT k.session, k.seq, k.tier, k.name, k.kind, k.gone, k.at, k.who, k.body, l.id
--pg FROM passages_with(CAST(:match AS tsquery), 9223372036854775807, 0) p JOIN known k ON k.session = p.session AND k.seq = p.seq JOIN listing l ON l.session = k.session
--pg WHERE TRUE
AND k.valid = 1 AND k.at <= :at AND (k.at < :at OR k.session < :before OR (k.session = :before AND k.seq < :seq))
--if project AND l.project = :project
--if projects AND l.project IN ({projects})
--if scope AND k.scope = :scope
--if me AND {reached(l.project, l.person, l.session, l.private, l.agent)}
ORDER BY k.at DESC, k.session DESC, k.seq DESC LIMIT :limit
