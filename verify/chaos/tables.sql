CREATE TABLE counters (name STRING(MAX) NOT NULL, value INT64) PRIMARY KEY (name);
CREATE TABLE log (
    id STRING(MAX) NOT NULL,
    value INT64 NOT NULL,
    counter STRING(MAX),
    token STRING(MAX),
    worker STRING(MAX),
    committed TIMESTAMP OPTIONS (allow_commit_timestamp=true),
) PRIMARY KEY (id, value)
