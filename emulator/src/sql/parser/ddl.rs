//! Statements that change the schema.

use crate::engine::{Index, IndexColumn, KeyColumn, OnDelete, Parent, SchemaChange, Table};

use super::Parser;
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::token::Kind;

/// The most bytes a DDL text can have; Cloud Spanner's limit.
pub const MAX_DDL_BYTES: usize = 10 << 20;

/// Statements that Cloud Spanner knows and this parser doesn't.
const OTHER_STATEMENTS: &[&str] = &[
    "CREATE VIEW",
    "CREATE OR",
    "CREATE CHANGE",
    "CREATE SEQUENCE",
    "CREATE SCHEMA",
    "CREATE DATABASE",
    "CREATE ROLE",
    "CREATE MODEL",
    "CREATE PROPERTY",
    "CREATE PROTO",
    "CREATE SEARCH",
    "CREATE VECTOR",
    "CREATE LOCALITY",
    "CREATE PLACEMENT",
    "CREATE FUNCTION",
    "CREATE QUEUE",
    "DROP VIEW",
    "DROP CHANGE",
    "DROP SEQUENCE",
    "DROP SCHEMA",
    "DROP ROLE",
    "DROP MODEL",
    "DROP PROPERTY",
    "DROP PROTO",
    "DROP SEARCH",
    "DROP VECTOR",
    "DROP LOCALITY",
    "DROP PLACEMENT",
    "DROP FUNCTION",
    "DROP QUEUE",
    "ALTER INDEX",
    "ALTER CHANGE",
    "ALTER SEQUENCE",
    "ALTER MODEL",
    "ALTER PROTO",
    "ALTER SCHEMA",
    "ALTER SEARCH",
    "ALTER VECTOR",
    "ALTER LOCALITY",
    "ALTER STATISTICS",
    "ALTER QUEUE",
    "ANALYZE",
    "GRANT",
    "REVOKE",
    "RENAME TABLE",
    "UNDROP",
];

/// What a table can consist of besides columns.
const OTHER_ELEMENTS: &[&str] =
    &["CONSTRAINT", "FOREIGN KEY", "CHECK", "SYNONYM", "ROW DELETION", "PRIMARY KEY"];

/// Parses DDL statements, separated by `;`, into the changes they ask for.
///
/// # Errors
/// INVALID_ARGUMENT for what is no DDL, UNIMPLEMENTED for what Cloud Spanner knows beyond tables
/// and their columns.
pub fn parse_ddl(text: &str) -> Result<Vec<SchemaChange>> {
    if text.len() > MAX_DDL_BYTES {
        let message = format!("DDL text exceeds the limit of {MAX_DDL_BYTES} bytes");
        return Err(SqlError::invalid(Pos::START, message));
    }
    Parser::new(text)?.changes(Parser::schema_change)
}

impl Parser {
    /// Reads statements to the end of the text.
    pub(super) fn changes(
        mut self,
        change: fn(&mut Parser) -> Result<SchemaChange>,
    ) -> Result<Vec<SchemaChange>> {
        let mut changes = Vec::new();
        loop {
            while self.symbol(";") {}
            if self.is_done() {
                return Ok(changes);
            }
            changes.push(change(&mut self)?);
            if !self.is_done() && !self.sees_symbol(";") {
                return Err(self.expected("end of statement"));
            }
        }
    }

    fn schema_change(&mut self) -> Result<SchemaChange> {
        self.refuse(OTHER_STATEMENTS)?;
        if self.keyword("CREATE TABLE") {
            self.create_table()
        } else if let Some((unique, null_filtered)) = self.create_index_keywords() {
            self.create_index(unique, null_filtered)
        } else if self.keyword("DROP INDEX") {
            let if_exists = self.keyword("IF EXISTS");
            Ok(SchemaChange::DropIndex { index: self.table_name()?, if_exists })
        } else if self.keyword("DROP TABLE") {
            let if_exists = self.keyword("IF EXISTS");
            Ok(SchemaChange::DropTable { table: self.table_name()?, if_exists })
        } else if self.keyword("ALTER DATABASE") {
            let database = self.identifier()?;
            self.expect_keyword("SET OPTIONS")?;
            let options = self.listed(Parser::database_option)?;
            Ok(SchemaChange::SetDatabaseOptions { database, options })
        } else if self.keyword("ALTER TABLE") {
            let table = self.table_name()?;
            self.alter_table(table)
        } else {
            Err(self.unexpected())
        }
    }

