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
