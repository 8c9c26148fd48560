-- The lock table, for databases of the GoogleSQL dialect. Any name will do.
-- The first four columns are shared with other implementations of the same table; the other two
-- are optional: `lease_ms` is the holder's own lease, `info` what the holder says of itself.
-- Without `lease_ms` all instances must use one and the same lease, or two may hold a lock at once.
-- Every role that uses the table needs all of its columns: the information schema, which is asked
-- for them, hides the others.
CREATE TABLE locktable (
  name STRING(MAX) NOT NULL,
  heartbeat TIMESTAMP OPTIONS (allow_commit_timestamp=true),
  token TIMESTAMP OPTIONS (allow_commit_timestamp=true),
  writer STRING(MAX),
  lease_ms INT64,
  info STRING(MAX),
) PRIMARY KEY (name);
