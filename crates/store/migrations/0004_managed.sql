-- The job file that manages a job; none for one that was made by hand.
ALTER TABLE definition ADD COLUMN managed_by TEXT;

-- Who paused the job, when, and why, as long as it is paused.
ALTER TABLE definition ADD COLUMN pause_by TEXT;
ALTER TABLE definition ADD COLUMN pause_at INTEGER;
ALTER TABLE definition ADD COLUMN pause_reason TEXT;

-- Pauses that last are told from the history.
UPDATE definition SET
    pause_by = (SELECT s.by FROM job_state s WHERE s.job = definition.key >> 32 ORDER BY s.id DESC LIMIT 1),
    pause_reason = (SELECT s.reason FROM job_state s WHERE s.job = definition.key >> 32 ORDER BY s.id DESC LIMIT 1),
    pause_at = (SELECT s.at FROM job_state s WHERE s.job = definition.key >> 32 ORDER BY s.id DESC LIMIT 1)
WHERE state = 1
    AND key = (SELECT (j.id << 32) + j.version FROM job j WHERE j.id = definition.key >> 32)
    AND (SELECT s.state FROM job_state s WHERE s.job = definition.key >> 32 ORDER BY s.id DESC LIMIT 1) = 1;
