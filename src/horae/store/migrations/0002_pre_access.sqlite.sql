
-- Append only, whoever asks: a row may be given its place in the chain once, and nothing else ever changes.
CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit log is append only');
END;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
WHEN old.seq IS NOT NULL
     OR (new.id, new.tenant, new.at_us, new.actor, new.action, new.target)
        IS NOT (old.id, old.tenant, old.at_us, old.actor, old.action, old.target)
     OR (new.key_id, new.address, new.request_id, new.before, new.after)
        IS NOT (old.key_id, old.address, old.request_id, old.before, old.after)
BEGIN
    SELECT RAISE(ABORT, 'the audit log is append only');
END;
