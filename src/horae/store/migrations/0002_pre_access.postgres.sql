
-- Append only, whoever asks: a row may be given its place in the chain once, and nothing else ever changes.
CREATE FUNCTION horae_keep_audit() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.seq IS NULL
       AND ROW(NEW.id, NEW.tenant, NEW.at_us, NEW.actor, NEW.key_id, NEW.address, NEW.request_id, NEW.action,
               NEW.target, NEW.before, NEW.after)
           IS NOT DISTINCT FROM
           ROW(OLD.id, OLD.tenant, OLD.at_us, OLD.actor, OLD.key_id, OLD.address, OLD.request_id, OLD.action,
               OLD.target, OLD.before, OLD.after) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'the audit log is append only';
END $$;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION horae_keep_audit();
