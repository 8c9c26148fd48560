//! Expressions over the columns of one row: what a generated column holds, what a constraint checks.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::error::Result;
use super::value::{Type, Value};

/// An expression over columns, which are given by name and type. The engine doesn't know the
/// language; whoever reads DDL does.
pub trait RowExpression: Send + Sync {
    /// As it was written, without the parentheses around it.
    fn text(&self) -> &str;

    /// The names that it uses.
    fn names(&self) -> &[String];

    /// Checks that it can be a value of this type over these columns.
    ///
    /// # Errors
    /// It isn't one, or not always the same one for the same row.
    fn check(&self, columns: &[(&str, Type)], value_type: Type) -> Result<()>;

    /// Its value for a row that has a value for each column.
    ///
    /// # Errors
    /// It has none.
    fn value(&self, columns: &[(&str, Type)], value_type: Type, row: &[Value]) -> Result<Value>;
}

/// An expression over columns. Two are equal that were written in the same way.
#[derive(Clone)]
pub struct Formula(Arc<dyn RowExpression>);

impl Formula {
    /// Returns the formula that an expression is.
    pub fn new(expression: impl RowExpression + 'static) -> Formula {
        Formula(Arc::new(expression))
    }

    /// Returns true if it uses the column of this name.
    pub fn uses(&self, column: &str) -> bool {
        self.0.names().iter().any(|name| name.eq_ignore_ascii_case(column))
    }
}

impl Deref for Formula {
    type Target = dyn RowExpression;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PartialEq for Formula {
    fn eq(&self, other: &Formula) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Formula {}

impl fmt::Debug for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Formula").field(&self.text()).finish()
    }
}
