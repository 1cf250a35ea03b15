-- What a planner must know of a job, beside its cursor: a due time is decided without a look at its definition. Only
-- `timing_version` says so: a release that knows nothing of these columns edits a job and leaves them as they were.
ALTER TABLE timers ADD COLUMN created_us BIGINT;
ALTER TABLE timers ADD COLUMN timing_version INTEGER;
ALTER TABLE timers ADD COLUMN timing TEXT;
