CREATE TABLE locktable (
  name text NOT NULL,
  heartbeat SPANNER.COMMIT_TIMESTAMP,
  token SPANNER.COMMIT_TIMESTAMP,
  writer text,
  lease_ms bigint,
  info text,
  displaced timestamptz,
  next text,
  PRIMARY KEY (name)
);
