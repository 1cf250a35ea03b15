
-- Finished runs and decisions to skip; append only. A repeated skip is one row: from due_us to skip_until_us.
CREATE TABLE history (
    id {key} NOT NULL,
    job_id {key} NOT NULL,
    tenant {key} NOT NULL,
    version INTEGER NOT NULL,
    cause TEXT NOT NULL,
    queue {key} NOT NULL,
    priority INTEGER NOT NULL,
    status TEXT NOT NULL,
    due_us BIGINT NOT NULL,
    run_at_us BIGINT NOT NULL,
    queued_us BIGINT NOT NULL,
    started_us BIGINT,
    ended_us BIGINT NOT NULL,
    attempt INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    token BIGINT NOT NULL,
    worker {key},
    reason TEXT,
    error TEXT,
    result TEXT,
    payload TEXT,
    parent_id {key},
    skip_until_us BIGINT,
    skip_count INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (id, ended_us)
);
CREATE INDEX history_by_job ON history (job_id, id);
CREATE INDEX history_by_end ON history (ended_us);

-- Attempts that were not the last one of their run.
CREATE TABLE attempts (
    run_id {key} NOT NULL,
    attempt INTEGER NOT NULL,
    token BIGINT NOT NULL,
    worker {key},
    started_us BIGINT NOT NULL,
    ended_us BIGINT NOT NULL,
    reason TEXT,
    error TEXT,
    PRIMARY KEY (run_id, attempt, ended_us)
);
CREATE INDEX attempts_by_end ON attempts (ended_us);

CREATE TABLE logs (
    run_id {key} NOT NULL,
    attempt INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    at_us BIGINT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (run_id, attempt, seq, at_us)
);
CREATE INDEX logs_by_age ON logs (at_us);
