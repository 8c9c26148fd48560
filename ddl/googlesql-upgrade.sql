-- For a table of four columns, as other implementations make it. They don't mind the new ones.
ALTER TABLE locktable ADD COLUMN lease_ms INT64;
ALTER TABLE locktable ADD COLUMN info STRING(MAX);
ALTER TABLE locktable ADD COLUMN displaced TIMESTAMP;
ALTER TABLE locktable ADD COLUMN next STRING(MAX);
