//! The columns that a lock table should have, and the ALTER for those that it lacks or has otherwise.

use crate::names::{ID_BYTES_MAX, INFO_BYTES_MAX, NAME_BYTES_MAX};

/// How much a takeover row's key adds to the name of its lock.
const TAKEOVER_SUFFIX: usize = 20;

/// How much a writer adds to the id of its instance, and some more.
const WRITER_SUFFIX: usize = 64;

/// A column as the information schema tells of it.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(super) name: String,
    /// As DDL writes it: `STRING(MAX)`, `character varying(8)`.
    pub(super) spanner_type: String,
    /// True if it takes commit timestamps, where its type doesn't say so.
    pub(super) is_stamped: bool,
}

enum Kind {
    /// It has to take at least this many characters.
    Text(usize),
    Stamp,
    Time,
    Number,
}

struct Column {
    name: &'static str,
    kind: Kind,
    ddl: &'static str,
    ddl_postgresql: &'static str,
}

const STAMP: &str = "TIMESTAMP OPTIONS (allow_commit_timestamp=true)";
const STAMP_POSTGRESQL: &str = "SPANNER.COMMIT_TIMESTAMP";

const COLUMNS: [Column; 8] = [
    Column {
        name: "name",
        kind: Kind::Text(NAME_BYTES_MAX + TAKEOVER_SUFFIX),
        ddl: "STRING(MAX) NOT NULL",
        ddl_postgresql: "text",
    },
    Column { name: "heartbeat", kind: Kind::Stamp, ddl: STAMP, ddl_postgresql: STAMP_POSTGRESQL },
    Column { name: "token", kind: Kind::Stamp, ddl: STAMP, ddl_postgresql: STAMP_POSTGRESQL },
    Column {
        name: "writer",
        kind: Kind::Text(ID_BYTES_MAX + WRITER_SUFFIX),
        ddl: "STRING(MAX)",
        ddl_postgresql: "text",
    },
    Column { name: "lease_ms", kind: Kind::Number, ddl: "INT64", ddl_postgresql: "bigint" },
    Column {
        name: "info",
        kind: Kind::Text(INFO_BYTES_MAX),
        ddl: "STRING(MAX)",
        ddl_postgresql: "text",
    },
    Column { name: "displaced", kind: Kind::Time, ddl: "TIMESTAMP", ddl_postgresql: "timestamptz" },
    Column {
        name: "next",
        kind: Kind::Text(ID_BYTES_MAX + WRITER_SUFFIX),
        ddl: "STRING(MAX)",
        ddl_postgresql: "text",
    },
];

/// Tells what is wrong with the columns of a table, and how to mend it.
pub(crate) fn check_columns(table: &str, found: &[Found]) -> Result<(), String> {
    if found.is_empty() {
        return Err(no_table(table));
    }
    for column in &COLUMNS {
        match column.among(found) {
            Some(found) => column.check(table, found)?,
            None => {
                return Err(column.missing(table, &column.addition(table, is_postgresql(found))));
            }
        }
    }
    Ok(())
}

/// Says that the table is missing.
pub(super) fn no_table(table: &str) -> String {
    format!(
        "table `{table}` is not there, or this role may not see it: `spindle init` makes it, as in \
         ddl/"
    )
}

/// Says that a column is missing, with its statement in both dialects: Spanner's refusal is the same
/// in both.
pub(super) fn no_column(table: &str, name: &str) -> String {
    match COLUMNS.iter().find(|column| column.name.eq_ignore_ascii_case(name)) {
        Some(column) => {
            let [googlesql, postgresql] = [false, true].map(|it| column.addition(table, it));
            column.missing(table, &format!("{googlesql}; in PostgreSQL {postgresql}"))
        }
        None => format!("table `{table}` has no column `{name}`"),
    }
}

/// Returns the columns that a table lacks, each with the statement that adds it; none for one that isn't
/// there, or has another key.
#[cfg(feature = "admin")]
pub(crate) fn lacking(table: &str, found: &[Found]) -> Vec<(&'static str, String)> {
    let [key, columns @ ..] = &COLUMNS;
    if key.among(found).is_none() {
        return Vec::new();
    }
    let lacking = columns.iter().filter(|column| column.among(found).is_none());
    lacking.map(|it| (it.name, it.addition(table, is_postgresql(found)))).collect()
}

/// Returns true if the columns are of a database of the PostgreSQL dialect.
fn is_postgresql(found: &[Found]) -> bool {
    found.iter().any(Found::is_postgresql)
}

