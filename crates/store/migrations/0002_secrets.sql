-- Secrets of namespaces; the value is sealed for its name, under the key that lies beside the database.
CREATE TABLE secret (
    namespace TEXT NOT NULL,
    name      TEXT NOT NULL,
    value     BLOB NOT NULL,
    at        INTEGER NOT NULL,
    by        TEXT NOT NULL,
    PRIMARY KEY (namespace, name)
) WITHOUT ROWID;

-- The values of a request's headers, sealed for their version; they are not in its specification. Null: it has none,
-- or was written before they were sealed.
ALTER TABLE definition ADD COLUMN headers BLOB;

-- Whether its templates name a secret.
ALTER TABLE definition ADD COLUMN names_secret INTEGER NOT NULL DEFAULT 0;
CREATE INDEX definition_with_secret ON definition (key) WHERE names_secret = 1;
