-- For a table of four columns, as other implementations make it. They don't mind the new ones.
ALTER TABLE locktable ADD COLUMN lease_ms bigint;
ALTER TABLE locktable ADD COLUMN info text;
ALTER TABLE locktable ADD COLUMN displaced timestamptz;
ALTER TABLE locktable ADD COLUMN next text;
