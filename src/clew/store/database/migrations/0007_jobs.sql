-- Jobs: background work that is done once, by whichever worker takes it, and tried again when it fails.

-- A job runs once per (kind, project, key). Whoever runs it holds a lease by the database's clock, and its epoch fences a
-- worker that slept past its time. `at` is the last change of the row.
CREATE TABLE job (
    id TEXT {plain} PRIMARY KEY,
    kind TEXT NOT NULL,
    project TEXT NOT NULL,
    key TEXT NOT NULL,
    arguments TEXT NOT NULL,
    state TEXT NOT NULL,
    due_at BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    holder TEXT NOT NULL,
    lease_until BIGINT NOT NULL,
    error TEXT NOT NULL,
    result TEXT NOT NULL,
    made_at BIGINT NOT NULL,
    at BIGINT NOT NULL,
    UNIQUE (kind, project, key)
);
CREATE INDEX job_open ON job (due_at) WHERE state IN ('waiting', 'running');
CREATE INDEX job_made ON job (made_at, id);
