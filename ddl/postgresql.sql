-- The lock table, for databases of the PostgreSQL dialect. The library's calls are the same for
-- both dialects.
CREATE TABLE locktable (
  name text NOT NULL,
  heartbeat SPANNER.COMMIT_TIMESTAMP,
  token SPANNER.COMMIT_TIMESTAMP,
  writer text,
  lease_ms bigint,
  info text,
  PRIMARY KEY (name)
);
