//! `CREATE TABLE`, and what a table consists of.

use super::Parser;
use crate::engine::{
    Check, Code, Column, Constraint, ForeignKey, Formula, KeyColumn, OnDelete, Parent,
    SchemaChange, Table,
};
use crate::sql::error::{Result, SqlError};

/// The elements of a table besides columns and constraints.
const OTHER_ELEMENTS: &[&str] = &["SYNONYM (", "ROW DELETION"];

impl Parser {
    pub(super) fn create_table(&mut self) -> Result<SchemaChange> {
        let if_not_exists = self.keyword("IF NOT EXISTS");
        let mut table = Table::new(&self.table_name()?);
        let mut has_key = false;
        self.expect_symbol("(")?;
        while !self.symbol(")") {
            self.refuse(OTHER_ELEMENTS)?;
            let at = self.at();
            let mut is_key = self.keyword("PRIMARY KEY");
            if is_key {
                self.primary_key(&mut table)?;
            } else if self.sees_constraint() {
                match self.constraint()? {
                    Constraint::Check(check) => table.checks.push(check),
                    Constraint::ForeignKey(key) => table.foreign_keys.push(key),
                }
            } else {
                let column;
                (column, is_key) = self.column()?;
                if is_key {
                    let position = table.columns.len();
                    table.primary_key.push(KeyColumn { position, descending: false });
                }
                table.columns.push(column);
            }
            if has_key && is_key {
                let message = format!("Table {} declares more than one PRIMARY KEY.", table.name);
                return Err(SqlError::invalid(at, message));
            }
            has_key |= is_key;
            if !self.symbol(",") {
                self.expect_symbol(")")?;
                break;
            }
        }
        if !has_key {
            self.expect_keyword("PRIMARY KEY")?;
            self.primary_key(&mut table)?;
        }
        while self.symbol(",") {
            if let Some(policy) = self.row_deletion_policy()? {
                table.row_deletion_policy = Some(policy);
                continue;
            }
            self.refuse(&["ROW DELETION POLICY", "OPTIONS"])?;
            if table.parent.is_some() {
                return Err(self.unexpected());
            }
            table.parent = Some(self.parent()?);
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

    /// Reads the columns of a primary key.
    pub(in super::super) fn primary_key(&mut self, table: &mut Table) -> Result<()> {
        let found: &Table = table;
        table.primary_key = self.listed(|parser| {
            let name = parser.identifier()?;
            let is_meant = |column: &Column| column.name == name;
            let position = found.columns.iter().position(is_meant).ok_or_else(|| {
                let table = &found.name;
                let message = format!("Table {table} references nonexistent key column {name}.");
                SqlError::unplaced(Code::FailedPrecondition, message)
            })?;
            Ok(KeyColumn { position, descending: parser.is_descending() })
        })?;
        Ok(())
    }

    /// Returns true if a constraint comes next: these words are names of columns too.
    pub(super) fn sees_constraint(&self) -> bool {
        let is_named = |kind: &str| self.sees("CONSTRAINT") && self.sees_ahead(2, kind);
        is_named("CHECK") || is_named("FOREIGN") || self.sees("FOREIGN KEY") || self.sees("CHECK (")
    }

    /// Reads `[CONSTRAINT name] CHECK (…)` or `[CONSTRAINT name] FOREIGN KEY …`.
    pub(super) fn constraint(&mut self) -> Result<Constraint> {
        let is_named = self.keyword("CONSTRAINT");
        let name = if is_named { self.identifier()? } else { String::new() };
        if self.keyword("CHECK") {
            let condition = Formula::new(self.written()?);
            return Ok(Constraint::Check(Check { name, is_named, condition }));
        }
        self.expect_keyword("FOREIGN KEY")?;
        let columns = self.listed(Parser::identifier)?;
        self.expect_keyword("REFERENCES")?;
        let table = self.table_name()?;
        let referenced = self.listed(Parser::identifier)?;
        let on_delete = match () {
            () if self.keyword("ON DELETE CASCADE") => Some(OnDelete::Cascade),
            () if self.keyword("ON DELETE NO ACTION") => Some(OnDelete::NoAction),
            () => {
                self.refuse(&["ON DELETE", "ON UPDATE"])?;
                None
            }
        };
        let is_enforced = !self.keyword("NOT ENFORCED");
        if is_enforced {
            self.keyword("ENFORCED");
        }
        let key = ForeignKey { name, is_named, columns, table, referenced, on_delete, is_enforced };
        Ok(Constraint::ForeignKey(key))
    }
}
