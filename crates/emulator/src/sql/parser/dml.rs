//! `INSERT`, `UPDATE` and `DELETE`, each from behind its first word on.

use super::Parser;
use crate::sql::ast::{
    Assignment, Delete, Expr, ExprKind, Insert, InsertMode, Item, Name, Row, Source, TableName,
    Update,
};
use crate::sql::error::{Result, SqlError};

impl Parser {
    pub(super) fn insert(&mut self) -> Result<Insert> {
        let mode = match () {
            () if self.keyword("OR UPDATE") => InsertMode::OrUpdate,
            () if self.keyword("OR IGNORE") => InsertMode::OrIgnore,
            () => InsertMode::Insert,
        };
        self.refuse(&["OR", "IGNORE", "UPDATE"])?;
        self.keyword("INTO");
        let table = self.written_table()?;
        if !self.sees_symbol("(") {
            return Err(self.expected("\"(\" and the columns"));
        }
        let columns = self.in_parentheses(|parser| parser.list(Parser::column_name))?;
        if table.alias.is_some() {
            return Err(SqlError::unsupported(table.at, "an alias of the table in INSERT"));
        }
        let source = if self.keyword("VALUES") {
            Source::Values(self.list(Parser::row)?)
        } else if self.sees("SELECT") || self.sees("WITH") {
            Source::Query(Box::new(self.query()?))
        } else if self.sees_symbol("(") {
            Source::Query(Box::new(self.query_in_parentheses()?))
        } else {
            self.refuse(&["FROM"])?;
            return Err(self.expected("keyword VALUES"));
        };
        let returning = self.returning()?;
        Ok(Insert { mode, table, columns, source, returning })
    }

    pub(super) fn update(&mut self) -> Result<Update> {
        let table = self.written_table()?;
        self.expect_keyword("SET")?;
        let assignments = self.list(Parser::assignment)?;
        self.refuse(&["FROM"])?;
        let filter = self.filter_of_dml("UPDATE")?;
        let returning = self.returning()?;
        Ok(Update { table, assignments, filter, returning })
    }

    pub(super) fn delete(&mut self) -> Result<Delete> {
        self.keyword("FROM");
        let table = self.written_table()?;
        let filter = self.filter_of_dml("DELETE")?;
        let returning = self.returning()?;
        Ok(Delete { table, filter, returning })
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
        let values = self.in_parentheses(|parser| parser.list(Parser::new_value))?;
        Ok(Row { values, at })
    }

    fn assignment(&mut self) -> Result<Assignment> {
        let mut column = self.column_name()?;
        let mut table = None;
        if self.symbol(".") {
            let at = self.at();
            let text = self.name_after_dot()?;
            table = Some(std::mem::replace(&mut column, Name { text, at }));
        }
        if self.sees_symbol(".") {
            return Err(self.unsupported("access to a field"));
        }
        self.expect_symbol("=")?;
        Ok(Assignment { table, column, value: self.new_value()? })
    }

    fn new_value(&mut self) -> Result<Expr> {
        let at = self.at();
        match self.keyword("DEFAULT") {
            true => Ok(Expr::new(at, ExprKind::Default)),
            false => self.expr(),
        }
    }

    fn filter_of_dml(&mut self, statement: &str) -> Result<Expr> {
        if !self.keyword("WHERE") {
            let message = format!("{statement} must have a WHERE clause");
            return Err(SqlError::syntax(self.at(), message));
        }
        self.expr()
    }

    /// Reads `THEN RETURN …`, if that comes next.
    fn returning(&mut self) -> Result<Vec<Item>> {
        self.refuse(&["ASSERT_ROWS_MODIFIED", "ON CONFLICT"])?;
        if !self.keyword("THEN RETURN") {
            return Ok(Vec::new());
        }
        self.refuse(&["WITH ACTION"])?;
        self.items()
    }
}
