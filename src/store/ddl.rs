//! The statements that make the lock table, in both dialects.

pub(crate) const GOOGLESQL: &str = include_str!("../../ddl/googlesql.sql");
pub(crate) const POSTGRESQL: &str = include_str!("../../ddl/postgresql.sql");
pub(crate) const GOOGLESQL_UPGRADE: &str = include_str!("../../ddl/googlesql-upgrade.sql");
pub(crate) const POSTGRESQL_UPGRADE: &str = include_str!("../../ddl/postgresql-upgrade.sql");
