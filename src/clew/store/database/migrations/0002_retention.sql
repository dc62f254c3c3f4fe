-- Retention: how long conversations are kept, and what may not be touched at all.

CREATE TABLE policy (
    project TEXT NOT NULL,
    agent TEXT NOT NULL,
    keep_days BIGINT,
    hold BIGINT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (project, agent)
);
