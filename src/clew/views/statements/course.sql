-- The course of every session (model/course.py): where turns start, what was rewound and revised, and which return
-- belongs to which call. All are seqs. A fork has rows only for its own events; `parent` and `call` can be an ancestor's.
CREATE TABLE turn (
--pg    project BIGINT NOT NULL,
    session BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (session, seq)
){clustered};
CREATE TABLE branch (
--pg    project BIGINT NOT NULL,
    session BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    parent BIGINT NOT NULL,
    PRIMARY KEY (session, seq)
){clustered};
CREATE TABLE revised (
--pg    project BIGINT NOT NULL,
    session BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    place BIGINT NOT NULL,
    PRIMARY KEY (session, seq)
){clustered};
CREATE INDEX revised_place ON revised (session, place);
-- `returned` is 0 while a call is open, `id` a hash of its id.
CREATE TABLE called (
--pg    project BIGINT NOT NULL,
    session BIGINT NOT NULL,
    call BIGINT NOT NULL,
    returned BIGINT NOT NULL,
    id BIGINT NOT NULL,
    PRIMARY KEY (session, call)
){clustered};
CREATE INDEX called_open ON called (session, id) WHERE returned = 0;
CREATE INDEX called_returned ON called (session, returned) WHERE returned > 0;

--pg ALTER TABLE turn ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON turn USING ({in_reach(project)});
--pg ALTER TABLE branch ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON branch USING ({in_reach(project)});
--pg ALTER TABLE revised ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON revised USING ({in_reach(project)});
--pg ALTER TABLE called ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON called USING ({in_reach(project)});

-- name: turn_clear
DELETE FROM turn

-- name: branch_clear
DELETE FROM branch

-- name: revised_clear
DELETE FROM revised

-- name: called_clear
DELETE FROM called

-- name: turn_drop
DELETE FROM turn WHERE session = :session

-- name: branch_drop
DELETE FROM branch WHERE session = :session

-- name: revised_drop
DELETE FROM revised WHERE session = :session

-- name: called_drop
DELETE FROM called WHERE session = :session

-- name: turn_add
--lite INSERT INTO turn (session, seq, at) VALUES (:session, :seq, :at)
--pg INSERT INTO turn (project, session, seq, at) VALUES (:project, :session, :seq, :at)

-- name: branch_add
--lite INSERT INTO branch (session, seq, parent) VALUES (:session, :seq, :parent)
--pg INSERT INTO branch (project, session, seq, parent) VALUES (:project, :session, :seq, :parent)

-- name: revised_add
--lite INSERT INTO revised (session, seq, place) VALUES (:session, :seq, :place)
--pg INSERT INTO revised (project, session, seq, place) VALUES (:project, :session, :seq, :place)

-- name: called_add
--lite INSERT INTO called (session, call, returned, id) VALUES (:session, :call, :returned, :id)
--pg INSERT INTO called (project, session, call, returned, id) VALUES (:project, :session, :call, :returned, :id)

-- name: called_newest_open
SELECT call FROM called WHERE session = :session AND id = :id AND returned = 0 ORDER BY call DESC LIMIT 1

-- name: called_returned
SELECT returned FROM called WHERE session = :session AND call = :call

-- name: called_close
UPDATE called SET returned = :returned WHERE session = :session AND call = :call

-- name: branches
SELECT seq, parent FROM branch WHERE session = :session AND seq >= :first AND seq <= :last ORDER BY seq

-- name: course_window
-- What is revised and returned in the places `first` to `last`, as it is at the place `end`.
SELECT 0, place, seq FROM revised
WHERE session = :session AND place >= :first AND place <= :last AND seq <= :end
UNION SELECT 0, place, seq FROM revised
WHERE session = :session AND seq >= :first AND seq <= :last AND seq <= :end
UNION SELECT 1, call, returned FROM called
WHERE session = :session AND call >= :first AND call <= :last AND returned > 0 AND returned <= :end
UNION SELECT 1, call, returned FROM called
WHERE session = :session AND returned > 0 AND returned >= :first AND returned <= :last AND returned <= :end

-- name: turns_last
-- The newest prompts before a place.
SELECT seq, at FROM turn WHERE session = :session AND seq >= :first AND seq <= :last ORDER BY seq DESC LIMIT :limit
