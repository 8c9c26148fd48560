//! `CREATE TABLE`, and what a table consists of.

use super::Parser;
use crate::engine::{
    Check, Constraint, ForeignKey, Formula, KeyColumn, OnDelete, Parent, SchemaChange, Table,
};
use crate::sql::error::{Result, SqlError};

/// The elements of a table besides columns and constraints.
const OTHER_ELEMENTS: &[&str] = &["SYNONYM", "ROW DELETION", "PRIMARY KEY"];

impl Parser {
    pub(super) fn create_table(&mut self) -> Result<SchemaChange> {
        let if_not_exists = self.keyword("IF NOT EXISTS");
        let mut table = Table::new(&self.table_name()?);
        let mut inline_key = false;
        self.expect_symbol("(")?;
        while !self.symbol(")") {
            self.refuse(OTHER_ELEMENTS)?;
            if self.sees_constraint() {
                match self.constraint()? {
                    Constraint::Check(check) => table.checks.push(check),
                    Constraint::ForeignKey(key) => table.foreign_keys.push(key),
                }
                if !self.symbol(",") {
                    self.expect_symbol(")")?;
                    break;
                }
                continue;
            }
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

    /// Returns true if a constraint comes next.
    pub(super) fn sees_constraint(&self) -> bool {
        self.sees("CONSTRAINT") || self.sees("FOREIGN KEY") || self.sees("CHECK (")
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
