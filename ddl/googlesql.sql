-- The lock table, for databases of the GoogleSQL dialect. Any name will do.
-- The first four columns are shared with other implementations of the same table; the other two
-- are optional: `lease_ms` is the holder's own lease, `info` what the holder says of itself.
CREATE TABLE locktable (
  name STRING(MAX) NOT NULL,
  heartbeat TIMESTAMP OPTIONS (allow_commit_timestamp=true),
  token TIMESTAMP OPTIONS (allow_commit_timestamp=true),
  writer STRING(MAX),
  lease_ms INT64,
  info STRING(MAX),
) PRIMARY KEY (name);
