//! `FROM` and `WHERE`: the rows that a query starts from.

use std::mem;

use super::Execution;
use super::path::{Ask, Path, has_all, read, sort_by_key};
use crate::engine::{Key, KeyRange, Result, Value};
use crate::sql::eval::{Evaluation, Row, Rows};
use crate::sql::plan::{Node, Query, Scan, Source, Step};

/// The candidates that can come to the rows so far.
enum Candidates {
    /// The same to each of them.
    Same(Vec<Row>),
    /// Of these, the rows that have their key in the ranges of the row.
    ByKey { rows: Vec<(Key, Row)>, ranges: Vec<Vec<KeyRange>> },
}

impl Execution<'_, '_> {
    /// Returns the rows of `FROM` that pass `WHERE`.
    pub(super) async fn source_rows(
        &mut self,
        query: &Query,
        arguments: &[Value],
    ) -> Result<Vec<Row>> {
        let mut waiting: Vec<&Node> = query.filter.iter().flat_map(Node::conjuncts).collect();
        let mut rows = vec![vec![Value::Null; query.width]];
        let mut known = Vec::new();
        for (place, step) in query.steps.iter().enumerate() {
            let candidates =
                self.candidates(query, step, &rows, &waiting, &known, arguments).await?;
            let mut now = mem::take(&mut waiting);
            if place + 1 < query.steps.len() {
                known.extend(step.source.used().iter().map(|(_, slot)| *slot));
                // Each condition is looked at as soon as all that it is about is there.
                (now, waiting) = now.into_iter().partition(|it| is_about(it, &known));
            }
            rows = self.joined(step, rows, candidates, &now, arguments).await?;
        }
        Ok(rows)
    }

    async fn candidates(
        &mut self,
        query: &Query,
        step: &Step,
        rows: &[Row],
        filter: &[&Node],
        known: &[usize],
        arguments: &[Value],
    ) -> Result<Candidates> {
        match &step.source {
            Source::Fixed { rows, .. } => Ok(Candidates::Same(rows.to_vec())),
            Source::Query { subquery, .. } => {
                let seen = Rows { arguments, ..Rows::default() };
                let found = self.evaluate(|known| known.rows_of(subquery, false, &seen)).await?;
                Ok(Candidates::Same(found.to_vec()))
            }
            Source::Table(scan) => {
                let mut conditions: Vec<&Node> = step.on.iter().collect();
                if !step.keeps_unmatched {
                    conditions.extend(filter);
                }
                let varies = !known.is_empty()
                    && conditions.iter().any(|condition| {
                        condition
                            .any(&|node| matches!(node, Node::Column(slot) if known.contains(slot)))
                    });
                let distinct_rows = if varies { rows } else { &rows[..rows.len().min(1)] };
                let path = self.path(scan, &conditions, known, distinct_rows, arguments).await?;
                self.scanned(query, scan, path, varies).await
            }
        }
    }

    /// Reads what is on this path, where there is some for each row if they vary.
    async fn scanned(
        &mut self,
        query: &Query,
        scan: &Scan,
        Path { index, mut ranges }: Path<'_>,
        vary: bool,
    ) -> Result<Candidates> {
        let keys = match vary {
            true => KeyRange::merged(ranges.iter().flatten().cloned().collect()),
            false => ranges.pop().unwrap_or_default(),
        };
        if keys.is_empty() {
            return Ok(Candidates::Same(Vec::new()));
        }
        let limit = if vary { None } else { row_limit(query) };
        let ask = Ask { limit, exclusive: query.for_update };
        let mut rows = match index {
            _ if !vary && has_all(scan, index, ask) => {
                let rows = self.access.read(read(scan, index, keys, ask)).await?;
                return Ok(Candidates::Same(rows));
            }
            Some(index) => self.rows_by_index(scan, index, keys, ask).await?,
            None => self.rows_with_keys(scan, keys, ask).await?,
        };
        if !vary {
            return Ok(Candidates::Same(rows.into_iter().map(|(_, row)| row).collect()));
        }
        sort_by_key(&mut rows);
        Ok(Candidates::ByKey { rows, ranges })
    }

    /// The rows so far, each with what comes to it.
    async fn joined(
        &mut self,
        step: &Step,
        rows: Vec<Row>,
        candidates: Candidates,
        filter: &[&Node],
        arguments: &[Value],
    ) -> Result<Vec<Row>> {
        let mut joined = Vec::new();
        let used = step.source.used();
        for (place, row) in rows.into_iter().enumerate() {
            let own = match &candidates {
                Candidates::Same(rows) => rows.iter().collect(),
                Candidates::ByKey { rows, ranges } => in_ranges(rows, &ranges[place]),
            };
            let mut is_matched = false;
            let is_dense = matches!(step.source, Source::Table(_));
            for candidate in own {
                let mut new = row.clone();
                for (index, (position, slot)) in used.iter().enumerate() {
                    let from = if is_dense { index } else { *position };
                    new[*slot] = candidate.get(from).cloned().unwrap_or(Value::Null);
                }
                if let Some(on) = &step.on
                    && !self.holds(on, Rows { row: &new, arguments, outputs: &[] }).await?
                {
                    continue;
                }
                is_matched = true;
                self.keep_if(new, filter, arguments, &mut joined).await?;
            }
            if !is_matched && step.keeps_unmatched {
                self.keep_if(row, filter, arguments, &mut joined).await?;
            }
        }
        Ok(joined)
    }

    async fn keep_if(
        &mut self,
        row: Row,
        filter: &[&Node],
        arguments: &[Value],
        kept: &mut Vec<Row>,
    ) -> Result<()> {
        let seen = Rows { row: &row, arguments, outputs: &[] };
        let passes = |evaluation: &Evaluation| {
            for condition in filter {
                if !evaluation.holds(condition, &seen)? {
                    return Ok(false);
                }
            }
            evaluation.count_steps(1)?;
            evaluation.count_bytes(&row)?;
            Ok(true)
        };
        if self.evaluate(passes).await? {
            kept.push(row);
        }
        Ok(())
    }

    /// Returns the rows of a table that pass `filter`, as far as a statement that writes uses them.
    pub(super) async fn rows_of(
        &mut self,
        scan: &Scan,
        width: usize,
        filter: &Node,
    ) -> Result<Vec<Row>> {
        let step = Step { source: Source::Table(scan.clone()), keeps_unmatched: false, on: None };
        let query =
            Query { steps: vec![step], width, filter: Some(filter.clone()), ..Query::default() };
        self.source_rows(&query, &[]).await
    }
}

/// How many rows a scan needs, if it is all that a query is about.
fn row_limit(query: &Query) -> Option<usize> {
    let is_plain = query.steps.len() == 1
        && query.filter.is_none()
        && query.aggregates.is_none()
        && query.order.is_empty();
    let limit = query.limit.filter(|_| is_plain)?;
    usize::try_from(limit.saturating_add(query.skip)).ok()
}

/// Returns true if a condition is about nothing but what is known.
fn is_about(condition: &Node, known: &[usize]) -> bool {
    !condition.is_unsteady()
        && !condition.any(&|node| matches!(node, Node::Column(slot) if !known.contains(slot)))
}

fn in_ranges<'a>(rows: &'a [(Key, Row)], ranges: &[KeyRange]) -> Vec<&'a Row> {
    let mut found = Vec::new();
    for range in ranges {
        let first = rows.partition_point(|(key, _)| *key < range.start);
        found.extend(
            rows[first..].iter().take_while(|(key, _)| *key < range.end).map(|(_, row)| row),
        );
    }
    found
}