    fn create_table(&mut self) -> Result<SchemaChange> {
        let if_not_exists = self.keyword("IF NOT EXISTS");
        let mut table = Table::new(&self.table_name()?);
        let mut inline_key = false;
        self.expect_symbol("(")?;
        while !self.symbol(")") {
            self.refuse(OTHER_ELEMENTS)?;
            let (column, is_key) = self.column()?;
            table.columns.push(column);
            if is_key {
                let position = table.columns.len() - 1;
                table.primary_key.push(KeyColumn { position, descending: false });
                inline_key = true;
            }
            if !self.symbol(",") {
                self.expect_symbol(")")?;
                break;
            }
        }
        if !inline_key {
            self.expect_keyword("PRIMARY KEY")?;
            self.primary_key(&mut table)?;
        }
        if self.symbol(",") {
            self.refuse(&["ROW DELETION POLICY", "OPTIONS"])?;
            table.parent = Some(self.parent()?);
            if self.symbol(",") {
                self.refuse(&["ROW DELETION POLICY", "OPTIONS"])?;
                return Err(self.unexpected());
            }
        }
        Ok(SchemaChange::CreateTable { table, if_not_exists })
    }

    fn parent(&mut self) -> Result<Parent> {
        self.expect_keyword("INTERLEAVE IN")?;
        let is_enforced = self.keyword("PARENT");
        let table = self.table_name()?;
        let mut on_delete = OnDelete::NoAction;
        if is_enforced && self.keyword("ON DELETE CASCADE") {
            on_delete = OnDelete::Cascade;
        } else if is_enforced {
            self.keyword("ON DELETE NO ACTION");
        }
        Ok(Parent { table, is_enforced, on_delete })
    }

    /// Reads `CREATE [UNIQUE] [NULL_FILTERED] INDEX`; whether the two words are there.
    fn create_index_keywords(&mut self) -> Option<(bool, bool)> {
        [(false, false), (false, true), (true, false), (true, true)].into_iter().find(|found| {
            self.keyword(match found {
                (false, false) => "CREATE INDEX",
                (false, true) => "CREATE NULL_FILTERED INDEX",
                (true, false) => "CREATE UNIQUE INDEX",
                (true, true) => "CREATE UNIQUE NULL_FILTERED INDEX",
            })
        })
    }

    fn create_index(&mut self, unique: bool, null_filtered: bool) -> Result<SchemaChange> {
        let if_not_exists = self.keyword("IF NOT EXISTS");
        let name = self.table_name()?;
        self.expect_keyword("ON")?;
        let table = self.table_name()?;
        let columns = self.listed(|parser| {
            let name = parser.identifier()?;
            Ok(IndexColumn { name, descending: parser.is_descending() })
        })?;
        let storing = match self.keyword("STORING") {
            true => self.listed(Parser::identifier)?,
            false => Vec::new(),
        };
        self.refuse(&["WHERE", "OPTIONS"])?;
        let interleaved_in = match self.symbol(",") {
            true => {
                self.expect_keyword("INTERLEAVE IN")?;
                Some(self.table_name()?)
            }
            false => None,
        };
        let index = Index { name, table, unique, null_filtered, columns, storing, interleaved_in };
        Ok(SchemaChange::CreateIndex { index, if_not_exists })
    }

