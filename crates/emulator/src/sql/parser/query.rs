//! `SELECT`.

use super::Parser;
use crate::sql::ast::{Item, Limit, Order, Select};
use crate::sql::error::Result;
use crate::sql::token::{Kind, is_reserved};

/// Clauses that aren't understood here.
const OTHER_CLAUSES: &[&str] = &["WINDOW", "QUALIFY", "UNION", "INTERSECT", "EXCEPT", "FETCH"];

impl Parser {
    /// Reads a query, from its `SELECT` on.
    pub(super) fn query(&mut self) -> Result<Select> {
        self.refuse(&["WITH"])?;
        match self.sees_symbol("(") {
            true => Err(self.unsupported("a set operation")),
            false => self.select(),
        }
    }

    /// Reads `(query)`.
    pub(super) fn query_in_parentheses(&mut self) -> Result<Select> {
        self.expect_symbol("(")?;
        let query = match self.sees_symbol("(") {
            true => self.deeper(Parser::query_in_parentheses)?,
            false => {
                self.refuse(&["FROM"])?;
                self.query()?
            }
        };
        self.refuse(OTHER_CLAUSES)?;
        self.refuse(&["ORDER", "LIMIT"])?;
        self.expect_symbol(")")?;
        Ok(query)
    }

    fn select(&mut self) -> Result<Select> {
        self.expect_keyword("SELECT")?;
        if self.sees_symbol("@{") {
            return Err(self.unsupported("a hint behind SELECT"));
        }
        self.keyword("ALL");
        self.refuse(&["DISTINCT", "AS STRUCT", "AS VALUE", "AS", "WITH"])?;
        let items = self.items()?;
        let from = match self.keyword("FROM") {
            true => self.from()?,
            false => Vec::new(),
        };
        let filter = match self.keyword("WHERE") {
            true => Some(self.expr()?),
            false => None,
        };
        self.refuse(&["GROUP", "HAVING"])?;
        self.refuse(OTHER_CLAUSES)?;
        let order = match self.keyword("ORDER BY") {
            true => self.list(Parser::order)?,
            false => Vec::new(),
        };
        let limit = match self.keyword("LIMIT") {
            true => Some(self.limit()?),
            false => None,
        };
        let for_update = self.keyword("FOR UPDATE");
        self.refuse(OTHER_CLAUSES)?;
        self.refuse(&["FOR"])?;
        if self.sees_symbol("|>") {
            return Err(self.unsupported("the operator |>"));
        }
        Ok(Select { items, from, filter, order, limit, for_update })
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
        if matches!(self.peek(), Kind::Word(_) | Kind::Quoted(_))
            && self.ahead(1).kind == Kind::Symbol(".")
            && self.ahead(2).kind == Kind::Symbol("*")
        {
            let table = Some(self.identifier()?);
            self.advance();
            self.advance();
            self.refuse(&["EXCEPT", "REPLACE"])?;
            return Ok(Item::Star { table, at });
        }
        let expr = self.expr()?;
        Ok(Item::Expr { expr, alias: self.alias()? })
    }

    /// Reads `AS alias` or `alias`, if there is one.
    pub(super) fn alias(&mut self) -> Result<Option<String>> {
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

    pub(super) fn order(&mut self) -> Result<Order> {
        let expr = self.expr()?;
        self.refuse(&["COLLATE"])?;
        let descending = self.is_descending();
        self.refuse(&["NULLS FIRST", "NULLS LAST"])?;
        Ok(Order { expr, descending })
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
