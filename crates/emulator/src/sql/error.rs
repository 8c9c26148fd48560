//! The answer of this module when it cannot do what a text asks, with the place in the text.

use std::fmt;

use crate::engine::{Code, Error};

/// A place in a text: line and column, both counted from 1, columns in characters.
///
/// All places are equal to each other, so that two syntax trees are equal when they say the same,
/// wherever it stands.
#[derive(Clone, Copy, Debug)]
pub struct Pos {
    /// The line.
    pub line: u32,
    /// The column within the line. A tab leads to the next multiple of eight, as in Spanner.
    pub column: u32,
}

impl Pos {
    /// Where every text starts.
    pub const START: Pos = Pos { line: 1, column: 1 };

    /// Returns true if the other one is the same place.
    pub fn is(self, other: Pos) -> bool {
        (self.line, self.column) == (other.line, other.column)
    }
}

impl PartialEq for Pos {
    fn eq(&self, _: &Pos) -> bool {
        true
    }
}

impl Eq for Pos {}

impl fmt::Display for Pos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Why a text was refused, or why its evaluation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    code: Code,
    message: String,
    at: Option<Pos>,
}

/// A result of this module.
pub type Result<T, E = SqlError> = std::result::Result<T, E>;

impl SqlError {
    /// Returns an error about this place in the text.
    pub fn new(code: Code, at: Pos, message: impl Into<String>) -> SqlError {
        SqlError { code, message: message.into(), at: Some(at) }
    }

    /// Returns an error about no place in particular, such as a failed computation.
    pub fn unplaced(code: Code, message: impl Into<String>) -> SqlError {
        SqlError { code, message: message.into(), at: None }
    }

    /// Returns the error for a text that is wrong as it stands, or that names what isn't there.
    pub fn invalid(at: Pos, message: impl Into<String>) -> SqlError {
        SqlError::new(Code::InvalidArgument, at, message)
    }

    /// Returns the error for a text that is no statement.
    pub fn syntax(at: Pos, message: impl fmt::Display) -> SqlError {
        SqlError::invalid(at, format!("Syntax error: {message}"))
    }

    /// Something that Cloud Spanner may do and this module doesn't. `construct` names it.
    pub fn unsupported(at: Pos, construct: impl fmt::Display) -> SqlError {
        SqlError { at: Some(at), ..SqlError::unsupported_value(construct) }
    }

    /// As [`SqlError::unsupported`], of values rather than of a place in the text.
    pub fn unsupported_value(construct: impl fmt::Display) -> SqlError {
        SqlError::unplaced(Code::Unimplemented, format!("Not supported here: {construct}"))
    }

    /// Returns the error of a plan for any values where a value decides. Nobody is shown it.
    pub(super) fn value_needed(at: Pos) -> SqlError {
        SqlError::unsupported(at, "a plan for any values")
    }

    /// Returns the error for a computation whose result no value can hold, or that has none.
    pub fn out_of_range(message: impl Into<String>) -> SqlError {
        SqlError::unplaced(Code::OutOfRange, message)
    }

    /// Returns the gRPC code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Returns the message, without the place.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns where in the text, if the error is about a place.
    pub fn at(&self) -> Option<Pos> {
        self.at
    }

    /// Returns the error as a reply carries it, in Spanner's shape: the place in brackets, then its
    /// line of `text`, with a caret below.
    pub fn in_text(&self, text: &str) -> Error {
        Error::new(self.code, self.shown_in(text).unwrap_or_else(|| self.to_string()))
    }

    fn shown_in(&self, text: &str) -> Option<String> {
        let at = self.at?;
        let line = text.split('\n').nth(at.line as usize - 1)?.trim_end_matches('\r');
        let mut shown = String::new();
        for next in line.chars().take(LONGEST_LINE_SHOWN + 1) {
            match next {
                // As wide as columns count it.
                '\t' => shown.push_str(&" ".repeat(8 - shown.chars().count() % 8)),
                _ => shown.push(next),
            }
        }
        let indent = " ".repeat(at.column as usize - 1);
        (shown.chars().count() <= LONGEST_LINE_SHOWN).then(|| format!("{self}\n{shown}\n{indent}^"))
    }
}

/// A longer line says nothing to a reader, and a status message should fit into a header.
const LONGEST_LINE_SHOWN: usize = 200;

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match self.at {
            Some(at) => write!(f, " [at {at}]"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for SqlError {}

impl From<SqlError> for Error {
    fn from(error: SqlError) -> Error {
        Error::new(error.code, error.to_string())
    }
}
