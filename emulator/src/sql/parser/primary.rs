//! Expressions that aren't made with operators.

use super::expr::literal;
use super::{MAX_SUBQUERY_DEPTH, Parser};
use crate::engine::Type;
use crate::sql::ast::{Expr, ExprKind, Literal, Name};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::token::{Kind, is_reserved};

/// Expressions that start with a keyword and that this parser doesn't know.
const OTHER_EXPRESSIONS: &[&str] =
    &["CAST", "EXTRACT", "ARRAY", "STRUCT", "NEW", "UNNEST", "GROUPING", "INTERVAL", "WITH"];

/// Words that make a literal with the string behind them, of types that the engine doesn't know.
const OTHER_LITERALS: &[&str] =
    &["NUMERIC", "BIGNUMERIC", "JSON", "DATETIME", "TIME", "UUID", "INTERVAL", "RANGE"];

impl Parser {
    pub(super) fn primary(&mut self) -> Result<Expr> {
        let at = self.at();
        let constant = match self.peek() {
            Kind::Integer(value) => Literal::Integer(*value),
            Kind::Float(value) => Literal::Float(*value),
            Kind::Text(text) => Literal::Text(text.clone()),
            Kind::Bytes(bytes) => Literal::Bytes(bytes.clone()),
            Kind::Word(word) if word.eq_ignore_ascii_case("NULL") => Literal::Null,
            Kind::Word(word) if word.eq_ignore_ascii_case("TRUE") => Literal::Bool(true),
            Kind::Word(word) if word.eq_ignore_ascii_case("FALSE") => Literal::Bool(false),
            Kind::Parameter(name) => {
                let kind = ExprKind::Parameter(name.clone());
                self.advance();
                return Ok(Expr::new(at, kind));
            }
            Kind::Symbol("(") => return self.parenthesized(),
            Kind::Symbol("[") => return Err(self.unsupported("an array")),
            Kind::Symbol("?") => return Err(self.unsupported("a parameter without a name")),
            Kind::Symbol("@{") => return Err(self.unsupported("a hint in an expression")),
            Kind::Word(_) => return self.word(at),
            Kind::Quoted(_) => return self.named(at),
            Kind::Symbol(_) | Kind::End => return Err(self.unexpected()),
        };
        self.advance();
        Ok(literal(at, constant))
    }

    fn parenthesized(&mut self) -> Result<Expr> {
        self.expect_symbol("(")?;
        self.refuse_subquery("a subquery as a value")?;
        let inner = self.expr()?;
        if self.sees_symbol(",") {
            return Err(self.unsupported("a struct"));
        }
        self.expect_symbol(")")?;
        Ok(inner)
    }

    /// Reads what starts with a word.
    fn word(&mut self, at: Pos) -> Result<Expr> {
        if let Some(typed) = self.typed_literal(at)? {
            return Ok(typed);
        }
        if self.keyword("CASE") {
            return self.case(at);
        }
        if self.keyword("EXISTS") {
            return self.exists(at);
        }
        self.refuse(OTHER_EXPRESSIONS)?;
        let is_called = self.ahead(1).kind == Kind::Symbol("(");
        if is_called {
            self.refuse(&["LEFT", "RIGHT"])?;
        }
        match self.peek() {
            Kind::Word(word) if is_reserved(word) && !(is_called && self.sees("IF")) => {
                Err(self.unexpected())
            }
            _ => self.named(at),
        }
    }

    /// Reads `DATE '…'` or `TIMESTAMP '…'`, if that comes next.
    fn typed_literal(&mut self, at: Pos) -> Result<Option<Expr>> {
        let Kind::Text(text) = &self.ahead(1).kind else { return Ok(None) };
        let typed = match () {
            () if self.sees("DATE") => Literal::Typed(Type::Date, text.clone()),
            () if self.sees("TIMESTAMP") => Literal::Typed(Type::Timestamp, text.clone()),
            () => {
                return match OTHER_LITERALS.iter().find(|word| self.sees(word)) {
                    Some(word) => Err(self.unsupported(format_args!("a literal of type {word}"))),
                    None => Ok(None),
                };
            }
        };
        self.advance();
        self.advance();
        Ok(Some(literal(at, typed)))
    }

