-- Definitions: who the jobs are. One row a job, one row a version of it.
CREATE TABLE jobs (
    id {key} PRIMARY KEY,
    tenant {key} NOT NULL,
    name {key} NOT NULL,
    version INTEGER NOT NULL,
    state TEXT NOT NULL,
    type TEXT NOT NULL,
    kind TEXT NOT NULL,
    queue {key} NOT NULL,
    priority INTEGER NOT NULL,
    bucket {key} NOT NULL,
    group_key {key},
    max_attempts INTEGER NOT NULL,
    is_once BOOLEAN NOT NULL,
    shard INTEGER NOT NULL,
    created_us BIGINT NOT NULL,
    updated_us BIGINT NOT NULL,
    paused_us BIGINT,
    pause_until_us BIGINT,
    pause_reason TEXT
);
CREATE UNIQUE INDEX jobs_by_name ON jobs (tenant, name) WHERE state <> 'deleted';
CREATE INDEX jobs_in_order ON jobs (tenant, name, id);
CREATE INDEX jobs_by_update ON jobs (tenant, updated_us, id);

CREATE TABLE job_versions (
    job_id {key} NOT NULL,
    version INTEGER NOT NULL,
    spec TEXT NOT NULL,
    created_us BIGINT NOT NULL,
    actor TEXT NOT NULL,
    PRIMARY KEY (job_id, version)
);

CREATE TABLE job_labels (
    tenant {key} NOT NULL,
    label {key} NOT NULL,
    job_id {key} NOT NULL,
    PRIMARY KEY (tenant, label, job_id)
);
CREATE INDEX job_labels_by_job ON job_labels (job_id);

-- Days under a name, and which jobs were last planned by which version of them.
CREATE TABLE calendars (
    tenant {key} NOT NULL,
    name {key} NOT NULL,
    version INTEGER NOT NULL,
    spec TEXT NOT NULL,
    updated_us BIGINT NOT NULL,
    PRIMARY KEY (tenant, name)
);
CREATE TABLE job_calendars (
    tenant {key} NOT NULL,
    name {key} NOT NULL,
    version INTEGER NOT NULL,
    job_id {key} NOT NULL,
    PRIMARY KEY (tenant, name, version, job_id)
);
CREATE INDEX job_calendars_by_job ON job_calendars (job_id);

-- Which endings of one job start another.
CREATE TABLE chains (
    upstream_id {key} NOT NULL,
    job_id {key} NOT NULL,
    ending TEXT NOT NULL,
    PRIMARY KEY (upstream_id, job_id)
);
CREATE INDEX chains_by_job ON chains (job_id);

-- The cursor of each schedule: every due time before due_us has been decided. Narrow, because every fire rewrites it.
CREATE TABLE timers (
    job_id {key} PRIMARY KEY,
    shard INTEGER NOT NULL,
    due_us BIGINT,
    version INTEGER NOT NULL,
    fired INTEGER NOT NULL
);
CREATE INDEX timers_by_due ON timers (due_us, shard) WHERE due_us IS NOT NULL;

-- Due times whose staged run was cancelled by hand before its time: no edit plans them again.
CREATE TABLE called_off (
    job_id {key} NOT NULL,
    due_us BIGINT NOT NULL,
    PRIMARY KEY (job_id, due_us)
);

-- The live queue: runs that are not over.
CREATE TABLE runs (
    id {key} PRIMARY KEY,
    job_id {key} NOT NULL,
    tenant {key} NOT NULL,
    version INTEGER NOT NULL,
    cause TEXT NOT NULL,
    queue {key} NOT NULL,
    priority INTEGER NOT NULL,
    bucket {key} NOT NULL,
    group_key {key},
    state TEXT NOT NULL,
    due_us BIGINT NOT NULL,
    run_at_us BIGINT NOT NULL,
    queued_us BIGINT NOT NULL,
    available_us BIGINT NOT NULL,
    attempt INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    is_once BOOLEAN NOT NULL,
    token BIGINT NOT NULL,
    epoch BIGINT,
    worker {key},
    started_us BIGINT,
    cancel TEXT,
    reason TEXT,
    error TEXT,
    payload TEXT,
    parent_id {key}
);
CREATE INDEX runs_waiting ON runs (bucket, available_us) WHERE state = 'queued';
CREATE INDEX runs_running ON runs (worker) WHERE state = 'running';
CREATE INDEX runs_by_job ON runs (job_id, id);
CREATE INDEX runs_by_group ON runs (group_key, id) WHERE group_key IS NOT NULL;

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
    epoch BIGINT,
    worker {key},
    reason TEXT,
    error TEXT,
    result TEXT,
    payload TEXT,
    parent_id {key},
    skip_until_us BIGINT,
    skip_count INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (id, ended_us)
) {by_day:ended_us};
CREATE INDEX history_by_job ON history (job_id, id);

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
) {by_day:ended_us};

