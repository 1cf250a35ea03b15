-- How long the output of an attempt is, in the last of its pieces: nobody adds them all up for the next one.
ALTER TABLE logs ADD COLUMN total BIGINT;
