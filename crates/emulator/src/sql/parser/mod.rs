//! Recursive descent over the tokens of a text.

mod column;
mod ddl;
mod dml;
mod expr;
mod from;
mod hint;
mod postgresql;
mod primary;
mod query;

use super::ast::{Expr, Statement};
use super::error::{Pos, Result, SqlError};
use super::lexer::tokenize;
use super::token::{Kind, Token, is_reserved};

pub use ddl::{MAX_DDL_BYTES, parse_ddl, parse_ddl_leniently};
pub use postgresql::{check_query, parse_create_database_in, parse_ddl_in};

/// The most characters a statement can have; Cloud Spanner's limit.
pub const MAX_STATEMENT_CHARS: usize = 1_000_000;

/// How deep expressions can nest. Whatever walks a tree recurses and relies on it: this many levels
/// fit the smallest stack that a thread may have.
pub const MAX_DEPTH: usize = 32;

/// How many operators of one rank can stand in a row.
pub const MAX_CHAIN: usize = 1_000;

/// How deep subqueries can nest. Each level multiplies the work that a statement can ask for.
pub const MAX_SUBQUERY_DEPTH: usize = 3;

/// Statements that Cloud Spanner knows and this parser doesn't.
const OTHER_STATEMENTS: &[&str] = &[
    "FROM", "GRAPH", "CALL", "EXPLAIN", "MERGE", "TRUNCATE", "SHOW", "BEGIN", "COMMIT", "ROLLBACK",
    "ASSERT", "EXPORT",
];

/// The words that can stand between queries and aren't understood here.
const SET_OPERATIONS: &[&str] = &["UNION", "INTERSECT", "EXCEPT"];

/// Parses one statement that reads or writes rows.
///
/// # Errors
/// INVALID_ARGUMENT for what is no such statement, UNIMPLEMENTED for what is outside the subset.
pub fn parse_statement(text: &str) -> Result<Statement> {
    // Counting characters takes as long as the text is, so the count of bytes decides first.
    if text.len() > 4 * MAX_STATEMENT_CHARS || text.chars().count() > MAX_STATEMENT_CHARS {
        let message =
            format!("Query string length exceeds maximum allowed length of {MAX_STATEMENT_CHARS}");
        return Err(SqlError::invalid(Pos::START, message));
    }
    let mut parser = Parser::new(text)?;
    let statement = parser.statement()?;
    parser.symbol(";");
    match parser.is_done() {
        true => Ok(statement),
        false => Err(parser.expected("end of statement")),
    }
}

/// Parses an expression that is a text of its own, such as a column's default.
///
/// # Errors
/// As [`parse_statement`].
pub fn parse_expression(text: &str) -> Result<Expr> {
    let mut parser = Parser::new(text)?;
    let expr = parser.expr()?;
    match parser.is_done() {
        true => Ok(expr),
        false => Err(parser.expected("end of expression")),
    }
}

/// The tokens of a text and the place that the parser has reached.
pub struct Parser {
    text: Box<str>,
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
    subquery_depth: usize,
    /// True if DDL that asks for what isn't here is kept.
    lenient: bool,
}

impl Parser {
    fn new(text: &str) -> Result<Parser> {
        let tokens = tokenize(text)?;
        Ok(Parser {
            text: text.into(),
            tokens,
            next: 0,
            depth: 0,
            subquery_depth: 0,
            lenient: false,
        })
    }

    fn statement(&mut self) -> Result<Statement> {
        self.statement_hint()?;
        self.refuse(OTHER_STATEMENTS)?;
        if self.sees("SELECT") || self.sees("WITH") {
            Ok(Statement::Query(Box::new(self.query()?)))
        } else if self.keyword("INSERT") {
            Ok(Statement::Insert(self.insert()?))
        } else if self.keyword("UPDATE") {
            Ok(Statement::Update(self.update()?))
        } else if self.keyword("DELETE") {
            Ok(Statement::Delete(self.delete()?))
        } else if self.sees_symbol("(") {
            let query = self.query_in_parentheses()?;
            self.refuse(SET_OPERATIONS)?;
            self.refuse(&["ORDER", "LIMIT"])?;
            Ok(Statement::Query(Box::new(query)))
        } else {
            Err(self.unexpected())
        }
    }

    /// The token this many places ahead; behind the end, the end.
    fn ahead(&self, places: usize) -> &Token {
        let last = self.tokens.len() - 1;
        &self.tokens[last.min(self.next + places)]
    }

