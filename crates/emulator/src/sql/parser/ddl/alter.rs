//! `ALTER TABLE`.

use super::Parser;
use crate::engine::SchemaChange;
use crate::sql::error::{Result, SqlError};

impl Parser {
    pub(super) fn alter_table(&mut self, table: String) -> Result<SchemaChange> {
        if self.lenient {
            if self.sees("ADD ROW DELETION POLICY") || self.sees("REPLACE ROW DELETION POLICY") {
                self.advance();
                let policy = self.row_deletion_policy()?;
                return Ok(SchemaChange::SetRowDeletionPolicy { table, policy });
            }
            if self.keyword("DROP ROW DELETION POLICY") {
                return Ok(SchemaChange::SetRowDeletionPolicy { table, policy: None });
            }
        }
        self.refuse(&[
            "ADD SYNONYM",
            "ADD ROW DELETION",
            "DROP SYNONYM",
            "DROP ROW DELETION",
            "REPLACE",
            "RENAME",
            "SET",
            "ALTER CONSTRAINT",
        ])?;
        if self.keyword("ADD") {
            if self.sees_constraint() {
                let constraint = self.constraint()?;
                return Ok(SchemaChange::AddConstraint { table, constraint });
            }
            self.keyword("COLUMN");
            let if_not_exists = self.keyword("IF NOT EXISTS");
            let at = self.at();
            let (column, is_key) = self.column()?;
            return match is_key {
                true => Err(SqlError::unsupported(at, "adding a column to the primary key")),
                false => Ok(SchemaChange::AddColumn { table, column, if_not_exists }),
            };
        }
        if self.keyword("DROP CONSTRAINT") {
            return Ok(SchemaChange::DropConstraint { table, constraint: self.identifier()? });
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
        if self.sees_ahead(1, "SET OPTIONS") {
            let column = self.identifier()?;
            self.advance();
            let allow = self.column_options()?;
            return Ok(SchemaChange::SetAllowCommitTimestamp { table, column, allow });
        }
        if self.sees_ahead(1, "SET DEFAULT") {
            let column = self.identifier()?;
            self.advance();
            let default = Some(self.default_value()?);
            return Ok(SchemaChange::SetDefault { table, column, default });
        }
        if self.sees_ahead(1, "DROP DEFAULT") {
            let column = self.identifier()?;
            self.expect_keyword("DROP DEFAULT")?;
            return Ok(SchemaChange::SetDefault { table, column, default: None });
        }
        for construct in ["SET", "DROP", "ALTER", "RESTART"] {
            if self.sees_ahead(1, construct) {
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
}
