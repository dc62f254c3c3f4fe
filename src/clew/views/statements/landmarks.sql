-- The landmarks of every session (views/landmarks.py): where calls, returns, edits, decisions and changes of state are,
-- without their texts. `name` is the tool of a call, or the kind of a mark; `said_at` is 0 without a runtime's clock.
CREATE TABLE landmark (
--pg    project BIGINT NOT NULL,
    session BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    type TEXT NOT NULL,
    name TEXT NOT NULL,
    at BIGINT NOT NULL,
    said_at BIGINT NOT NULL,
    PRIMARY KEY (session, seq)
){clustered};

-- The planner keeps no samples of what sessions say of themselves, so that none outlives an erasure.
--pg ALTER TABLE landmark ALTER name SET STATISTICS 0;

--pg ALTER TABLE landmark ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON landmark USING ({in_reach(project)});

-- name: landmarks_clear
DELETE FROM landmark

-- name: landmarks_drop
DELETE FROM landmark WHERE session = :session

-- name: landmarks_add
INSERT INTO landmark (
--pg    project,
    session, seq, type, name, at, said_at)
VALUES (
--pg    :project,
    :session, :seq, :type, :name, :at, :said_at)

-- name: landmarks_of
-- What to see on a map: an error at the place of its call. A revision is at the place of its first form.
SELECT coalesce(c.call, l.seq), l.type, l.name FROM landmark l
LEFT JOIN called c ON c.session = l.session AND c.returned = l.seq AND c.returned > 0
WHERE l.session = :session AND l.seq >= :first AND l.seq <= :last AND l.type NOT IN ('call', 'return')
    AND NOT EXISTS (SELECT 1 FROM revised r WHERE r.session = l.session AND r.seq = l.seq)
ORDER BY 1

-- name: landmarks_called
SELECT l.seq, l.name, l.at, l.said_at FROM landmark l
WHERE l.session = :session AND l.seq >= :first AND l.seq <= :last AND l.type IN ('call', 'edit')
    AND NOT EXISTS (SELECT 1 FROM revised r WHERE r.session = l.session AND r.seq = l.seq)
ORDER BY l.seq

-- name: landmarks_returned
-- The returns in a stretch, each with its call, which can be an ancestor's.
SELECT c.call, l.type, l.at, l.said_at FROM called c JOIN landmark l ON l.session = c.session AND l.seq = c.returned
WHERE c.session = :session AND c.returned > 0 AND c.returned >= :first AND c.returned <= :last

-- name: prompts_of
SELECT seq, at FROM turn WHERE session = :session AND seq >= :first AND seq <= :last ORDER BY seq
