//! The PostgreSQL dialect, as far as the lock table needs it: tables, and questions to the
//! information schema.

use super::{Parser, ddl};
use crate::engine::{Column, Dialect, KeyColumn, SchemaChange, Table, Type};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::token::Kind;

/// The elements that a table or a column can have in Spanner, and not here.
const OTHER_ELEMENTS: &[&str] =
    &["CONSTRAINT", "FOREIGN KEY", "CHECK", "UNIQUE", "DEFAULT", "GENERATED", "REFERENCES"];

/// The functions and operators with parentheses that mean the same in both dialects.
const SHARED: &[&str] = &["LOWER", "UPPER", "COUNT", "IN", "AND", "OR", "NOT", "WHERE"];

/// Parses DDL statements of a dialect, separated by `;`, into the changes they ask for.
///
/// # Errors
/// As [`super::parse_ddl`].
pub fn parse_ddl_in(dialect: Dialect, text: &str) -> Result<Vec<SchemaChange>> {
    match dialect {
        Dialect::GoogleSql => ddl::parse_ddl(text),
        Dialect::PostgreSql => parser(text)?.changes(Parser::postgresql_change),
    }
}

/// Parses `CREATE DATABASE name`, which stands alone, and gives the name.
///
/// # Errors
/// INVALID_ARGUMENT for anything else.
pub fn parse_create_database_in(dialect: Dialect, text: &str) -> Result<String> {
    let mut parser = match dialect {
        Dialect::GoogleSql => Parser::new(text)?,
        Dialect::PostgreSql => parser(text)?,
    };
    parser.expect_keyword("CREATE DATABASE")?;
    let name = parser.identifier()?;
    parser.symbol(";");
    match parser.is_done() {
        true => Ok(name),
        false => Err(parser.expected("end of statement")),
    }
}

/// Refuses a query whose text could mean something else in this dialect than in GoogleSQL.
///
/// # Errors
/// UNIMPLEMENTED.
pub fn check_query(text: &str) -> Result<()> {
    // An escape, a comment, an opening quote; one comment within another.
    let is_marked = ["\\", "#", "'''"].iter().any(|mark| text.contains(mark));
    if is_marked || text.matches("/*").count() > 1 {
        return Err(SqlError::unsupported(Pos::START, "this in the dialect POSTGRESQL"));
    }
    let parser = Parser::new(text)?;
    let raw = |byte: usize| text.as_bytes().get(byte).copied();
    for (place, token) in parser.tokens.iter().enumerate() {
        let opens =
            matches!(parser.tokens.get(place + 1).map(|next| &next.kind), Some(Kind::Symbol("(")));
        let is_shared = match &token.kind {
            Kind::Word(word) if opens => {
                SHARED.iter().any(|known| word.eq_ignore_ascii_case(known))
            }
            Kind::Text(_) => raw(token.byte) == Some(b'\''),
            Kind::Symbol(symbol) => [",", "(", ")", ".", "=", ";"].contains(symbol),
            Kind::Word(_) | Kind::Integer(_) | Kind::End => true,
            _ => false,
        };
        if !is_shared {
            return Err(SqlError::unsupported(token.at, "this in the dialect POSTGRESQL"));
        }
    }
    Ok(())
}

/// A parser whose words are in lower case, as the dialect folds them, but for those in `"…"`.
fn parser(text: &str) -> Result<Parser> {
    if text.len() > ddl::MAX_DDL_BYTES {
        return Err(SqlError::invalid(Pos::START, "DDL text is too long"));
    }
    let mut parser = Parser::new(text)?;
    for token in &mut parser.tokens {
        token.kind = match std::mem::replace(&mut token.kind, Kind::End) {
            Kind::Word(word) => Kind::Word(word.to_ascii_lowercase()),
            Kind::Text(name) if text.as_bytes().get(token.byte) == Some(&b'"') => {
                Kind::Quoted(name)
            }
            Kind::Quoted(_) => return Err(SqlError::syntax(token.at, "Unexpected \"`\"")),
            kind => kind,
        };
    }
    Ok(parser)
}

