//! The names that an expression can use.

use super::typed::Typed;
use crate::engine::{Table, Type};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::plan::{Node, Relation, Source};

/// The columns of the query that is being bound, and of those around it.
#[derive(Default)]
pub struct Scope {
    /// The innermost query comes last.
    frames: Vec<Frame>,
}

/// What one query has to offer.
pub struct Frame {
    /// The table's alias or name.
    name: String,
    /// The columns' names and types.
    columns: Vec<(String, Type)>,
    relation: Option<Relation>,
    /// The columns used so far, by position.
    used: Vec<usize>,
    /// Whether the rows have been made into one, so that none is at hand.
    pub folded: bool,
}

impl Frame {
    /// The frame of a query without `FROM`.
    pub fn empty() -> Frame {
        Frame {
            name: String::new(),
            columns: Vec::new(),
            relation: None,
            used: Vec::new(),
            folded: false,
        }
    }

    /// The frame of a query over these columns.
    pub fn new(name: &str, columns: Vec<(String, Type)>, relation: Relation) -> Frame {
        Frame { name: name.to_owned(), columns, relation: Some(relation), ..Frame::empty() }
    }

    /// The frame of a statement over a table, whose key columns are read first in any case.
    pub fn with_key(name: &str, table: &Table) -> Frame {
        let used = table.primary_key.iter().map(|part| part.position).collect();
        Frame { used, ..Frame::new(name, columns_of(table), Relation::Table(table.clone())) }
    }

    /// Whether this is what the statement calls the table.
    pub fn is_called(&self, name: &str) -> bool {
        self.relation.is_some() && self.name.eq_ignore_ascii_case(name)
    }

    /// The columns' names and types.
    pub fn columns(&self) -> &[(String, Type)] {
        &self.columns
    }

    /// What has to be read.
    pub fn into_source(self) -> Option<Source> {
        Some(Source { relation: self.relation?, used: self.used })
    }

    fn position(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|(name, _)| name.eq_ignore_ascii_case(column))
    }

    /// The place of a column among those that are read.
    fn index(&mut self, position: usize) -> usize {
        self.used.iter().position(|used| *used == position).unwrap_or_else(|| {
            self.used.push(position);
            self.used.len() - 1
        })
    }
}

/// A table's columns, by name and type.
pub fn columns_of(table: &Table) -> Vec<(String, Type)> {
    table.columns.iter().map(|column| (column.name.clone(), column.column_type)).collect()
}

impl Scope {
    /// Starts on a query.
    pub fn enter(&mut self, frame: Frame) {
        self.frames.push(frame);
    }

    /// Ends the query that was started last.
    pub fn leave(&mut self) -> Frame {
        self.frames.pop().unwrap_or_else(Frame::empty)
    }

    /// The query that was started last.
    pub fn innermost(&mut self) -> Option<&mut Frame> {
        self.frames.last_mut()
    }

    /// The column that a name stands for.
    pub fn column(&mut self, table: Option<&str>, name: &str, at: Pos) -> Result<Typed> {
        let frames = self.frames.iter().enumerate().rev();
        let found = match table {
            None => frames.filter_map(|(depth, frame)| Some((depth, frame.position(name)?))).next(),
            Some(table) => {
                let called = frames.into_iter().find(|(_, frame)| frame.is_called(table));
                let Some((depth, frame)) = called else {
                    return Err(self.unrecognized(table, at));
                };
                let position = frame.position(name).ok_or_else(|| {
                    SqlError::invalid(at, format!("Name {name} not found inside {table}"))
                })?;
                Some((depth, position))
            }
        };
        let Some((depth, position)) = found else { return Err(self.unrecognized(name, at)) };
        self.column_at(depth, position, at)
    }

    /// A column of the query that was started last, by position.
    pub fn own_column(&mut self, position: usize, at: Pos) -> Result<Typed> {
        self.column_at(self.frames.len().saturating_sub(1), position, at)
    }

    fn column_at(&mut self, depth: usize, position: usize, at: Pos) -> Result<Typed> {
        let outward = self.frames.len() - 1 - depth;
        let frame = &mut self.frames[depth];
        let (name, value_type) = &frame.columns[position];
        let value_type = *value_type;
        if frame.folded {
            let message = format!(
                "Expression references column {name} which is neither grouped nor aggregated"
            );
            return Err(SqlError::invalid(at, message));
        }
        let index = frame.index(position);
        Ok(Typed::computed(at, value_type, Node::Column { outward, index }))
    }

    fn unrecognized(&self, name: &str, at: Pos) -> SqlError {
        match self.frames.iter().any(|frame| frame.is_called(name)) {
            true => SqlError::unsupported(at, format_args!("the table {name} as a value")),
            false => SqlError::invalid(at, format!("Unrecognized name: {name}")),
        }
    }
}