    /// Reads an option of a database: one that says how Cloud Spanner is to work, not what it is to
    /// answer.
    fn database_option(&mut self) -> Result<(String, Option<String>)> {
        const HARMLESS: &[&str] =
            &["optimizer_version", "optimizer_statistics_package", "default_leader"];
        let at = self.at();
        let name = self.identifier()?;
        if !HARMLESS.contains(&name.as_str()) {
            let construct = format_args!("the database option {name}");
            return Err(SqlError::unsupported(at, construct));
        }
        self.expect_symbol("=")?;
        let value = match self.peek() {
            Kind::Word(word) if word.eq_ignore_ascii_case("NULL") => None,
            Kind::Integer(number) => Some(number.to_string()),
            Kind::Text(text) => {
                let text = text.replace('\\', "\\\\").replace('\'', "\\'");
                Some(format!("'{text}'"))
            }
            _ => return Err(self.expected("an integer, a text or NULL")),
        };
        self.advance();
        Ok((name, value))
    }

    /// Reads a list in parentheses.
    fn listed<T>(&mut self, item: impl Fn(&mut Parser) -> Result<T>) -> Result<Vec<T>> {
        self.expect_symbol("(")?;
        let mut items = Vec::new();
        while !self.symbol(")") {
            items.push(item(self)?);
            if !self.symbol(",") {
                self.expect_symbol(")")?;
                break;
            }
        }
        Ok(items)
    }

    /// Reads `ASC` or `DESC`, if one is there; whether it is `DESC`.
    fn is_descending(&mut self) -> bool {
        let descending = self.keyword("DESC");
        if !descending {
            self.keyword("ASC");
        }
        descending
    }

    /// Reads the columns of a primary key.
    pub(super) fn primary_key(&mut self, table: &mut Table) -> Result<()> {
        let found: &Table = table;
        table.primary_key = self.listed(|parser| {
            let at = parser.at();
            let name = parser.identifier()?;
            let position = found.position(&name).ok_or_else(|| {
                let table = &found.name;
                let message = format!("Table {table} references nonexistent key column {name}.");
                SqlError::invalid(at, message)
            })?;
            Ok(KeyColumn { position, descending: parser.is_descending() })
        })?;
        Ok(())
    }

    fn alter_table(&mut self, table: String) -> Result<SchemaChange> {
        self.refuse(&[
            "ADD CONSTRAINT",
            "ADD FOREIGN",
            "ADD CHECK",
            "ADD SYNONYM",
            "ADD ROW DELETION",
            "DROP CONSTRAINT",
            "DROP SYNONYM",
            "DROP ROW DELETION",
            "REPLACE",
            "RENAME",
            "SET",
            "ALTER CONSTRAINT",
        ])?;
        if self.keyword("ADD") {
            self.keyword("COLUMN");
            let if_not_exists = self.keyword("IF NOT EXISTS");
            let at = self.at();
            let (column, is_key) = self.column()?;
            return match is_key {
                true => Err(SqlError::unsupported(at, "adding a column to the primary key")),
                false => Ok(SchemaChange::AddColumn { table, column, if_not_exists }),
            };
        }
        if self.keyword("DROP") {
            self.keyword("COLUMN");
            return Ok(SchemaChange::DropColumn { table, column: self.identifier()? });
        }
        self.expect_keyword("ALTER")?;
        self.keyword("COLUMN");
        self.alter_column(table)
    }

    /// Reads from the name of the column on.
    fn alter_column(&mut self, table: String) -> Result<SchemaChange> {
        let at = self.at();
        if self.sees_behind_name("SET OPTIONS") {
            let column = self.identifier()?;
            self.advance();
            let allow = self.column_options()?;
            return Ok(SchemaChange::SetAllowCommitTimestamp { table, column, allow });
        }
        if self.sees_behind_name("SET DEFAULT") {
            let column = self.identifier()?;
            self.advance();
            let default = Some(self.default_value()?);
            return Ok(SchemaChange::SetDefault { table, column, default });
        }
        if self.sees_behind_name("DROP DEFAULT") {
            let column = self.identifier()?;
            self.expect_keyword("DROP DEFAULT")?;
            return Ok(SchemaChange::SetDefault { table, column, default: None });
        }
        for construct in ["SET", "DROP", "ALTER", "RESTART"] {
            if self.sees_behind_name(construct) {
                let construct = format!("ALTER COLUMN … {construct}");
                return Err(SqlError::unsupported(at, construct));
            }
        }
        let (column, is_key) = self.column()?;
        match is_key || column.allow_commit_timestamp {
            true => Err(SqlError::unsupported(
                at,
                "ALTER COLUMN with PRIMARY KEY, or with a type and OPTIONS at once",
            )),
            false => Ok(SchemaChange::AlterColumn { table, column }),
        }
    }