impl Column {
    fn ddl(&self, is_postgresql: bool) -> &'static str {
        if is_postgresql { self.ddl_postgresql } else { self.ddl }
    }

    fn among<'a>(&self, found: &'a [Found]) -> Option<&'a Found> {
        found.iter().find(|found| found.name.eq_ignore_ascii_case(self.name))
    }

    fn addition(&self, table: &str, is_postgresql: bool) -> String {
        let (name, ddl) = (self.name, self.ddl(is_postgresql));
        format!("ALTER TABLE {table} ADD COLUMN {name} {ddl}")
    }

    fn missing(&self, table: &str, addition: &str) -> String {
        let name = self.name;
        if name == COLUMNS[0].name {
            return format!(
                "table `{table}` has no column `{name}`, so it is no lock table: `spindle init` makes one \
                 of another name"
            );
        }
        format!(
            "table `{table}` has no column `{name}`, or this role may not see it: `spindle init` adds \
             it, or {addition}"
        )
    }

    fn check(&self, table: &str, found: &Found) -> Result<(), String> {
        let Column { name, .. } = self;
        let ddl = self.ddl(found.is_postgresql());
        let has = format!("table `{table}` has `{name} {}`", found.spanner_type);
        let keyword = if found.is_postgresql() { "TYPE " } else { "" };
        let is_right_type = match self.kind {
            Kind::Text(_) => found.text_length().is_some(),
            Kind::Stamp | Kind::Time => found.is_timestamp(),
            Kind::Number => found.is_number(),
        };
        if !is_right_type {
            let mend = match *name {
                "name" => format!("DROP TABLE {table}, and create it as in ddl/googlesql.sql"),
                _ => format!(
                    "ALTER TABLE {table} DROP COLUMN {name}; ALTER TABLE {table} ADD COLUMN \
                     {name} {ddl}"
                ),
            };
            return Err(format!("{has}; expected `{ddl}`: {mend}"));
        }
        if let (Kind::Text(least), Some(length)) = (&self.kind, found.text_length())
            && length < *least
        {
            return Err(format!(
                "{has}, too short for what it may have to hold: ALTER TABLE {table} ALTER COLUMN \
                 {name} {keyword}{ddl}"
            ));
        }
        if matches!(self.kind, Kind::Stamp) && !found.is_stamped {
            return Err(format!(
                "{has}, which does not take commit timestamps: ALTER TABLE {table} ALTER COLUMN \
                 {name} SET OPTIONS (allow_commit_timestamp=true)"
            ));
        }
        Ok(())
    }
}

impl Found {
    /// PostgreSQL's names of types are in lower case.
    pub(super) fn is_postgresql(&self) -> bool {
        self.spanner_type.starts_with(|first: char| first.is_ascii_lowercase())
    }

    pub(super) fn is_timestamp(&self) -> bool {
        matches!(
            self.spanner_type.as_str(),
            "TIMESTAMP" | "timestamp with time zone" | "timestamptz" | "spanner.commit_timestamp"
        )
    }

    fn is_number(&self) -> bool {
        matches!(self.spanner_type.as_str(), "INT64" | "bigint" | "int8")
    }

