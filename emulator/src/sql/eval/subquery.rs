//! Subqueries: whether they have rows, once those are at hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Evaluated, Evaluation, Rows, Stop};
use crate::engine::{KeyRange, Read, Table, Value};
use crate::sql::keys;
use crate::sql::plan::{Query, Relation, Source};

/// Rows that an evaluation needs before it can go on.
#[derive(Clone, Debug)]
pub struct Missing {
    /// What they are kept under.
    place: Place,
    read: Read,
}

impl Missing {
    /// How to get them.
    pub fn read(&self) -> Read {
        self.read.clone()
    }
}

/// A subquery's number and the keys it looks at.
type Place = (usize, Vec<KeyRange>);

type Row = Vec<Value>;

/// The rows that subqueries have asked for.
///
/// A statement sees the database as it was before it, so what was read once stays true.
#[derive(Debug, Default)]
pub struct Fetched(BTreeMap<Place, Arc<Vec<Row>>>);

impl Fetched {
    /// Keeps the rows that were missing.
    pub fn insert(&mut self, missing: Missing, rows: Vec<Row>) {
        self.0.insert(missing.place, Arc::new(rows));
    }
}

impl Evaluation {
    pub(super) fn exists(&self, query: &Query, outer: &Rows) -> Evaluated<bool> {
        if query.limit == Some(0) {
            return Ok(false);
        }
        let Some(source) = &query.source else { return Ok(query.skip == 0) };
        // Aggregates make one row of however many there are.
        if query.aggregates.is_some() {
            return Ok(query.skip == 0);
        }
        match &source.relation {
            Relation::Fixed(rows) => {
                let rows = rows.iter().map(|row| project(row, source));
                self.more_than(query.skip, rows, query, outer)
            }
            Relation::Table(table) => {
                let rows = self.rows_of(query, source, table, outer)?;
                self.more_than(query.skip, rows.iter(), query, outer)
            }
        }
    }

    fn more_than(
        &self,
        skip: u64,
        rows: impl Iterator<Item: AsRef<[Value]>>,
        query: &Query,
        outer: &Rows,
    ) -> Evaluated<bool> {
        let mut found = 0;
        for row in rows {
            let row = Rows::inside(row.as_ref(), outer);
            let counts = match &query.filter {
                Some(filter) => self.holds(filter, &row)?,
                None => true,
            };
            found += u64::from(counts);
            if found > skip {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn rows_of(
        &self,
        query: &Query,
        source: &Source,
        table: &Table,
        outer: &Rows,
    ) -> Evaluated<Arc<Vec<Row>>> {
        let ranges = keys::ranges(table, source, query.filter.as_ref(), |node| {
            // An expression that uses none of the subquery's own columns sees only the rows around.
            self.value(node, &Rows::inside(&[], outer))
        })?;
        if ranges.is_empty() {
            return Ok(Arc::default());
        }
        let place = (query.number, ranges);
        if let Some(rows) = self.fetched.0.get(&place) {
            return Ok(Arc::clone(rows));
        }
        let read = read(table, source, place.1.clone());
        Err(Stop::Missing(Box::new(Missing { place, read })))
    }
}

/// The columns of a row that a query uses.
pub fn project(row: &[Value], source: &Source) -> Row {
    source.used.iter().map(|position| row.get(*position).cloned().unwrap_or(Value::Null)).collect()
}

/// How to get the rows in these ranges, as far as a query uses them.
pub fn read(table: &Table, source: &Source, keys: Vec<KeyRange>) -> Read {
    let columns = source.used.iter().filter_map(|position| table.columns.get(*position));
    Read {
        table: table.name.clone(),
        index: None,
        columns: columns.map(|column| column.name.clone()).collect(),
        keys,
        limit: None,
        exclusive: false,
    }
}
