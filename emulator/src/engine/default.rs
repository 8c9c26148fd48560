//! What a column gets when a new row says nothing of it.

use std::fmt;
use std::sync::Arc;

use super::column::Column;
use super::error::Result;
use super::mutation::Cell;
use super::value::Timestamp;

/// An expression in a schema. The engine doesn't know the language; whoever reads DDL does.
pub trait DefaultExpression: Send + Sync {
    /// As it was written.
    fn text(&self) -> &str;

    /// Whether the column can have it for its default.
    ///
    /// # Errors
    /// Its value doesn't fit the column.
    fn check(&self, column: &Column) -> Result<()>;

    /// Its value for a new row, at this moment.
    ///
    /// # Errors
    /// It has none.
    fn value(&self, column: &Column, now: Timestamp) -> Result<Cell>;
}

/// `DEFAULT (…)`. Two are equal that were written in the same way.
#[derive(Clone)]
pub struct ColumnDefault(Arc<dyn DefaultExpression>);

impl ColumnDefault {
    /// The default that an expression gives.
    pub fn new(expression: impl DefaultExpression + 'static) -> ColumnDefault {
        ColumnDefault(Arc::new(expression))
    }

    /// The expression as it was written, without the parentheses around it.
    pub fn text(&self) -> &str {
        self.0.text()
    }

    pub(crate) fn check(&self, column: &Column) -> Result<()> {
        self.0.check(column)
    }

    pub(crate) fn value(&self, column: &Column, now: Timestamp) -> Result<Cell> {
        self.0.value(column, now)
    }
}

impl PartialEq for ColumnDefault {
    fn eq(&self, other: &ColumnDefault) -> bool {
        self.text() == other.text()
    }
}

impl Eq for ColumnDefault {}

impl fmt::Debug for ColumnDefault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ColumnDefault").field(&self.text()).finish()
    }
}
