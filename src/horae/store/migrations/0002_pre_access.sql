
-- Who may come in. Of a key only its hash is kept, and its first letters to know it by.
CREATE TABLE api_keys (
    id {key} PRIMARY KEY,
    tenant {key} NOT NULL,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    scopes TEXT NOT NULL,
    prefix TEXT NOT NULL,
    hash {key} NOT NULL,
    requests_per_second INTEGER,
    created_us BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    expires_us BIGINT,
    last_used_us BIGINT,
    revoked_us BIGINT
);
CREATE UNIQUE INDEX api_keys_by_hash ON api_keys (hash);
CREATE INDEX api_keys_by_tenant ON api_keys (tenant, id);

-- The admin key that an earlier release made by itself becomes a key like the others.
INSERT INTO api_keys (id, tenant, name, role, scopes, prefix, hash, created_us, created_by)
SELECT 'first', 'default', 'first admin key', 'admin', '[]', '', value, horae_now(), 'horae'
FROM meta
WHERE key = 'admin_key_hash';

-- What a tenant may hold; NULL is as much as it likes. Its cap on running runs is in limits, where workers read it.
CREATE TABLE tenants (
    tenant {key} PRIMARY KEY,
    description TEXT NOT NULL,
    max_jobs INTEGER,
    max_queued INTEGER,
    requests_per_second INTEGER,
    max_payload_bytes INTEGER,
    created_us BIGINT NOT NULL,
    updated_us BIGINT NOT NULL
);
ALTER TABLE limits ADD COLUMN weight INTEGER NOT NULL DEFAULT 1;

-- What a tenant holds, kept only while it has a quota: nobody else pays for the counting.
CREATE TABLE usage (
    tenant {key} PRIMARY KEY,
    jobs BIGINT NOT NULL,
    queued BIGINT NOT NULL,
    queued_counted_us BIGINT NOT NULL
);
-- The waiting lines a tenant can have, one entry a line.
CREATE INDEX jobs_by_bucket ON jobs (tenant, bucket);

-- Token buckets shared by all nodes: until when each is used up.
CREATE TABLE rate_buckets (
    name {key} PRIMARY KEY,
    free_us BIGINT NOT NULL
);

-- Every change: who, what, before and after. A row gets its place in its tenant's chain (seq, hash) a moment later.
CREATE TABLE audit (
    id {serial},
    tenant {key} NOT NULL,
    at_us BIGINT NOT NULL,
    actor TEXT NOT NULL,
    key_id {key},
    address TEXT,
    request_id TEXT,
    action TEXT NOT NULL,
    target {key} NOT NULL,
    before TEXT,
    after TEXT,
    seq BIGINT,
    hash TEXT
);
CREATE INDEX audit_in_order ON audit (tenant, id);
CREATE INDEX audit_by_target ON audit (tenant, target, id);
CREATE UNIQUE INDEX audit_chain ON audit (tenant, seq) WHERE seq IS NOT NULL;
CREATE INDEX audit_unsealed ON audit (id) WHERE seq IS NULL;

CREATE TABLE audit_heads (
    tenant {key} PRIMARY KEY,
    seq BIGINT NOT NULL,
    hash TEXT NOT NULL
);
