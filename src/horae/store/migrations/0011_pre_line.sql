-- Where the runs of a job wait and how often they are tried, beside its cursor: a due time becomes a run without a look at
-- the job. Only `line_version` says so: a release that knows nothing of these columns leaves them as they were.
ALTER TABLE timers ADD COLUMN line_version INTEGER;
ALTER TABLE timers ADD COLUMN bucket {key};
ALTER TABLE timers ADD COLUMN group_key {key};
ALTER TABLE timers ADD COLUMN max_attempts INTEGER;
ALTER TABLE timers ADD COLUMN is_once BOOLEAN;
