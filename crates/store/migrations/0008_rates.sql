-- How fast dispatches of an app may begin, as JSON.
ALTER TABLE app ADD COLUMN rates TEXT NOT NULL DEFAULT '{}';
