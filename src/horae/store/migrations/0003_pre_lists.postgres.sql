
-- The feed of what ended lately. SQLite has this one already.
CREATE INDEX history_by_end ON history (ended_us);
