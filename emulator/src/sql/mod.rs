//! GoogleSQL, as far as locks and fenced writes need it.
//!
//! A text becomes tokens (`lexer`), tokens become a tree or a schema change (`parser`).
//! What lies outside the supported subset is UNIMPLEMENTED and names the construct and its place;
//! it never gives a wrong result.
//!
//! # Limits
//! - A DDL text has at most [`MAX_DDL_BYTES`] bytes.

mod error;
mod lexer;
mod literal;
mod parser;
mod token;

pub use error::{Pos, Result, SqlError};
pub use parser::{MAX_DDL_BYTES, parse_ddl};
