//! Expressions, from the loosest operator to the tightest.

use super::{MAX_CHAIN, MAX_DEPTH, Parser};
use crate::sql::ast::{BinaryOp, Comparison, Expr, ExprKind};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::token::Kind;

const COMPARISONS: &[(&str, Comparison)] = &[
    ("=", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<>", Comparison::NotEqual),
    ("<", Comparison::Less),
    ("<=", Comparison::LessOrEqual),
    (">", Comparison::Greater),
    (">=", Comparison::GreaterOrEqual),
];
const SUMS: &[(&str, BinaryOp)] = &[("+", BinaryOp::Add), ("-", BinaryOp::Subtract)];
const PRODUCTS: &[(&str, BinaryOp)] =
    &[("*", BinaryOp::Multiply), ("/", BinaryOp::Divide), ("||", BinaryOp::Concat)];
const BIT_OPERATORS: &[&str] = &["<<", ">>", "&", "^", "|"];

impl Parser {
    /// Reads an expression.
    pub(super) fn expr(&mut self) -> Result<Expr> {
        self.deeper(|parser| {
            let at = parser.at();
            let mut parts = vec![parser.conjunction()?];
            while parser.keyword("OR") {
                parts.push(parser.conjunction()?);
            }
            parser.chain(at, parts, ExprKind::Or)
        })
    }

    fn conjunction(&mut self) -> Result<Expr> {
        let at = self.at();
        let mut parts = vec![self.negation()?];
        while self.keyword("AND") {
            parts.push(self.negation()?);
        }
        self.chain(at, parts, ExprKind::And)
    }

    /// One part stands for itself; several are one node, so that long chains stay flat.
    fn chain(
        &self,
        at: Pos,
        mut parts: Vec<Expr>,
        kind: fn(Vec<Expr>) -> ExprKind,
    ) -> Result<Expr> {
        match parts.pop() {
            Some(only) if parts.is_empty() => Ok(only),
            last => {
                parts.extend(last);
                self.node(at, kind(parts))
            }
        }
    }

    fn negation(&mut self) -> Result<Expr> {
        let at = self.at();
        if !self.keyword("NOT") {
            return self.comparison();
        }
        let operand = self.deeper(Parser::negation)?;
        self.node(at, ExprKind::Not(Box::new(operand)))
    }

    fn comparison(&mut self) -> Result<Expr> {
        let at = self.at();
        let left = self.sum()?;
        if let Some(symbol) = BIT_OPERATORS.iter().find(|symbol| self.sees_symbol(symbol)) {
            return Err(self.unsupported(format_args!("the operator {symbol}")));
        }
        if !self.starts_comparison() {
            return Ok(left);
        }
        let compared = self.compared(at, left)?;
        if self.starts_comparison() {
            let message = "Expression to the left of comparison must be parenthesized";
            return Err(SqlError::syntax(self.at(), message));
        }
        Ok(compared)
    }

    fn starts_comparison(&self) -> bool {
        let symbol = matches!(self.peek(), Kind::Symbol(next)
            if COMPARISONS.iter().any(|(symbol, _)| symbol == next));
        symbol
            || ["IS", "IN", "BETWEEN", "LIKE", "NOT IN", "NOT BETWEEN", "NOT LIKE"]
                .iter()
                .any(|keywords| self.sees(keywords))
    }

    /// Reads what comes after the left side of a comparison.
    fn compared(&mut self, at: Pos, left: Expr) -> Result<Expr> {
        let operand = Box::new(left);
        if let Some((_, comparison)) =
            COMPARISONS.iter().copied().find(|(symbol, _)| self.symbol(symbol))
        {
            let right = Box::new(self.sum()?);
            return self.node(at, ExprKind::Binary(BinaryOp::Compare(comparison), operand, right));
        }
        if self.keyword("IS") {
            let negated = self.keyword("NOT");
            let what = match () {
                () if self.keyword("NULL") => None,
                () if self.keyword("TRUE") => Some(true),
                () if self.keyword("FALSE") => Some(false),
                () if self.sees("DISTINCT") => return Err(self.unsupported("IS DISTINCT FROM")),
                () => return Err(self.expected("NULL, TRUE or FALSE")),
            };
            return self.node(at, ExprKind::Is { operand, what, negated });
        }
        let negated = self.keyword("NOT");
        if self.keyword("BETWEEN") {
            let low = Box::new(self.sum()?);
            self.expect_keyword("AND")?;
            let high = Box::new(self.sum()?);
            return self.node(at, ExprKind::Between { operand, low, high, negated });
        }
        if self.keyword("LIKE") {
            self.refuse(&["ANY", "SOME", "ALL"])?;
            let pattern = Box::new(self.sum()?);
            return self.node(at, ExprKind::Like { operand, pattern, negated });
        }
        self.expect_keyword("IN")?;
        if self.keyword("UNNEST") {
            let array = Box::new(self.in_parentheses(Parser::expr)?);
            return self.node(at, ExprKind::InArray { operand, array, negated });
        }
        if self.starts_subquery() {
            let query = Box::new(self.subquery()?);
            return self.node(at, ExprKind::InQuery { operand, query, negated });
        }
        let list = self.in_parentheses(|parser| parser.list(Parser::expr))?;
        self.node(at, ExprKind::In { operand, list, negated })
    }

    fn sum(&mut self) -> Result<Expr> {
        self.left_to_right(SUMS, |parser| parser.left_to_right(PRODUCTS, Parser::signed))
    }

    fn left_to_right(
        &mut self,
        operators: &[(&str, BinaryOp)],
        operand: fn(&mut Parser) -> Result<Expr>,
    ) -> Result<Expr> {
        let at = self.at();
        let first = operand(self)?;
        let mut others = Vec::new();
        while let Some((_, op)) = operators.iter().copied().find(|(symbol, _)| self.symbol(symbol))
        {
            if others.len() == MAX_CHAIN {
                let message = format!("Expression has more than {MAX_CHAIN} operators in a row");
                return Err(SqlError::invalid(self.at(), message));
            }
            others.push((op, operand(self)?));
        }
        // Many are one node, so that a long sum stays flat.
        match (others.len(), others.pop()) {
            (1, Some((op, right))) => {
                self.node(at, ExprKind::Binary(op, Box::new(first), Box::new(right)))
            }
            (_, Some(last)) => {
                others.push(last);
                self.node(at, ExprKind::Chain(Box::new(first), others))
            }
            (_, None) => Ok(first),
        }
    }

    fn signed(&mut self) -> Result<Expr> {
        let at = self.at();
        if self.symbol("+") {
            let operand = self.deeper(Parser::signed)?;
            return self.node(at, ExprKind::Plus(Box::new(operand)));
        }
        if self.symbol("-") {
            let operand = self.deeper(Parser::signed)?;
            return self.node(at, ExprKind::Negate(Box::new(operand)));
        }
        if self.sees_symbol("~") {
            return Err(self.unsupported("the operator ~"));
        }
        let operand = self.primary()?;
        match self.peek() {
            Kind::Symbol("[") => Err(self.unsupported("access to an element")),
            Kind::Symbol(".") => Err(self.unsupported("access to a field")),
            _ => Ok(operand),
        }
    }

    /// A node of the tree, unless the tree gets too high.
    pub(super) fn node(&self, at: Pos, kind: ExprKind) -> Result<Expr> {
        let node = Expr::new(at, kind);
        match node.height > MAX_DEPTH {
            true => Err(too_deep(at)),
            false => Ok(node),
        }
    }

    /// Reads something that may contain what this parser is just reading.
    pub(super) fn deeper<T>(&mut self, read: impl FnOnce(&mut Parser) -> Result<T>) -> Result<T> {
        if self.depth == MAX_DEPTH {
            return Err(too_deep(self.at()));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }
}

fn too_deep(at: Pos) -> SqlError {
    SqlError::invalid(at, format!("Expression is nested more than {MAX_DEPTH} levels deep"))
}
