//! Expressions that a schema holds. Those over the columns of one row are what a generated column
//! holds, or what a constraint checks.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::error::Result;
use super::value::{Type, Value};

/// An expression that a schema holds. The engine doesn't know the language; whoever reads DDL does.
pub trait Expression: Send + Sync {
    /// As it was written, without the parentheses around it.
    fn text(&self) -> &str;
}

/// An expression, shared. Two are equal that were written in the same way.
pub struct Shared<E: ?Sized>(pub(super) Arc<E>);

impl<E: ?Sized> Clone for Shared<E> {
    fn clone(&self) -> Shared<E> {
        Shared(Arc::clone(&self.0))
    }
}

impl<E: ?Sized> Deref for Shared<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.0
    }
}

impl<E: Expression + ?Sized> PartialEq for Shared<E> {
    fn eq(&self, other: &Shared<E>) -> bool {
        self.text() == other.text()
    }
}

impl<E: Expression + ?Sized> Eq for Shared<E> {}

impl<E: Expression + ?Sized> fmt::Debug for Shared<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shared").field(&self.text()).finish()
    }
}

/// An expression over columns, which are given by name and type.
pub trait RowExpression: Expression {
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

/// An expression over columns.
pub type Formula = Shared<dyn RowExpression>;

impl Formula {
    /// Returns the formula that an expression is.
    pub fn new(expression: impl RowExpression + 'static) -> Formula {
        Shared(Arc::new(expression))
    }

    /// Returns true if it uses the column of this name.
    pub fn uses(&self, column: &str) -> bool {
        self.names().iter().any(|name| name.eq_ignore_ascii_case(column))
    }
}