    /// Returns the most characters that fit, if it is a text.
    fn text_length(&self) -> Option<usize> {
        let (base, length) = match self.spanner_type.split_once('(') {
            Some((base, length)) => (base, length.strip_suffix(')')?),
            None => (self.spanner_type.as_str(), "MAX"),
        };
        if !matches!(base.trim_end(), "STRING" | "text" | "character varying" | "varchar") {
            return None;
        }
        if length == "MAX" { Some(usize::MAX) } else { length.parse().ok() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Ddl;

    fn found(name: &str, spanner_type: &str) -> Found {
        Found {
            name: name.to_string(),
            spanner_type: spanner_type.to_string(),
            is_stamped: matches!(name, "heartbeat" | "token"),
        }
    }

    const GOOGLESQL: [(&str, &str); 8] = [
        ("name", "STRING(MAX)"),
        ("heartbeat", "TIMESTAMP"),
        ("token", "TIMESTAMP"),
        ("writer", "STRING(MAX)"),
        ("lease_ms", "INT64"),
        ("info", "STRING(MAX)"),
        ("displaced", "TIMESTAMP"),
        ("next", "STRING(MAX)"),
    ];

    fn table(columns: &[(&str, &str)]) -> Result<(), String> {
        let columns: Vec<_> = columns.iter().map(|(name, kind)| found(name, kind)).collect();
        check_columns("jobs", &columns)
    }

    #[test]
    fn each_column_that_the_protocol_writes_is_asked_for_and_stands_in_the_ddl() {
        let (key, columns) = COLUMNS.split_first().unwrap();
        let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
        assert_eq!(
            (key.name, names),
            ("name", spindle_protocol::Column::ALL.map(|it| it.name()).to_vec())
        );
        let others = include_str!("../../../tests/four_columns.sql");
        for (create, upgrade, is_postgresql) in [
            (Ddl::GoogleSql.text(), Ddl::GoogleSqlUpgrade.text(), false),
            (Ddl::PostgreSql.text(), Ddl::PostgreSqlUpgrade.text(), true),
        ] {
            for column in &COLUMNS {
                let defined = format!("\n  {} {}", column.name, column.ddl(is_postgresql));
                assert!(create.contains(&defined), "{defined}");
                let addition = format!("{};", column.addition("locktable", is_postgresql));
                let is_new = !others.contains(&format!("  {} ", column.name));
                assert_eq!(upgrade.contains(&addition), is_new, "{addition}");
            }
        }
    }

    #[test]
    fn the_tables_of_both_dialects_are_in_order() {
        assert_eq!(table(&GOOGLESQL), Ok(()));
        let postgresql = [
            ("name", "character varying"),
            ("heartbeat", "spanner.commit_timestamp"),
            ("token", "timestamp with time zone"),
            ("writer", "text"),
            ("lease_ms", "bigint"),
            ("info", "character varying(4096)"),
            ("displaced", "timestamp with time zone"),
            ("next", "text"),
        ];
        assert_eq!(table(&postgresql), Ok(()));
    }

    #[test]
    fn a_column_that_spanner_misses_is_told_with_the_statements_of_both_dialects_and_init() {
        for (at, (name, _)) in GOOGLESQL.into_iter().enumerate().skip(1) {
            let said = no_column("jobs", name);
            for part in [
                &format!("no column `{name}`"),
                "`spindle init`",
                &COLUMNS[at].addition("jobs", false),
                &COLUMNS[at].addition("jobs", true),
            ] {
                assert!(said.contains(part), "{part}: {said}");
            }
            let mut columns = GOOGLESQL.to_vec();
            columns.remove(at);
            let wrong = table(&columns).unwrap_err();
            assert!(wrong.contains("`spindle init`"), "{wrong}");
            assert!(wrong.ends_with(&COLUMNS[at].addition("jobs", false)), "{wrong}");
        }
        assert_eq!(no_column("jobs", "colour"), "table `jobs` has no column `colour`");
        for said in [no_column("jobs", "name"), table(&GOOGLESQL[1..]).unwrap_err()] {
            assert!(said.contains("it is no lock table") && !said.contains("ALTER"), "{said}");
        }
    }

    #[test]
    fn each_fault_is_told_with_the_statement_that_mends_it() {
        for (column, spanner_type, alter) in [
            ("writer", "STRING(8)", "ALTER TABLE jobs ALTER COLUMN writer STRING(MAX)"),
            ("name", "STRING(64)", "ALTER TABLE jobs ALTER COLUMN name STRING(MAX) NOT NULL"),
            ("info", "STRING(10)", "ALTER TABLE jobs ALTER COLUMN info STRING(MAX)"),
            ("writer", "text(8)", "ALTER TABLE jobs ALTER COLUMN writer TYPE text"),
            ("token", "STRING(MAX)", "ALTER TABLE jobs ADD COLUMN token TIMESTAMP OPTIONS"),
            ("lease_ms", "STRING(MAX)", "ALTER TABLE jobs ADD COLUMN lease_ms INT64"),
            ("displaced", "INT64", "ALTER TABLE jobs ADD COLUMN displaced TIMESTAMP"),
        ] {
            let columns =
                GOOGLESQL.map(
                    |(name, kind)| {
                        if name == column { (name, spanner_type) } else { (name, kind) }
                    },
                );
            let wrong = table(&columns).unwrap_err();
            assert!(wrong.contains(alter), "{wrong}");
            assert!(wrong.contains(&format!("`{column} {spanner_type}`")), "{wrong}");
        }
        let unstamped = found("token", "TIMESTAMP");
        let mut columns = GOOGLESQL.map(|(name, kind)| found(name, kind));
        columns[2] = Found { is_stamped: false, ..unstamped };
        assert!(check_columns("jobs", &columns).unwrap_err().contains("SET OPTIONS"));
        assert!(table(&[]).unwrap_err().contains("is not there"));
    }
}
