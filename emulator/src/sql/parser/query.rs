//! `SELECT`.

use super::Parser;
use crate::sql::ast::{FromItem, Item, Limit, Order, Select, TableName};
use crate::sql::error::{Result, SqlError};
use crate::sql::token::{Kind, is_reserved};

/// What can follow a table in `FROM` and isn't understood here.
const JOINS: &[&str] = &[
    "JOIN",
    "INNER",
    "CROSS",
    "LEFT",
    "RIGHT",
    "FULL",
    "HASH",
    "NATURAL",
    "LOOKUP",
    "TABLESAMPLE",
    "UNNEST",
    "PIVOT (",
    "FOR SYSTEM_TIME",
];

/// Clauses that aren't understood here.
const OTHER_CLAUSES: &[&str] =
    &["GROUP", "HAVING", "WINDOW", "QUALIFY", "UNION", "INTERSECT", "EXCEPT", "FOR", "FETCH"];

impl Parser {
    /// Reads a query from its `SELECT` on.
    pub(super) fn select(&mut self) -> Result<Select> {
        self.expect_keyword("SELECT")?;
        if self.sees_symbol("@{") {
            return Err(self.unsupported("a hint behind SELECT"));
        }
        self.refuse(&["DISTINCT", "AS STRUCT", "AS VALUE", "AS"])?;
        self.keyword("ALL");
        let items = self.items()?;
        let from = match self.keyword("FROM") {
            true => Some(self.from()?),
            false => None,
        };
        let filter = match self.keyword("WHERE") {
            true => Some(self.expr()?),
            false => None,
        };
        self.refuse(OTHER_CLAUSES)?;
        let order = match self.keyword("ORDER BY") {
            true => self.list(Parser::order)?,
            false => Vec::new(),
        };
        let limit = match self.keyword("LIMIT") {
            true => Some(self.limit()?),
            false => None,
        };
        self.refuse(OTHER_CLAUSES)?;
        if self.sees_symbol("|>") {
            return Err(self.unsupported("the operator |>"));
        }
        Ok(Select { items, from, filter, order, limit })
    }

    pub(super) fn items(&mut self) -> Result<Vec<Item>> {
        let mut items = vec![self.item()?];
        while self.symbol(",") {
            // A comma may stand behind the last item.
            if self.sees("FROM") || self.is_done() || self.sees_symbol(")") {
                break;
            }
            items.push(self.item()?);
        }
        Ok(items)
    }

    fn item(&mut self) -> Result<Item> {
        let at = self.at();
        if self.symbol("*") {
            self.refuse(&["EXCEPT", "REPLACE"])?;
            return Ok(Item::Star { table: None, at });
        }
        if self.ahead(1).kind == Kind::Symbol(".") && self.ahead(2).kind == Kind::Symbol("*") {
            let table = self.identifier()?;
            self.expect_symbol(".")?;
            self.expect_symbol("*")?;
            self.refuse(&["EXCEPT", "REPLACE"])?;
            return Ok(Item::Star { table: Some(table), at });
        }
        let expr = self.expr()?;
        Ok(Item::Expr { expr, alias: self.alias()? })
    }

    /// Reads `AS alias` or `alias`, if there is one.
    fn alias(&mut self) -> Result<Option<String>> {
        if self.keyword("AS") {
            return self.identifier().map(Some);
        }
        match self.peek() {
            Kind::Quoted(_) => self.identifier().map(Some),
            Kind::Word(word) if !is_reserved(word) && !self.sees("QUALIFY") => {
                self.identifier().map(Some)
            }
            _ => Ok(None),
        }
    }

    fn from(&mut self) -> Result<FromItem> {
        if self.sees_symbol("(") {
            return Err(self.unsupported("a subquery in FROM"));
        }
        let from = match self.keyword("UNNEST") {
            true => self.unnest()?,
            false => {
                self.refuse(JOINS)?;
                let table = self.table()?;
                if self.sees_symbol("(") {
                    let construct = format!("the table function {}", table.name);
                    return Err(SqlError::unsupported(table.at, construct));
                }
                FromItem::Table(table)
            }
        };
        if self.sees_symbol(",") {
            return Err(self.unsupported("more than one table in FROM"));
        }
        self.refuse(JOINS)?;
        Ok(from)
    }

    /// Reads `UNNEST(array) [AS alias]` from behind its first word on.
    fn unnest(&mut self) -> Result<FromItem> {
        self.expect_symbol("(")?;
        let array = self.expr()?;
        self.expect_symbol(")")?;
        self.refuse(&["WITH OFFSET"])?;
        let alias = self.alias()?;
        self.refuse(&["WITH OFFSET"])?;
        Ok(FromItem::Unnest { array, alias })
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
        self.table_hint()?;
        let alias = self.alias()?;
        if self.keyword("WITH OFFSET") {
            return Err(SqlError::unsupported(at, "WITH OFFSET"));
        }
        Ok(TableName { schema, name, alias, at })
    }

    fn order(&mut self) -> Result<Order> {
        let expr = self.expr()?;
        self.refuse(&["COLLATE"])?;
        let descending = self.keyword("DESC");
        if !descending {
            self.keyword("ASC");
        }
        let nulls_first = match () {
            () if self.keyword("NULLS FIRST") => Some(true),
            () if self.keyword("NULLS LAST") => Some(false),
            () => None,
        };
        Ok(Order { expr, descending, nulls_first })
    }

    fn limit(&mut self) -> Result<Limit> {
        let count = self.expr()?;
        let skip = match self.keyword("OFFSET") {
            true => Some(self.expr()?),
            false => None,
        };
        Ok(Limit { count, skip })
    }
}
