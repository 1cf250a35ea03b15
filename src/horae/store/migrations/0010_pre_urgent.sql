-- The end of a run lets the next of its group try again: those of each priority, oldest first.
CREATE INDEX runs_by_urgency ON runs (group_key, priority, id) WHERE group_key IS NOT NULL;
DROP INDEX runs_by_group;
