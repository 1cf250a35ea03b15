
-- What SQLite should think of our indexes, since nobody analyses. By itself it takes every first column for about as
-- telling as an id, and went through the whole tenant for a hundred runs by id (4 s). Rows, then rows that share the
-- first column, the first two, and so on.
ANALYZE meta;
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('jobs', 'sqlite_autoindex_jobs_1', '100000 1'),
    ('jobs', 'jobs_by_name', '100000 100000 1'),
    ('jobs', 'jobs_in_order', '100000 100000 1 1'),
    ('jobs', 'jobs_by_update', '100000 100000 2 1'),
    ('job_labels', 'sqlite_autoindex_job_labels_1', '200000 200000 20000 1'),
    ('job_labels', 'job_labels_by_job', '200000 2'),
    ('history', 'sqlite_autoindex_history_1', '5000000 1 1'),
    ('history', 'history_by_job', '5000000 50 1'),
    ('history', 'history_by_end', '5000000 1'),
    ('history', 'history_by_status', '5000000 5000000 1000000 1'),
    ('dead_letters', 'sqlite_autoindex_dead_letters_1', '100000 1'),
    ('dead_letters', 'dead_letters_open', '100000 100000 1');
-- The figures are read with the schema; this makes every connection read it again.
CREATE INDEX read_again ON meta (value);
DROP INDEX read_again;
