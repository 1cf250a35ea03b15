-- The end of a piece of output that may be the beginning of a secret: kept back, sealed, until the next piece comes.
ALTER TABLE logs ADD COLUMN held TEXT;