    fn peek(&self) -> &Kind {
        &self.ahead(0).kind
    }

    fn at(&self) -> Pos {
        self.ahead(0).at
    }

    fn advance(&mut self) {
        self.next += 1;
    }

    /// Returns the text from the token at this place up to the next one to be read.
    fn text_from(&self, first: usize) -> &str {
        let start = self.tokens.get(first).map_or(0, |token| token.byte);
        self.text.get(start..self.ahead(0).byte).unwrap_or("").trim_end()
    }

    fn is_done(&self) -> bool {
        *self.peek() == Kind::End
    }

    fn sees_symbol(&self, symbol: &str) -> bool {
        matches!(self.peek(), Kind::Symbol(next) if *next == symbol)
    }

    /// Returns true if these keywords and symbols come next, in any case.
    fn sees(&self, keywords: &str) -> bool {
        self.sees_ahead(0, keywords)
    }

    fn sees_ahead(&self, first: usize, keywords: &str) -> bool {
        keywords.split(' ').enumerate().all(|(places, keyword)| {
            match &self.ahead(first + places).kind {
                Kind::Word(word) => word.eq_ignore_ascii_case(keyword),
                Kind::Symbol(symbol) => *symbol == keyword,
                _ => false,
            }
        })
    }

    /// Reads this symbol, if it comes next.
    fn symbol(&mut self, symbol: &str) -> bool {
        let seen = self.sees_symbol(symbol);
        if seen {
            self.advance();
        }
        seen
    }

    /// Reads these keywords, if all of them come next.
    fn keyword(&mut self, keywords: &str) -> bool {
        let seen = self.sees(keywords);
        if seen {
            keywords.split(' ').for_each(|_| self.advance());
        }
        seen
    }

    fn expect_symbol(&mut self, symbol: &str) -> Result<()> {
        match self.symbol(symbol) {
            true => Ok(()),
            false => Err(self.expected(format_args!("\"{symbol}\""))),
        }
    }

    fn expect_keyword(&mut self, keywords: &str) -> Result<()> {
        match self.keyword(keywords) {
            true => Ok(()),
            false => Err(self.expected(format_args!("keyword {keywords}"))),
        }
    }

    /// Reads a name: a quoted identifier or an unreserved word.
    fn identifier(&mut self) -> Result<String> {
        match self.peek() {
            Kind::Word(word) if is_reserved(word) => Err(self.expected("an identifier")),
            _ => self.name_after_dot(),
        }
    }

    /// Reads a name behind a dot, where reserved words are names too.
    fn name_after_dot(&mut self) -> Result<String> {
        let name = match self.peek() {
            Kind::Quoted(name) | Kind::Word(name) => name.clone(),
            _ => return Err(self.expected("an identifier")),
        };
        self.advance();
        Ok(name)
    }

    /// Reads the name of a table. Only the default schema holds any.
    fn table_name(&mut self) -> Result<String> {
        let at = self.at();
        let name = self.identifier()?;
        match self.sees_symbol(".") {
            true => Err(SqlError::unsupported(at, format_args!("the named schema {name}"))),
            false => Ok(name),
        }
    }

    /// Reads what stands in parentheses.
    fn in_parentheses<T>(&mut self, inner: impl FnOnce(&mut Parser) -> Result<T>) -> Result<T> {
        self.expect_symbol("(")?;
        let inner = inner(self)?;
        self.expect_symbol(")")?;
        Ok(inner)
    }

    /// Reads `ASC` or `DESC`, if one is there; whether it is `DESC`.
    fn is_descending(&mut self) -> bool {
        let descending = self.keyword("DESC");
        if !descending {
            self.keyword("ASC");
        }
        descending
    }

    /// Reads `item`, then more of them after commas.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Parser) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.symbol(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn expected(&self, what: impl std::fmt::Display) -> SqlError {
        SqlError::syntax(self.at(), format_args!("Expected {what} but got {}", self.peek()))
    }

    fn unexpected(&self) -> SqlError {
        SqlError::syntax(self.at(), format_args!("Unexpected {}", self.peek()))
    }

    fn unsupported(&self, construct: impl std::fmt::Display) -> SqlError {
        SqlError::unsupported(self.at(), construct)
    }

    /// UNIMPLEMENTED, if one of these constructs starts here.
    fn refuse(&self, constructs: &[&str]) -> Result<()> {
        match constructs.iter().find(|construct| self.sees(construct)) {
            Some(construct) => Err(self.unsupported(construct)),
            None => Ok(()),
        }
    }
}
