//! `CREATE DATABASE`, which stands alone: it says which database the other statements are for.

use super::Parser;
use crate::sql::error::Result;

/// Parses ``CREATE DATABASE `name` `` and gives the name.
///
/// # Errors
/// INVALID_ARGUMENT for anything else.
pub fn parse_create_database(text: &str) -> Result<String> {
    Parser::new(text)?.create_database()
}

impl Parser {
    pub(super) fn create_database(&mut self) -> Result<String> {
        self.expect_keyword("CREATE DATABASE")?;
        let name = self.identifier()?;
        self.symbol(";");
        match self.is_done() {
            true => Ok(name),
            false => Err(self.expected("end of statement")),
        }
    }
}