    /// Whether these keywords come behind the name that comes next.
    fn sees_behind_name(&self, keywords: &str) -> bool {
        keywords.split(' ').enumerate().all(|(places, keyword)| {
            matches!(&self.ahead(places + 1).kind, Kind::Word(word)
                if word.eq_ignore_ascii_case(keyword))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Code, Column, Schema, Type};

    fn one(text: &str) -> SchemaChange {
        let mut changes = parse_ddl(text).unwrap();
        assert_eq!(changes.len(), 1, "{text}");
        changes.remove(0)
    }

    fn created(text: &str) -> Table {
        match one(text) {
            SchemaChange::CreateTable { table, .. } => table,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_lock_table_of_the_predecessors_is_understood() {
        let text = "-- for spindle
CREATE TABLE locktable (
    name STRING(MAX) NOT NULL,
    heartbeat TIMESTAMP OPTIONS (allow_commit_timestamp=true),
    token TIMESTAMP OPTIONS (allow_commit_timestamp=true),
    writer STRING(MAX),
) PRIMARY KEY (name)
";
        let stamp = |name: &str| Column {
            allow_commit_timestamp: true,
            ..Column::new(name, Type::Timestamp)
        };
        let table = Table {
            columns: vec![
                Column { not_null: true, ..Column::new("name", Type::String) },
                stamp("heartbeat"),
                stamp("token"),
                Column::new("writer", Type::String),
            ],
            primary_key: vec![KeyColumn { position: 0, descending: false }],
            ..Table::new("locktable")
        };
        assert_eq!(one(text), SchemaChange::CreateTable { table, if_not_exists: false });
    }

    #[test]
    fn every_type_and_length_is_understood_in_any_case() {
        let table = created(
            "create table if not exists `T` (a bool, b int64 not null, c float64, d string(0x10),
             e bytes(max), f date, g timestamp options (allow_commit_timestamp = null)
            ) primary key (b desc, a asc,)",
        );
        let types: Vec<String> = table.columns.iter().map(Column::spanner_type).collect();
        let expected =
            ["BOOL", "INT64", "FLOAT64", "STRING(16)", "BYTES(MAX)", "DATE", "TIMESTAMP"];
        assert_eq!(types, expected);
        let key: Vec<_> =
            table.primary_key.iter().map(|part| (part.position, part.descending)).collect();
        assert_eq!(key, [(1, true), (0, false)]);
    }

    #[test]
    fn a_key_stands_behind_the_table_or_in_its_column() {
        assert_eq!(
            created("CREATE TABLE t (a INT64 NOT NULL PRIMARY KEY, b DATE)"),
            created("CREATE TABLE t (a INT64 NOT NULL, b DATE) PRIMARY KEY (a)"),
        );
        assert_eq!(created("CREATE TABLE t (a INT64) PRIMARY KEY ()").primary_key, []);
    }

    #[test]
    fn one_text_holds_several_statements() {
        let changes = parse_ddl(
            ";CREATE TABLE t (a INT64) PRIMARY KEY (a); # first
             ALTER TABLE t ADD COLUMN b STRING(5); /* second */
             ALTER TABLE t ADD c TIMESTAMP;
             ALTER TABLE t ALTER COLUMN c SET OPTIONS (allow_commit_timestamp = true);
             ALTER TABLE t DROP COLUMN b;
             DROP TABLE IF EXISTS nothing;;",
        );
        let mut schema = Schema::default();
        for change in changes.unwrap() {
            schema.apply(&change).unwrap();
        }
        let columns = &schema.table("t").unwrap().columns;
        let stamp = Column { allow_commit_timestamp: true, ..Column::new("c", Type::Timestamp) };
        assert_eq!(columns, &[Column::new("a", Type::Int64), stamp]);
        assert_eq!(parse_ddl(" -- nothing\n"), Ok(vec![]));
    }

    #[test]
    fn what_is_not_supported_is_named_with_its_place() {
        for (text, error) in [
            ("CREATE INDEX i ON t (a) WHERE a IS NOT NULL", "WHERE [at 1:25]"),
            ("CREATE TABLE s.t (a INT64) PRIMARY KEY (a)", "the named schema s [at 1:14]"),
            ("CREATE TABLE t (a UUID) PRIMARY KEY (a)", "the type UUID [at 1:19]"),
            (
                "CREATE TABLE t (a ARRAY<STRUCT<b INT64>>) PRIMARY KEY (a)",
                "the type STRUCT [at 1:25]",
            ),
            (
                "CREATE TABLE t (a ARRAY<FLOAT64>(vector_length=>2)) PRIMARY KEY ()",
                "the length of a vector [at 1:33]",
            ),
            ("CREATE TABLE t (a INT64 AS (1) STORED) PRIMARY KEY (a)", "AS [at 1:25]"),
            ("ALTER TABLE t ALTER COLUMN a ALTER IDENTITY", "ALTER COLUMN … ALTER [at 1:28]"),
            (
                "CREATE TABLE t (a INT64, CONSTRAINT c CHECK (a > 0)) PRIMARY KEY (a)",
                "CONSTRAINT [at 1:26]",
            ),
            (
                "CREATE TABLE t (a INT64) PRIMARY KEY (a),\n ROW DELETION POLICY (x)",
                "ROW DELETION POLICY [at 2:2]",
            ),
            ("ALTER TABLE t ADD CONSTRAINT x CHECK (a > 0)", "ADD CONSTRAINT [at 1:15]"),
            ("CREATE SEARCH INDEX i ON t (a)", "CREATE SEARCH [at 1:1]"),
            ("CREATE VIEW v SQL SECURITY INVOKER AS SELECT 1", "CREATE VIEW [at 1:1]"),
            ("CREATE CHANGE STREAM s FOR ALL", "CREATE CHANGE [at 1:1]"),
            ("CREATE SEQUENCE s", "CREATE SEQUENCE [at 1:1]"),
            (
                "ALTER DATABASE d SET OPTIONS (version_retention_period = '7d')",
                "the database option version_retention_period [at 1:31]",
            ),
        ] {
            let found = parse_ddl(text).unwrap_err();
            assert_eq!(found.code(), Code::Unimplemented, "{text}");
            assert_eq!(found.to_string(), format!("Not supported here: {error}"), "{text}");
        }
    }

    #[test]
    fn what_is_no_ddl_is_a_syntax_error_at_its_place() {
        for (text, error) in [
            ("SELECT 1", "Unexpected keyword SELECT [at 1:1]"),
            ("CREATE TABLE t", "Expected \"(\" but got end of statement [at 1:15]"),
            ("CREATE TABLE t (a STRING) PRIMARY KEY (a)", "Expected \"(\" but got \")\" [at 1:25]"),
            (
                "CREATE TABLE t (a INT64)",
                "Expected keyword PRIMARY KEY but got end of statement [at 1:25]",
            ),
            (
                "CREATE TABLE select (a INT64) PRIMARY KEY (a)",
                "Expected an identifier but got keyword SELECT [at 1:14]",
            ),
            (
                "DROP TABLE t DROP TABLE u",
                "Expected end of statement but got identifier \"DROP\" [at 1:14]",
            ),
        ] {
            let found = parse_ddl(text).unwrap_err();
            assert_eq!(found.code(), Code::InvalidArgument, "{text}");
            assert_eq!(found.to_string(), format!("Syntax error: {error}"), "{text}");
        }
        let missing = parse_ddl("CREATE TABLE t (a INT64) PRIMARY KEY (b)").unwrap_err();
        let message = "Table t references nonexistent key column b. [at 1:39]";
        assert_eq!(
            (missing.code(), missing.to_string().as_str()),
            (Code::InvalidArgument, message)
        );
    }
}
