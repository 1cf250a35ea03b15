-- Whose output it is, so that the second wall need not look for the run of each piece. Pieces of an earlier release have
-- none.
ALTER TABLE logs ADD COLUMN tenant {key};