-- What attempts printed.
CREATE TABLE logs (
    run_id {key} NOT NULL,
    attempt INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    at_us BIGINT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (run_id, attempt, seq, at_us)
) {by_day:at_us};

CREATE TABLE dead_letters (
    run_id {key} PRIMARY KEY,
    job_id {key} NOT NULL,
    tenant {key} NOT NULL,
    at_us BIGINT NOT NULL,
    replayed_as {key},
    discarded_us BIGINT
);
CREATE INDEX dead_letters_open ON dead_letters (tenant, run_id) WHERE replayed_as IS NULL AND discarded_us IS NULL;

-- What the rows above cannot say: pauses, edits, late results, lease changes.
CREATE TABLE events (
    seq {serial},
    at_us BIGINT NOT NULL,
    tenant {key} NOT NULL,
    kind TEXT NOT NULL,
    job_id {key},
    run_id {key},
    actor TEXT,
    reason TEXT,
    detail TEXT
);
CREATE INDEX events_by_job ON events (job_id, seq);

-- The fleet.
CREATE TABLE leases (
    shard INTEGER PRIMARY KEY,
    owner {key} NOT NULL,
    epoch BIGINT NOT NULL,
    expires_us BIGINT NOT NULL
);
CREATE TABLE schedulers (
    id {key} PRIMARY KEY,
    started_us BIGINT NOT NULL,
    expires_us BIGINT NOT NULL
);
CREATE TABLE workers (
    id {key} PRIMARY KEY,
    node TEXT NOT NULL,
    state TEXT NOT NULL,
    slots INTEGER NOT NULL,
    running INTEGER NOT NULL,
    queues TEXT NOT NULL,
    needs TEXT NOT NULL,
    started_us BIGINT NOT NULL,
    seen_us BIGINT NOT NULL,
    expires_us BIGINT NOT NULL
);

-- Caps and switches of a tenant (queue '') or of one of its queues.
CREATE TABLE limits (
    tenant {key} NOT NULL,
    queue {key} NOT NULL,
    max_running INTEGER,
    is_paused BOOLEAN NOT NULL,
    PRIMARY KEY (tenant, queue)
);

-- Sealed with a key that is not in the database.
CREATE TABLE secrets (
    tenant {key} NOT NULL,
    name {key} NOT NULL,
    version INTEGER NOT NULL,
    sealed TEXT NOT NULL,
    created_us BIGINT NOT NULL,
    updated_us BIGINT NOT NULL,
    PRIMARY KEY (tenant, name)
);

-- Who is told of what happens, and the messages to them.
CREATE TABLE webhooks (
    id {key} PRIMARY KEY,
    tenant {key} NOT NULL,
    name {key} NOT NULL,
    url TEXT NOT NULL,
    events TEXT NOT NULL,
    late_us BIGINT NOT NULL,
    is_active BOOLEAN NOT NULL,
    sealed TEXT NOT NULL,
    old_sealed TEXT,
    old_until_us BIGINT,
    created_us BIGINT NOT NULL,
    updated_us BIGINT NOT NULL
);
CREATE UNIQUE INDEX webhooks_by_name ON webhooks (tenant, name);
CREATE TABLE watches (
    tenant {key} NOT NULL,
    job_id {key} NOT NULL,
    event {key} NOT NULL,
    webhook_id {key} NOT NULL,
    url TEXT NOT NULL,
    late_us BIGINT NOT NULL,
    PRIMARY KEY (tenant, job_id, event, webhook_id, url)
);
CREATE INDEX watches_for_late ON watches (late_us) WHERE event = 'run.late';
CREATE TABLE deliveries (
    id {key} PRIMARY KEY,
    tenant {key} NOT NULL,
    webhook_id {key} NOT NULL,
    url TEXT NOT NULL,
    event TEXT NOT NULL,
    job_id {key} NOT NULL,
    run_id {key} NOT NULL,
    state TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    next_us BIGINT NOT NULL,
    status INTEGER,
    error TEXT,
    took_ms INTEGER,
    created_us BIGINT NOT NULL,
    ended_us BIGINT
);
CREATE INDEX deliveries_waiting ON deliveries (next_us) WHERE state = 'waiting';
CREATE INDEX deliveries_by_tenant ON deliveries (tenant, id);

CREATE TABLE idempotency (
    tenant {key} NOT NULL,
    key {key} NOT NULL,
    request TEXT NOT NULL,
    result TEXT,
    status INTEGER,
    answer TEXT,
    created_us BIGINT NOT NULL,
    PRIMARY KEY (tenant, key)
);
CREATE INDEX idempotency_by_age ON idempotency (created_us);

CREATE TABLE meta (
    key {key} PRIMARY KEY,
    value TEXT NOT NULL
);
INSERT INTO meta (key, value) VALUES ('clock_high_us', '0');

INSERT INTO leases (shard, owner, epoch, expires_us)
WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 63)
SELECT n, '', 0, 0
FROM numbers;