impl Parser {
    fn postgresql_change(&mut self) -> Result<SchemaChange> {
        if self.keyword("CREATE TABLE") {
            return self.postgresql_table();
        }
        if self.keyword("DROP TABLE") {
            let if_exists = self.keyword("IF EXISTS");
            return Ok(SchemaChange::DropTable { table: self.table_name()?, if_exists });
        }
        if !self.keyword("ALTER TABLE") {
            return Err(match self.peek() {
                Kind::Word(word) if ["create", "drop", "alter"].contains(&word.as_str()) => {
                    self.unsupported("this statement in the dialect POSTGRESQL")
                }
                _ => self.unexpected(),
            });
        }
        let table = self.table_name()?;
        if self.keyword("ADD") {
            self.refuse(OTHER_ELEMENTS)?;
            self.keyword("COLUMN");
            let if_not_exists = self.keyword("IF NOT EXISTS");
            let at = self.at();
            return match self.postgresql_column()? {
                (_, true) => Err(SqlError::unsupported(at, "adding a column to the primary key")),
                (column, false) => Ok(SchemaChange::AddColumn { table, column, if_not_exists }),
            };
        }
        self.refuse(&["ALTER", "DROP CONSTRAINT", "RENAME", "SET"])?;
        self.expect_keyword("DROP")?;
        self.keyword("COLUMN");
        Ok(SchemaChange::DropColumn { table, column: self.identifier()? })
    }

    fn postgresql_table(&mut self) -> Result<SchemaChange> {
        let if_not_exists = self.keyword("IF NOT EXISTS");
        let mut table = Table::new(&self.table_name()?);
        self.expect_symbol("(")?;
        loop {
            self.refuse(OTHER_ELEMENTS)?;
            let at = self.at();
            let has_key = !table.primary_key.is_empty();
            let mut is_key = self.keyword("PRIMARY KEY");
            if is_key {
                self.primary_key(&mut table)?;
            } else {
                let column;
                (column, is_key) = self.postgresql_column()?;
                if is_key {
                    let position = table.columns.len();
                    table.primary_key.push(KeyColumn { position, descending: false });
                }
                table.columns.push(column);
            }
            if has_key && is_key {
                let message =
                    format!("multiple primary keys for table \"{}\" are not allowed", table.name);
                return Err(SqlError::invalid(at, message));
            }
            if !self.symbol(",") {
                break;
            }
        }
        self.expect_symbol(")")?;
        self.refuse(&["INTERLEAVE", "TTL", "WITH"])?;
        if table.primary_key.is_empty() {
            return Err(self.expected("keyword PRIMARY KEY"));
        }
        for part in &table.primary_key {
            table.columns[part.position].not_null = true;
        }
        Ok(SchemaChange::CreateTable { table, if_not_exists })
    }

    /// Reads a column's definition; whether it is the primary key comes with it.
    fn postgresql_column(&mut self) -> Result<(Column, bool)> {
        let name = self.identifier()?;
        let allow_commit_timestamp =
            self.sees("spanner") && matches!(self.ahead(1).kind, Kind::Symbol("."));
        let (column_type, max_length) = match allow_commit_timestamp {
            true => {
                self.advance();
                self.advance();
                self.expect_keyword("commit_timestamp")?;
                (Type::Timestamp, None)
            }
            false => self.postgresql_type()?,
        };
        if self.sees_symbol("[") {
            return Err(self.unsupported("the type of an array"));
        }
        let mut column =
            Column { max_length, allow_commit_timestamp, ..Column::new(name, column_type) };
        let mut is_key = false;
        loop {
            self.refuse(OTHER_ELEMENTS)?;
            if self.keyword("NOT NULL") {
                column.not_null = true;
            } else if self.keyword("PRIMARY KEY") {
                is_key = true;
            } else if !self.keyword("NULL") {
                return Ok((column, is_key));
            }
        }
    }

    fn postgresql_type(&mut self) -> Result<(Type, Option<u64>)> {
        const NAMES: &[(&str, Type)] = &[
            ("text", Type::String),
            ("varchar", Type::String),
            ("character varying", Type::String),
            ("bigint", Type::Int64),
            ("int8", Type::Int64),
            ("boolean", Type::Bool),
            ("bool", Type::Bool),
            ("double precision", Type::Float64),
            ("float8", Type::Float64),
            ("bytea", Type::Bytes),
            ("date", Type::Date),
            ("timestamptz", Type::Timestamp),
            ("timestamp with time zone", Type::Timestamp),
        ];
        let at = self.at();
        let Kind::Word(word) = self.peek().clone() else { return Err(self.expected("a type")) };
        let Some((name, found)) = NAMES.iter().find(|(name, _)| self.keyword(name)) else {
            return Err(SqlError::unsupported(at, format_args!("the type {word}")));
        };
        let has_length = name.contains("var") && self.sees_symbol("(");
        Ok((*found, if has_length { self.length()? } else { None }))
    }
}
