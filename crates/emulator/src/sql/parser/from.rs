//! `FROM`.

use super::Parser;
use crate::sql::ast::{FromItem, FromStep, Join, TableName};
use crate::sql::error::{Result, SqlError};

/// The words that can follow something in `FROM` and aren't understood here.
const OTHERS: &[&str] =
    &["RIGHT", "FULL", "NATURAL", "TABLESAMPLE", "PIVOT (", "UNPIVOT (", "FOR SYSTEM_TIME"];

impl Parser {
    /// Reads what stands behind `FROM`.
    pub(super) fn from(&mut self) -> Result<Vec<FromStep>> {
        let mut steps = vec![self.step(Join::Comma)?];
        loop {
            self.refuse(OTHERS)?;
            let join = match () {
                () if self.symbol(",") => Join::Comma,
                () if self.keyword("CROSS") => Join::Cross,
                () if self.keyword("INNER") => Join::Inner,
                () if self.keyword("LEFT OUTER") || self.keyword("LEFT") => Join::Left,
                () if self.sees("JOIN") || self.sees("HASH") || self.sees("LOOKUP") => Join::Inner,
                () => return Ok(steps),
            };
            if join != Join::Comma {
                self.refuse(&["HASH", "LOOKUP"])?;
                self.expect_keyword("JOIN")?;
                self.operator_hint()?;
            }
            steps.push(self.step(join)?);
        }
    }

    fn step(&mut self, join: Join) -> Result<FromStep> {
        let at = self.at();
        let item = match () {
            () if self.starts_subquery() => {
                let query = Box::new(self.subquery()?);
                FromItem::Query { query, alias: self.alias()? }
            }
            () if self.sees_symbol("(") => return Err(self.unsupported("a join in parentheses")),
            () => {
                self.refuse(OTHERS)?;
                self.refuse(&["LATERAL", "UNNEST"])?;
                let table = self.table()?;
                if self.sees_symbol("(") {
                    let construct = format!("the table function {}", table.name);
                    return Err(SqlError::unsupported(table.at, construct));
                }
                self.refuse(&["WITH OFFSET"])?;
                FromItem::Table(table)
            }
        };
        let may_have_condition = matches!(join, Join::Inner | Join::Left);
        let condition = match () {
            () if may_have_condition && self.keyword("ON") => Some(self.expr()?),
            () if may_have_condition => {
                self.refuse(&["USING"])?;
                None
            }
            () => None,
        };
        Ok(FromStep { item, join, condition, at })
    }

    /// Reads a table's name with its hints and its alias.
    pub(super) fn table(&mut self) -> Result<TableName> {
        let at = self.at();
        let mut name = self.identifier()?;
        let mut schema = None;
        if self.symbol(".") {
            schema = Some(std::mem::replace(&mut name, self.name_after_dot()?));
        }
        if self.sees_symbol(".") {
            return Err(self.unsupported("a name of more than two parts"));
        }
        let index = self.table_hint()?;
        let alias = self.alias()?;
        Ok(TableName { schema, name, alias, index, at })
    }
}
