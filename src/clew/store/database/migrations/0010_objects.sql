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

ALTER TABLE blob ADD COLUMN pack TEXT {plain};
ALTER TABLE blob ADD COLUMN start BIGINT;
ALTER TABLE blob ADD COLUMN length BIGINT;
CREATE INDEX blob_pack ON blob (pack) WHERE pack IS NOT NULL;
CREATE INDEX blob_unnamed ON blob (at) WHERE refs <= 0;
