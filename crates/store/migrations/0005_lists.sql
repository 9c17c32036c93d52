-- Attempts that one call may bring a worker; 0 for workers that take them one at a time.
ALTER TABLE worker ADD COLUMN list_max INTEGER NOT NULL DEFAULT 0;
