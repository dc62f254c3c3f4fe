-- Lists of sessions that people saved under a name, each principal's own.
CREATE TABLE saved_view (
    principal TEXT NOT NULL,
    name TEXT NOT NULL,
    filters TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (principal, name)
);
--pg ALTER TABLE saved_view ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
--pg CREATE POLICY wall ON saved_view USING ({everything});
