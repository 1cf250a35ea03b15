"""The second wall between tenants, on PostgreSQL: what people ask for runs as a role that is shown rows of one tenant.

The owner of the tables, as whom the movers work, is exempt and pays nothing. The role can log in nowhere; the owner
steps into it and names the tenant by a setting of the session. Of versions and attempts, which have no tenant column,
it is shown what belongs to rows that it sees; so it is with pieces of logs that an earlier release wrote without one.
"""

from __future__ import annotations

# Left to the people in charge when the owner may not make roles: horae then works without the wall and says so.
BUILD = """
DO $wall$
DECLARE
    guest TEXT := left(current_user, 59) || '_api';
    item RECORD;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = guest) THEN
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN NOINHERIT', guest);
        EXCEPTION
            WHEN insufficient_privilege THEN RETURN;
            WHEN duplicate_object OR unique_violation THEN NULL;
        END;
    END IF;
    IF NOT pg_has_role(current_user, guest, 'MEMBER') THEN
        BEGIN
            EXECUTE format('GRANT %I TO CURRENT_USER', guest);
        EXCEPTION
            WHEN insufficient_privilege THEN RETURN;
        END;
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), guest);
    FOR item IN
        SELECT c.oid, c.relname AS name, c.relrowsecurity AS is_walled,
               EXISTS (SELECT FROM pg_attribute a
                       WHERE a.attrelid = c.oid AND a.attname = 'tenant' AND NOT a.attisdropped) AS has_tenant
        FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'p') AND NOT c.relispartition
          AND c.relowner = (SELECT oid FROM pg_roles WHERE rolname = current_user)
    LOOP
        IF NOT has_table_privilege(guest, item.oid, 'INSERT') THEN
            EXECUTE format('GRANT SELECT, INSERT ON %I TO %I', item.name, guest);
            IF item.name NOT IN ('audit', 'audit_heads', 'schema_migrations') THEN
                EXECUTE format('GRANT UPDATE, DELETE ON %I TO %I', item.name, guest);
            END IF;
        END IF;
        IF item.has_tenant AND NOT item.is_walled AND item.name <> 'logs' THEN
            EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', item.name);
            EXECUTE format('CREATE POLICY horae_tenant ON %I TO %I '
                           'USING (tenant = (SELECT current_setting(''horae.tenant'', true))) '
                           'WITH CHECK (tenant = (SELECT current_setting(''horae.tenant'', true)))', item.name, guest);
        END IF;
    END LOOP;
    -- A look for the run of each piece took 25 µs, so only pieces that do not say whose they are have it.
    IF EXISTS (SELECT FROM pg_class c
               JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant' AND NOT a.attisdropped
               WHERE c.oid = to_regclass('logs') AND NOT c.relrowsecurity) THEN
        ALTER TABLE logs ENABLE ROW LEVEL SECURITY;
        EXECUTE format('CREATE POLICY horae_tenant ON logs TO %I '
                       'USING (CASE WHEN tenant IS NOT NULL '
                       'THEN tenant = (SELECT current_setting(''horae.tenant'', true)) '
                       'ELSE EXISTS (SELECT FROM runs r WHERE r.id = logs.run_id) '
                       'OR EXISTS (SELECT FROM history h WHERE h.id = logs.run_id) END) '
                       'WITH CHECK (tenant IS NULL OR tenant = (SELECT current_setting(''horae.tenant'', true)))',
                       guest);
    END IF;
    -- Tables without a tenant: what is read of them belongs to a row that is seen. What is written is not looked at:
    -- a look for each row of a batch took half a second for 500.
    FOR item IN
        SELECT c.oid, c.relname AS name,
               CASE c.relname
                   WHEN 'job_versions' THEN 'EXISTS (SELECT FROM jobs j WHERE j.id = job_versions.job_id)'
                   ELSE 'EXISTS (SELECT FROM runs r WHERE r.id = attempts.run_id) '
                        'OR EXISTS (SELECT FROM history h WHERE h.id = attempts.run_id)'
               END AS is_seen
        FROM pg_class c
        WHERE c.oid IN (to_regclass('job_versions'), to_regclass('attempts')) AND NOT c.relrowsecurity
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', item.name);
        EXECUTE format('CREATE POLICY horae_read ON %I FOR SELECT TO %I USING (%s)', item.name, guest, item.is_seen);
        EXECUTE format('CREATE POLICY horae_add ON %I FOR INSERT TO %I WITH CHECK (true)', item.name, guest);
        EXECUTE format('CREATE POLICY horae_change ON %I FOR UPDATE TO %I USING (true)', item.name, guest);
        EXECUTE format('CREATE POLICY horae_drop ON %I FOR DELETE TO %I USING (true)', item.name, guest);
    END LOOP;
END $wall$
"""

# The role, if there is one to step into and the wall stands.
GUEST = """
SELECT r.rolname AS guest
FROM pg_roles r
WHERE r.rolname = left(session_user, 59) || '_api' AND NOT r.rolsuper AND NOT r.rolbypassrls
  AND pg_has_role(session_user, r.oid, 'MEMBER')
  AND EXISTS (SELECT FROM pg_class c WHERE c.oid = to_regclass('jobs') AND c.relrowsecurity
                AND c.relowner <> r.oid)
"""

# Of the session, not of a transaction: a single statement then needs none. Whoever borrows a connection sets all
# first, unless they stand as wanted. What people ask is planned anew for the tenant that asks: a plan from when the
# table was small walked all jobs of the tenant for each name of a batch.
ENTER = """
SELECT set_config('role', $1, false), set_config('horae.tenant', $2, false),
       set_config('plan_cache_mode', CASE WHEN $2 = '' THEN 'auto' ELSE 'force_custom_plan' END, false)
"""
