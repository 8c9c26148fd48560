//! Expressions that aren't made with operators.

use super::{MAX_SUBQUERY_DEPTH, Parser};
use crate::engine::Type;
use crate::sql::ast::{Expr, ExprKind, Literal, Name, Select, SubqueryKind};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::token::{Kind, is_reserved};

/// Expressions that start with a keyword and that this parser doesn't know.
const OTHER_EXPRESSIONS: &[&str] = &["STRUCT", "NEW", "UNNEST", "GROUPING", "INTERVAL", "WITH"];

/// Words that make a literal with the string behind them, of types that the engine doesn't know.
const OTHER_LITERALS: &[&str] = &["BIGNUMERIC", "DATETIME", "TIME", "UUID", "INTERVAL", "RANGE"];

/// The words that can stand behind the arguments of a call and aren't understood here.
const CALL_CLAUSES: &[&str] =
    &["IGNORE NULLS", "RESPECT NULLS", "ORDER BY", "LIMIT", "HAVING", "AT"];

impl Parser {
    pub(super) fn primary(&mut self) -> Result<Expr> {
        let at = self.at();
        let constant = match self.peek() {
            Kind::Integer(value) => Literal::Integer(*value),
            Kind::Float(text) => Literal::Float(text.clone()),
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
            Kind::Symbol("[") => return self.array(at, None),
            Kind::Symbol("?") => return Err(self.unsupported("a parameter without a name")),
            Kind::Symbol("@{") => return Err(self.unsupported("a hint in an expression")),
            Kind::Word(_) => return self.word(at),
            Kind::Quoted(_) => return self.named(at),
            Kind::Symbol(_) | Kind::End => return Err(self.unexpected()),
        };
        self.advance();
        Ok(Expr::new(at, ExprKind::Literal(constant)))
    }

    fn parenthesized(&mut self) -> Result<Expr> {
        if self.starts_subquery() {
            let at = self.at();
            let query = Box::new(self.subquery()?);
            return self.node(at, ExprKind::Subquery { kind: SubqueryKind::Value, query });
        }
        self.in_parentheses(|parser| {
            let inner = parser.expr()?;
            match parser.sees_symbol(",") {
                true => Err(parser.unsupported("a struct")),
                false => Ok(inner),
            }
        })
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
        if self.keyword("ARRAY") {
            return self.array_of_a_type(at);
        }
        if self.keyword("CAST") {
            return self.cast(at, false);
        }
        let is_called = self.ahead(1).kind == Kind::Symbol("(");
        if is_called {
            if self.keyword("SAFE_CAST") {
                return self.cast(at, true);
            }
            self.refuse(&["EXTRACT", "LEFT", "RIGHT"])?;
        }
        self.refuse(OTHER_EXPRESSIONS)?;
        match self.peek() {
            Kind::Word(word) if is_reserved(word) && !(is_called && self.sees("IF")) => {
                Err(self.unexpected())
            }
            _ => self.named(at),
        }
    }

    /// Reads `[…]`.
    fn array(&mut self, at: Pos, element: Option<Type>) -> Result<Expr> {
        self.expect_symbol("[")?;
        let items = match self.sees_symbol("]") {
            true => Vec::new(),
            false => self.list(Parser::expr)?,
        };
        self.expect_symbol("]")?;
        self.node(at, ExprKind::Array { element, items })
    }

    /// Reads an array from behind its `ARRAY` on.
    fn array_of_a_type(&mut self, at: Pos) -> Result<Expr> {
        if self.sees_symbol("(") {
            return Err(self.unsupported("an array of a query's values"));
        }
        let element = match self.symbol("<") {
            true => {
                let element = self.plain_type()?;
                self.expect_symbol(">")?;
                Some(element)
            }
            false => None,
        };
        match element.is_some_and(|element| element.array().is_none()) {
            true => Err(SqlError::invalid(at, "Cannot construct array with element type ARRAY")),
            false => self.array(at, element),
        }
    }

    /// Reads a cast from behind its first word on.
    fn cast(&mut self, at: Pos, safe: bool) -> Result<Expr> {
        let (operand, target) = self.in_parentheses(|parser| {
            let operand = Box::new(parser.expr()?);
            parser.expect_keyword("AS")?;
            let target = parser.plain_type()?;
            parser.refuse(&["FORMAT", "AT"])?;
            Ok((operand, target))
        })?;
        self.node(at, ExprKind::Cast { operand, target, safe })
    }

    /// Reads `DATE '…'` and the like, if that comes next.
    fn typed_literal(&mut self, at: Pos) -> Result<Option<Expr>> {
        let Kind::Text(text) = &self.ahead(1).kind else { return Ok(None) };
        let types = [Type::Date, Type::Timestamp, Type::Numeric, Type::Json];
        let Some(found) = types.into_iter().find(|known| self.sees(known.name())) else {
            return match OTHER_LITERALS.iter().find(|word| self.sees(word)) {
                Some(word) => Err(self.unsupported(format_args!("a literal of type {word}"))),
                None => Ok(None),
            };
        };
        let typed = Literal::Typed(found, text.clone());
        self.advance();
        self.advance();
        Ok(Some(Expr::new(at, ExprKind::Literal(typed))))
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
        let query = Box::new(self.subquery()?);
        self.node(at, ExprKind::Subquery { kind: SubqueryKind::Exists, query })
    }

    /// Returns true if a query in parentheses comes next.
    pub(super) fn starts_subquery(&self) -> bool {
        let keywords = ["SELECT", "WITH", "FROM"];
        self.sees_symbol("(") && keywords.iter().any(|keyword| self.sees_ahead(1, keyword))
    }

    /// Reads a query in parentheses that stands inside another.
    pub(super) fn subquery(&mut self) -> Result<Select> {
        if self.subquery_depth == MAX_SUBQUERY_DEPTH {
            let construct = format!("subqueries nested more than {MAX_SUBQUERY_DEPTH} deep");
            return Err(self.unsupported(construct));
        }
        self.subquery_depth += 1;
        let select = self.query_in_parentheses()?;
        self.subquery_depth -= 1;
        Ok(select)
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
        if function.eq_ignore_ascii_case("COUNT") && self.symbol("*") {
            self.refuse(CALL_CLAUSES)?;
            self.expect_symbol(")")?;
            self.refuse(&["OVER"])?;
            return self.node(at, ExprKind::CountRows);
        }
        let takes_sequence = self.sees("SEQUENCE")
            && matches!(self.ahead(1).kind, Kind::Word(_) | Kind::Quoted(_))
            && [")", ",", "."].iter().any(|symbol| self.sees_ahead(2, symbol));
        if takes_sequence {
            return Err(SqlError::unsupported(at, format_args!("the function {function}")));
        }
        let distinct = self.keyword("DISTINCT");
        let arguments = match self.sees_symbol(")") {
            true => Vec::new(),
            false => self.list(Parser::argument)?,
        };
        if self.sees_symbol("=>") {
            return Err(self.unsupported("a named argument"));
        }
        self.refuse(CALL_CLAUSES)?;
        self.expect_symbol(")")?;
        self.refuse(&["OVER"])?;
        self.node(at, ExprKind::Call { function, arguments, distinct })
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
