
-- Rows leave by age here, one by one; PostgreSQL drops whole days.
CREATE INDEX history_by_end ON history (ended_us);
CREATE INDEX attempts_by_end ON attempts (ended_us);
CREATE INDEX logs_by_age ON logs (at_us);