    fn case(&mut self, at: Pos) -> Result<Expr> {
        let operand = match self.sees("WHEN") {
            true => None,
            false => Some(Box::new(self.expr()?)),
        };
        let mut branches = Vec::new();
        self.expect_keyword("WHEN")?;
        loop {
            let when = self.expr()?;
            self.expect_keyword("THEN")?;
            branches.push((when, self.expr()?));
            if !self.keyword("WHEN") {
                break;
            }
        }
        let otherwise = match self.keyword("ELSE") {
            true => Some(Box::new(self.expr()?)),
            false => None,
        };
        self.expect_keyword("END")?;
        self.node(at, ExprKind::Case { operand, branches, otherwise })
    }

    fn exists(&mut self, at: Pos) -> Result<Expr> {
        self.expect_symbol("(")?;
        self.refuse(&["WITH", "FROM"])?;
        if self.subquery_depth == MAX_SUBQUERY_DEPTH {
            let construct = format!("subqueries nested more than {MAX_SUBQUERY_DEPTH} deep");
            return Err(self.unsupported(construct));
        }
        self.subquery_depth += 1;
        let select = self.select()?;
        self.subquery_depth -= 1;
        self.expect_symbol(")")?;
        self.node(at, ExprKind::Exists(Box::new(select)))
    }

    /// UNIMPLEMENTED, if a query comes next.
    pub(super) fn refuse_subquery(&self, construct: &str) -> Result<()> {
        match self.sees("SELECT") || self.sees("WITH") || self.sees("FROM") {
            true => Err(self.unsupported(construct)),
            false => Ok(()),
        }
    }

    /// Reads a column or a call of a function.
    fn named(&mut self, at: Pos) -> Result<Expr> {
        let name = match self.peek() {
            // The one function whose name is reserved.
            Kind::Word(word) if word.eq_ignore_ascii_case("IF") => {
                let name = word.clone();
                self.advance();
                name
            }
            _ => self.identifier()?,
        };
        if self.symbol("(") {
            return self.call(at, name);
        }
        if !self.symbol(".") {
            return Ok(Expr::new(at, ExprKind::Column { table: None, name }));
        }
        let column = self.name_after_dot()?;
        if self.sees_symbol("(") {
            return Err(SqlError::unsupported(at, format_args!("the function {name}.{column}")));
        }
        Ok(Expr::new(at, ExprKind::Column { table: Some(name), name: column }))
    }

    fn call(&mut self, at: Pos, function: String) -> Result<Expr> {
        let counts = function.eq_ignore_ascii_case("COUNT");
        let kind = if counts && self.symbol("*") {
            ExprKind::CountRows
        } else if self.sees_symbol(")") {
            ExprKind::Call { function, arguments: Vec::new() }
        } else {
            self.refuse(&["DISTINCT"])?;
            self.refuse_subquery("a subquery as an argument")?;
            let arguments = self.list(Parser::argument)?;
            ExprKind::Call { function, arguments }
        };
        self.refuse(&["ORDER", "LIMIT", "HAVING", "IGNORE", "RESPECT", "AT"])?;
        if self.sees_symbol("=>") {
            return Err(self.unsupported("a named argument"));
        }
        self.expect_symbol(")")?;
        self.refuse(&["OVER"])?;
        self.node(at, kind)
    }

    fn argument(&mut self) -> Result<Expr> {
        let at = self.at();
        // A literal such as INTERVAL '1-2' YEAR TO MONTH is something else.
        if self.sees("INTERVAL") && !matches!(self.ahead(1).kind, Kind::Text(_)) {
            self.advance();
            let amount = Box::new(self.expr()?);
            let unit = Name { at: self.at(), text: self.identifier()? };
            return self.node(at, ExprKind::Interval { amount, unit });
        }
        self.expr()
    }
}
