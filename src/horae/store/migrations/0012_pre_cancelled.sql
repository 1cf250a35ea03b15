-- Which of its runs a worker is to stop, asked every second. By their worker alone it would walk past all that it ever
-- ran and nobody could clear away, because an old transaction is open.
CREATE INDEX runs_cancelled ON runs (worker) WHERE cancel IS NOT NULL;
