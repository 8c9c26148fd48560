-- For a table of four columns that exists already. Running instances go on without the new
-- columns until they are restarted.
ALTER TABLE locktable ADD COLUMN lease_ms INT64;
ALTER TABLE locktable ADD COLUMN info STRING(MAX);
