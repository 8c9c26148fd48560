//! How a statement would be executed, without doing so.

use std::collections::BTreeSet;

use super::from::{conjuncts, used};
use super::path::{covers, strength, ways};
use super::query::columns;
use crate::engine::{KeyRange, Result, Type, Value};
use crate::sql::access::Access;
use crate::sql::eval::{Evaluation, Rows};
use crate::sql::keys;
use crate::sql::params::Parameters;
use crate::sql::plan::{InsertRows, Node, Output, Plan, Query, Scan, Source, Step, Write};
use crate::sql::prepared::Prepared;

/// The plan of a statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// The columns of what it would show, as in [`super::Outcome::Rows`].
    pub columns: Vec<(String, Type)>,
    /// The operators. The first is the one at the top; each stands before those below it.
    pub operators: Vec<Operator>,
}

/// One step of what a statement would do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Operator {
    /// The name of the step: `Index Scan`, `Sort`.
    pub name: &'static str,
    /// With what: names and values.
    pub details: Vec<(&'static str, String)>,
    /// Where it gets its rows: places in [`Explained::operators`].
    pub inputs: Vec<usize>,
}

/// Says how a statement would be executed. Reads and locks nothing.
///
/// # Errors
/// Those that executing it would find before it reads anything.
pub fn explain<A: Access>(
    statement: &Prepared,
    parameters: &Parameters,
    access: &A,
) -> Result<Explained> {
    let plan = statement.plan_for_these(access.schema(), parameters, access.now())?;
    let mut drawing = Drawing::default();
    let shown: &[Output] = match &plan {
        Plan::Query(query) => {
            let top = drawing.add("Serialize Result", Vec::new(), None);
            drawing.query(query, Some(top))?;
            &query.outputs
        }
        Plan::Write(write) => drawing.write(write)?.unwrap_or_default(),
    };
    Ok(Explained { columns: columns(shown), operators: drawing.operators })
}

#[derive(Default)]
struct Drawing {
    operators: Vec<Operator>,
}

impl Drawing {
    fn add(
        &mut self,
        name: &'static str,
        details: Vec<(&'static str, String)>,
        above: Option<usize>,
    ) -> usize {
        let place = self.operators.len();
        self.operators.push(Operator { name, details, inputs: Vec::new() });
        if let Some(above) = above {
            self.operators[above].inputs.push(place);
        }
        place
    }

    fn query(&mut self, query: &Query, mut above: Option<usize>) -> Result<()> {
        let parts = [
            ("Limit", query.limit.is_some() || query.skip > 0),
            ("Sort", !query.order.is_empty()),
            ("Distinct", query.distinct),
            ("Aggregate", query.grouping.is_some()),
        ];
        for (name, _) in parts.into_iter().filter(|(_, is_there)| *is_there) {
            above = Some(self.add(name, Vec::new(), above));
        }
        self.source(&query.steps, query.filter.as_ref(), query.width, above)
    }

    fn source(
        &mut self,
        steps: &[Step],
        filter: Option<&Node>,
        width: usize,
        mut above: Option<usize>,
    ) -> Result<()> {
        if filter.is_some() {
            above = Some(self.add("Filter", Vec::new(), above));
        }
        let mut conditions = Vec::new();
        filter.into_iter().for_each(|filter| conjuncts(filter, &mut conditions));
        self.steps(steps, &conditions, width, above)
    }

    /// Draws the joins, the last one at the top.
    fn steps(
        &mut self,
        steps: &[Step],
        filter: &[&Node],
        width: usize,
        above: Option<usize>,
    ) -> Result<()> {
        let Some((last, before)) = steps.split_last() else {
            self.add("Unit Relation", Vec::new(), above);
            return Ok(());
        };
        let mut above = above;
        if !before.is_empty() {
            let name = if last.keeps_unmatched { "Outer Apply" } else { "Cross Apply" };
            above = Some(self.add(name, Vec::new(), above));
            self.steps(before, filter, width, above)?;
        }
        let known: BTreeSet<usize> =
            before.iter().flat_map(|step| used(&step.source)).map(|(_, slot)| *slot).collect();
        match &last.source {
            Source::Table(scan) => {
                let mut conditions: Vec<&Node> = last.on.iter().collect();
                if !last.keeps_unmatched {
                    conditions.extend(filter);
                }
                self.scan(scan, &conditions, &known, width, above)
            }
            Source::Query { subquery, .. } => self.query(&subquery.query, above),
            Source::Fixed { .. } => {
                let details = vec![("scan_target", "INFORMATION_SCHEMA".to_owned())];
                self.add("Scan", details, above);
                Ok(())
            }
            Source::Elements { .. } => {
                self.add("Array Unnest", Vec::new(), above);
                Ok(())
            }
        }
    }

    fn scan(
        &mut self,
        scan: &Scan,
        conditions: &[&Node],
        known: &BTreeSet<usize>,
        width: usize,
        above: Option<usize>,
    ) -> Result<()> {
        let row = vec![Value::Null; width];
        let rows = Rows { row: &row, ..Rows::default() };
        let is_known = |slot| known.contains(&slot);
        let mut best = None;
        for way in ways(scan, conditions)? {
            // A condition that needs rows of its own to be known restricts nothing before they are
            // read.
            let ranges =
                keys::ranges((scan, way), conditions, &is_known, &Evaluation::default(), &rows)
                    .unwrap_or_else(|_| vec![KeyRange::all()]);
            let strength = strength(scan, way, &ranges);
            if best.as_ref().is_none_or(|(most, _)| strength > *most) {
                best = Some((strength, way));
            }
        }
        let Some((strength, way)) = best else { return Ok(()) };
        let mut details = match way {
            Some(index) => {
                vec![("scan_type", "IndexScan".into()), ("scan_target", index.entries.name.clone())]
            }
            None => {
                vec![("scan_type", "TableScan".into()), ("scan_target", scan.table.name.clone())]
            }
        };
        if strength == 0 {
            details.push(("Full scan", "true".into()));
        }
        let mut above = above;
        if way.is_some_and(|index| !covers(index, scan)) {
            let details = vec![("scan_target", scan.table.name.clone())];
            above = Some(self.add("Table Lookup", details, above));
        }
        self.add(if way.is_some() { "Index Scan" } else { "Table Scan" }, details, above);
        Ok(())
    }

    fn write<'p>(&mut self, write: &'p Write) -> Result<Option<&'p [Output]>> {
        let (name, target) = match write {
            Write::Insert(insertion) => ("Insert", &insertion.target),
            Write::Update { target, .. } => ("Update", target),
            Write::Delete { target, .. } => ("Delete", target),
        };
        let details = vec![("table", target.scan.table.name.clone())];
        let top = self.add(name, details, None);
        match write {
            Write::Insert(insertion) => {
                match &insertion.rows {
                    InsertRows::Values(_) => drop(self.add("Unit Relation", Vec::new(), Some(top))),
                    InsertRows::Query(query) => self.query(query, Some(top))?,
                }
                Ok(insertion.returning.as_deref())
            }
            Write::Update { target, filter, returning, .. }
            | Write::Delete { target, filter, returning } => {
                let source = Source::Table(target.scan.clone());
                let step = Step { source, keeps_unmatched: false, on: None };
                self.source(&[step], Some(filter), target.width, Some(top))?;
                Ok(returning.as_deref())
            }
        }
    }
}
