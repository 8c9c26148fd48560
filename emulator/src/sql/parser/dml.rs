//! `INSERT`, `UPDATE` and `DELETE`, each from behind its first word on.

use super::Parser;
use crate::sql::ast::{Delete, Expr, Insert, Name, Row, Source, TableName, Update};
use crate::sql::error::{Result, SqlError};

impl Parser {
    pub(super) fn insert(&mut self) -> Result<Insert> {
        self.refuse(&["OR IGNORE", "OR UPDATE", "IGNORE", "UPDATE", "OR"])?;
        self.keyword("INTO");
        let table = self.written_table()?;
        if !self.sees_symbol("(") {
            return Err(self.expected("\"(\" and the columns"));
        }
        self.expect_symbol("(")?;
        let columns = self.list(Parser::column_name)?;
        self.expect_symbol(")")?;
        let source = if self.keyword("VALUES") {
            Source::Values(self.list(Parser::row)?)
        } else if self.sees("SELECT") {
            Source::Query(Box::new(self.select()?))
        } else {
            self.refuse(&["WITH", "FROM"])?;
            if self.sees_symbol("(") {
                return Err(self.unsupported("a query in parentheses"));
            }
            return Err(self.expected("keyword VALUES"));
        };
        self.end_of_dml()?;
        Ok(Insert { table, columns, source })
    }

    pub(super) fn update(&mut self) -> Result<Update> {
        let table = self.written_table()?;
        self.expect_keyword("SET")?;
        let assignments = self.list(Parser::assignment)?;
        self.refuse(&["FROM"])?;
        let filter = self.filter_of_dml("UPDATE")?;
        Ok(Update { table, assignments, filter })
    }

    pub(super) fn delete(&mut self) -> Result<Delete> {
        self.keyword("FROM");
        let table = self.written_table()?;
        let filter = self.filter_of_dml("DELETE")?;
        Ok(Delete { table, filter })
    }

    fn written_table(&mut self) -> Result<TableName> {
        let table = self.table()?;
        match &table.schema {
            Some(schema) => {
                let construct = format!("writing to the schema {schema}");
                Err(SqlError::unsupported(table.at, construct))
            }
            None => Ok(table),
        }
    }

    fn column_name(&mut self) -> Result<Name> {
        Ok(Name { at: self.at(), text: self.identifier()? })
    }

    fn row(&mut self) -> Result<Row> {
        let at = self.at();
        self.expect_symbol("(")?;
        let values = self.list(Parser::new_value)?;
        self.expect_symbol(")")?;
        Ok(Row { values, at })
    }

    fn assignment(&mut self) -> Result<(Name, Expr)> {
        let mut column = self.column_name()?;
        if self.symbol(".") {
            // The table's own name or alias may stand before the column.
            column.text = self.name_after_dot()?;
            return Err(SqlError::unsupported(column.at, "a qualified name on the left of SET"));
        }
        self.expect_symbol("=")?;
        Ok((column, self.new_value()?))
    }

    fn new_value(&mut self) -> Result<Expr> {
        self.refuse(&["DEFAULT"])?;
        self.expr()
    }

    fn filter_of_dml(&mut self, statement: &str) -> Result<Expr> {
        if !self.keyword("WHERE") {
            let message = format!("{statement} must have a WHERE clause");
            return Err(SqlError::syntax(self.at(), message));
        }
        let filter = self.expr()?;
        self.end_of_dml()?;
        Ok(filter)
    }

    fn end_of_dml(&self) -> Result<()> {
        self.refuse(&["THEN RETURN", "ASSERT_ROWS_MODIFIED", "ON CONFLICT"])
    }
}
