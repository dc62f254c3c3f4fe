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

-- The bytes of an original, in pieces as it grew. A file that was rewritten begins a new generation.
CREATE TABLE segment (
    original BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    start BIGINT NOT NULL,
    length BIGINT NOT NULL,
    blob {bytes} NOT NULL,
    PRIMARY KEY (original, generation, start)
){clustered};

--pg ALTER TABLE original ALTER path SET STATISTICS 0, ALTER native SET STATISTICS 0, ALTER state SET STATISTICS 0,
--pg     ALTER root SET STATISTICS 0;
