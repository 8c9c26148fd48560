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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_stands_alone_or_in_backticks() {
        assert_eq!(parse_create_database("CREATE DATABASE orders"), Ok("orders".to_owned()));
        assert_eq!(parse_create_database("create database `my-db`;"), Ok("my-db".to_owned()));
        for bad in [
            "",
            "CREATE DATABASE",
            "CREATE DATABASE my-db",
            "CREATE DATABASE a b",
            "DROP DATABASE a",
        ] {
            assert!(parse_create_database(bad).is_err(), "{bad}");
        }
    }
}
