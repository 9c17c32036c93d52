-- kind 2: covered up to at, and judged up to until.
ALTER TABLE exception ADD COLUMN until INTEGER;
