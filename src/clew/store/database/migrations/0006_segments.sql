-- Segments: bytes of a native file that are packed with the bodies of the events that were read from them.

ALTER TABLE segment ADD COLUMN first BIGINT;
ALTER TABLE segment ADD COLUMN last BIGINT;
ALTER TABLE segment ADD COLUMN data {bytes};
--pg ALTER TABLE segment ALTER data SET STATISTICS 0;
