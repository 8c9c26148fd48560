//! Statements that change the schema.

mod alter;
mod kept;
mod table;

use super::Parser;
use crate::engine::{Index, IndexColumn, SchemaChange};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::token::Kind;

/// The most bytes a DDL text can have; Cloud Spanner's limit.
pub const MAX_DDL_BYTES: usize = 10 << 20;

/// The ways to say what becomes of something.
const VERBS: &[&str] = &["CREATE", "CREATE OR REPLACE", "ALTER", "DROP"];

/// The kinds of things that Cloud Spanner knows and this parser doesn't, beside those that can be kept.
const OTHER_KINDS: &[&str] = &["LOCALITY GROUP", "PLACEMENT", "FUNCTION", "QUEUE", "STATISTICS"];

/// The other statements that Cloud Spanner knows and this parser doesn't.
const OTHER_STATEMENTS: &[&str] = &[
    "CREATE DATABASE",
    "CREATE OR REPLACE",
    "ALTER INDEX",
    "ANALYZE",
    "GRANT",
    "REVOKE",
    "RENAME TABLE",
    "UNDROP",
];

/// Parses DDL statements, separated by `;`, into the changes they ask for.
///
/// # Errors
/// INVALID_ARGUMENT for what is no DDL, UNIMPLEMENTED for what Cloud Spanner knows beyond tables
/// and their columns.
pub fn parse_ddl(text: &str) -> Result<Vec<SchemaChange>> {
    parser(text)?.changes(Parser::schema_change)
}

/// As [`parse_ddl`], but keeps what is otherwise refused: sequences, identity columns, views, change
/// streams, and row deletion policies. It also keeps roles and what is granted to them, bundles of
/// protos, search indexes, vector indexes, property graphs and models.
///
/// # Errors
/// As [`parse_ddl`], of what is left.
pub fn parse_ddl_leniently(text: &str) -> Result<Vec<SchemaChange>> {
    let mut parser = parser(text)?;
    parser.lenient = true;
    parser.changes(Parser::schema_change)
}

fn parser(text: &str) -> Result<Parser> {
    if text.len() > MAX_DDL_BYTES {
        let message = format!("DDL text exceeds the limit of {MAX_DDL_BYTES} bytes");
        return Err(SqlError::invalid(Pos::START, message));
    }
    Parser::new(text)
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
        if let Some(kept) = self.kept_statement()? {
            return Ok(kept);
        }
        for kind in kept::KINDS.iter().chain(OTHER_KINDS) {
            VERBS.iter().try_for_each(|verb| self.refuse(&[&format!("{verb} {kind}")]))?;
        }
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
        let is_managed = false;
        let index = Index {
            name,
            table,
            unique,
            null_filtered,
            columns,
            storing,
            interleaved_in,
            is_managed,
        };
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
    pub(super) fn listed<T>(&mut self, item: impl Fn(&mut Parser) -> Result<T>) -> Result<Vec<T>> {
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
}
