//! The statements that make the lock table, in both dialects.

/// The statements of [`LockTable::ddl`](crate::LockTable::ddl): for which dialect, and for a new table or
/// for an old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ddl {
    /// The statement that makes the table, in GoogleSQL.
    GoogleSql,
    /// The statement that makes the table, for a database of the PostgreSQL dialect.
    PostgreSql,
    /// The statements that add what the table of another implementation lacks, in GoogleSQL.
    GoogleSqlUpgrade,
    /// The statements that add what the table of another implementation lacks, for a database of the
    /// PostgreSQL dialect.
    PostgreSqlUpgrade,
}

impl Ddl {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Ddl::GoogleSql => unended(include_str!("../../ddl/googlesql.sql")),
            Ddl::PostgreSql => unended(include_str!("../../ddl/postgresql.sql")),
            Ddl::GoogleSqlUpgrade => include_str!("../../ddl/googlesql-upgrade.sql"),
            Ddl::PostgreSqlUpgrade => include_str!("../../ddl/postgresql-upgrade.sql"),
        }
    }
}

/// The one statement of a file, without its semicolon, as Google's clients take it.
const fn unended(file: &'static str) -> &'static str {
    let [statement @ .., b';', b'\n'] = file.as_bytes() else {
        panic!("expected a file of one statement, which ends with a semicolon");
    };
    match str::from_utf8(statement) {
        Ok(statement) => statement,
        Err(_) => panic!("a text without its end is a text"),
    }
}
