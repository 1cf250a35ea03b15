
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('dead_letters', 'dead_letters_by_error', '100000 100000 50 20 1');
CREATE INDEX read_again ON meta (value);
DROP INDEX read_again;
