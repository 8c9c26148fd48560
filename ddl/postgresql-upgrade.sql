-- For a table of four columns that exists already. Not run by this project's tests.
ALTER TABLE locktable ADD COLUMN lease_ms bigint;
ALTER TABLE locktable ADD COLUMN info text;
