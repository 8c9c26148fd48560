CREATE TABLE locktable (
  name STRING(MAX) NOT NULL,
  heartbeat TIMESTAMP OPTIONS (allow_commit_timestamp=true),
  token TIMESTAMP OPTIONS (allow_commit_timestamp=true),
  writer STRING(MAX),
  lease_ms INT64,
  info STRING(MAX),
  displaced TIMESTAMP,
  next STRING(MAX),
) PRIMARY KEY (name);
