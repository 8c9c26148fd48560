//! GoogleSQL, as far as locks, fenced writes and the usual programs need it.
//!
//! A text becomes tokens (`lexer`), tokens become a tree or a schema change (`parser`).
//! A construct outside the supported subset is UNIMPLEMENTED; the error names it and its place. It
//! never gives a wrong result.
//!
//! # Limits
//! - A statement has at most [`MAX_STATEMENT_CHARS`] characters, a DDL text [`MAX_DDL_BYTES`] bytes.
//! - Expressions nest at most [`MAX_DEPTH`] deep, subqueries [`MAX_SUBQUERY_DEPTH`] deep. A chain of
//!   AND, of OR or of operators of one rank counts as one level; of the last it has a thousand at most.
//! - A statement takes a hundred million steps, and puts 400 MB of rows together.

pub mod ast;
mod bind;
mod bounds;
mod characters;
mod database;
mod error;
mod eval;
mod functions;
mod information_schema;
mod keys;
mod lexer;
mod literal;
mod params;
mod parser;
mod plan;
mod prepared;
mod run;
mod time;
mod token;
mod wire;
mod written;

pub use database::InTransaction;
pub use error::{Pos, Result, SqlError};
pub use functions::{Code as FunctionCode, Function, functions};
pub(crate) use information_schema::is_of_information_schema;
pub use params::{Parameter, Parameters};
pub use parser::{
    MAX_DDL_BYTES, MAX_DEPTH, MAX_STATEMENT_CHARS, MAX_SUBQUERY_DEPTH, check_query,
    parse_create_database_in, parse_ddl, parse_ddl_in, parse_ddl_leniently, parse_statement,
};
pub use prepared::{Prepared, Statements};
pub use run::{Outcome, execute};
pub(crate) use token::is_reserved;
pub use wire::decode;
