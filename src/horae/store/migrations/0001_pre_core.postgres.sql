
CREATE FUNCTION horae_now() RETURNS BIGINT LANGUAGE sql VOLATILE AS
    $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::BIGINT $$;

CREATE SEQUENCE horae_fence_numbers CACHE 1;
CREATE FUNCTION horae_fence() RETURNS BIGINT LANGUAGE sql VOLATILE AS
    $$ SELECT nextval('horae_fence_numbers') $$;

-- The same value as core/run.py run_id().
CREATE FUNCTION horae_run_id(job_id TEXT, trigger_key TEXT, at_us BIGINT) RETURNS TEXT LANGUAGE sql IMMUTABLE AS
    $$ SELECT substr(head, 1, 8) || '-' || substr(head, 9) || '-8' || substr(tail, 1, 3) || '-a' || substr(tail, 4, 3)
              || '-' || substr(tail, 7, 12)
         FROM (SELECT lpad(to_hex(at_us / 1000), 12, '0') AS head,
                      encode(sha256(convert_to(job_id || '|' || trigger_key, 'UTF8')), 'hex') AS tail) AS parts $$;

-- Append-only tables are cut by day of their end; the janitor makes days ahead and drops old ones. The default
-- partitions only catch rows if nobody made a day in time.
CREATE TABLE history_default PARTITION OF history DEFAULT;
CREATE TABLE attempts_default PARTITION OF attempts DEFAULT;
CREATE TABLE logs_default PARTITION OF logs DEFAULT;

-- Hot tables: room for new row versions on the page, and a vacuum that comes often.
ALTER TABLE timers SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
                        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_threshold = 5000);
ALTER TABLE runs SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
                      autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_threshold = 5000);
ALTER TABLE workers SET (fillfactor = 50);
ALTER TABLE leases SET (fillfactor = 50);
