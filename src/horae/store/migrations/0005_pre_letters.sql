-- What a dead letter is about, kept with it: they are grouped and filtered without a look at the runs.
ALTER TABLE dead_letters ADD COLUMN fingerprint {key} NOT NULL DEFAULT '';
ALTER TABLE dead_letters ADD COLUMN queue {key};
ALTER TABLE dead_letters ADD COLUMN priority INTEGER;
ALTER TABLE dead_letters ADD COLUMN reason TEXT;
UPDATE dead_letters
SET (fingerprint, queue, priority, reason) = (
    SELECT coalesce(h.reason, ''), h.queue, h.priority, h.reason
    FROM history h
    WHERE h.id = dead_letters.run_id AND h.ended_us = dead_letters.at_us
)
WHERE EXISTS (SELECT 1 FROM history h WHERE h.id = dead_letters.run_id AND h.ended_us = dead_letters.at_us);
CREATE INDEX dead_letters_by_error ON dead_letters (tenant, job_id, fingerprint, run_id)
    WHERE replayed_as IS NULL AND discarded_us IS NULL;
