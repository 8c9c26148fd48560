//! Column definitions.

use super::Parser;
use crate::engine::{Column, ColumnDefault, Formula, Type};
use crate::sql::error::{Result, SqlError};
use crate::sql::token::Kind;
use crate::sql::written::Written;

/// Types that Cloud Spanner knows and the engine doesn't.
const OTHER_TYPES: &[&str] =
    &["FLOAT32", "INTERVAL", "STRUCT", "TOKENLIST", "UUID", "PROTO", "ENUM", "SERIAL"];

/// The attributes of a column beyond its type that aren't understood here.
const OTHER_ATTRIBUTES: &[&str] =
    &["GENERATED", "AUTO_INCREMENT", "HIDDEN", "PLACEMENT KEY", "ON UPDATE"];

impl Parser {
    /// Reads a column's definition; whether it is the primary key comes with it.
    pub(super) fn column(&mut self) -> Result<(Column, bool)> {
        let name = self.identifier()?;
        let (column_type, max_length) = self.column_type()?;
        let mut column = Column { max_length, ..Column::new(name, column_type) };
        let mut is_key = false;
        loop {
            if let Some(kept) = self.kept_default()? {
                column.default = Some(kept);
                continue;
            }
            self.refuse(OTHER_ATTRIBUTES)?;
            let is_made = column.default.is_some() || column.generated.is_some();
            if !column.not_null && self.keyword("NOT NULL") {
                column.not_null = true;
            } else if !is_key && self.keyword("PRIMARY KEY") {
                is_key = true;
            } else if !is_made && self.sees("DEFAULT") {
                column.default = Some(self.default_value()?);
            } else if !is_made && self.sees("AS") {
                let at = self.at();
                self.advance();
                column.generated = Some(Formula::new(self.written()?));
                if !self.keyword("STORED") {
                    let construct = "a generated column that is not STORED";
                    return Err(SqlError::unsupported(at, construct));
                }
            } else if self.sees("OPTIONS") {
                column.allow_commit_timestamp = self.column_options()?;
            } else {
                return Ok((column, is_key));
            }
        }
    }

    /// Reads `DEFAULT (expression)`.
    pub(super) fn default_value(&mut self) -> Result<ColumnDefault> {
        self.expect_keyword("DEFAULT")?;
        Ok(ColumnDefault::new(self.written()?))
    }

    /// Reads an expression in parentheses, with its text.
    pub(super) fn written(&mut self) -> Result<Written> {
        self.in_parentheses(|parser| {
            let first = parser.next;
            let expr = parser.expr()?;
            Ok(Written::new(parser.text_from(first).to_owned(), expr))
        })
    }

    /// Reads a type with its length, if it has one other than `MAX`.
    pub(super) fn column_type(&mut self) -> Result<(Type, Option<u64>)> {
        let found = self.type_name(|parser, scalar| match scalar {
            Type::String | Type::Bytes => parser.length(),
            _ => Ok(None),
        })?;
        match self.sees_symbol("(") {
            true => Err(self.unsupported("the length of a vector")),
            false => Ok(found),
        }
    }

    /// Reads a type where none has a length.
    pub(super) fn plain_type(&mut self) -> Result<Type> {
        let (found, ()) = self.type_name(|parser, _| match parser.sees_symbol("(") {
            true => Err(parser.unsupported("a type with a length or precision here")),
            false => Ok(()),
        })?;
        Ok(found)
    }

    /// Reads a type; `length` reads what follows its scalar.
    fn type_name<L>(
        &mut self,
        length: impl FnOnce(&mut Parser, Type) -> Result<L>,
    ) -> Result<(Type, L)> {
        let is_array = self.keyword("ARRAY");
        if is_array {
            self.expect_symbol("<")?;
        }
        let Kind::Word(word) = self.peek() else { return Err(self.expected("a type")) };
        let word = word.to_ascii_uppercase();
        if OTHER_TYPES.contains(&word.as_str()) {
            return Err(self.unsupported(format_args!("the type {word}")));
        }
        let Some(scalar) = Type::scalars().find(|known| known.name() == word) else {
            let error = self.expected("a type");
            self.advance();
            return Err(match self.sees_symbol(".") {
                true => self.unsupported("the type of a proto"),
                false => error,
            });
        };
        self.advance();
        let length = length(self, scalar)?;
        if is_array {
            self.expect_symbol(">")?;
        }
        let found = if is_array { scalar.array().unwrap_or(scalar) } else { scalar };
        Ok((found, length))
    }

    /// Reads the length of a type, if it is one other than `MAX`.
    pub(super) fn length(&mut self) -> Result<Option<u64>> {
        self.in_parentheses(|parser| {
            let length = match parser.peek() {
                Kind::Integer(length) => Some(*length),
                Kind::Word(word) if word.eq_ignore_ascii_case("MAX") => None,
                _ => return Err(parser.expected("a length")),
            };
            parser.advance();
            Ok(length)
        })
    }

    /// Reads `OPTIONS (…)`; says whether the commit timestamp may be written to the column.
    pub(super) fn column_options(&mut self) -> Result<bool> {
        self.expect_keyword("OPTIONS")?;
        self.expect_symbol("(")?;
        let mut allow = None;
        while allow.is_none() || self.symbol(",") {
            self.refuse(&["locality_group"])?;
            self.expect_keyword("allow_commit_timestamp")?;
            self.expect_symbol("=")?;
            allow = Some(self.keyword("TRUE"));
            if allow == Some(false) && !self.keyword("FALSE") && !self.keyword("NULL") {
                return Err(self.expected("true or null"));
            }
        }
        self.expect_symbol(")")?;
        Ok(allow == Some(true))
    }
}
