-- The lock table, for databases of the PostgreSQL dialect. Not run by this project's tests, which
-- have no server of that dialect; the library's calls are the same for both.
CREATE TABLE locktable (
  name text NOT NULL,
  heartbeat SPANNER.COMMIT_TIMESTAMP,
  token SPANNER.COMMIT_TIMESTAMP,
  writer text,
  lease_ms bigint,
  info text,
  PRIMARY KEY (name)
);
