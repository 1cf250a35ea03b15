
-- The last token that was given to an attempt; above those of earlier releases, which counted in memory.
INSERT OR REPLACE INTO meta (key, value)
SELECT 'fence', CAST((coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'fence'), 0) + 1) << 40 AS TEXT);
