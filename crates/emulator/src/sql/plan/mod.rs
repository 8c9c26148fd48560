//! Statements whose names and types are settled, ready to be evaluated.

mod query;
mod write;

use std::sync::Arc;

pub use query::{Aggregate, Node, OrderBy, Output, Query, Scan, Source, Step, Subquery, Use};
pub use write::{Action, InsertRows, Insertion, NewValue, Target, Write};

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// One that reads.
    Query(Arc<Query>),
    /// One that writes.
    Write(Box<Write>),
}
