//! Queries.

use std::cmp::Ordering;
use std::pin::Pin;

use super::{Execution, Outcome};
use crate::engine::{Result, Type, Value};
use crate::sql::eval::{Row, Rows};
use crate::sql::functions::fold::Fold;
use crate::sql::plan::{Aggregate, OrderBy, Output, Query};

impl Execution<'_, '_> {
    pub(super) async fn query(&mut self, query: &Query) -> Result<Outcome> {
        let rows = self.nested_rows(query, &[], false).await?;
        Ok(Outcome { written: None, columns: columns(&query.outputs), rows })
    }

    /// Returns the rows of a query that gets these values from the query around.
    ///
    /// Queries nest, so the future is on the heap.
    pub(super) fn query_rows<'q>(
        &'q mut self,
        query: &'q Query,
        arguments: &'q [Value],
        first_only: bool,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<Row>>> + Send + 'q>> {
        Box::pin(self.nested_rows(query, arguments, first_only))
    }

    async fn nested_rows(
        &mut self,
        query: &Query,
        arguments: &[Value],
        first_only: bool,
    ) -> Result<Vec<Row>> {
        let skip = usize::try_from(query.skip).unwrap_or(usize::MAX);
        let limit = query.limit.map_or(usize::MAX, |limit| limit.try_into().unwrap_or(usize::MAX));
        let limit = if first_only { limit.min(1) } else { limit };
        if limit == 0 {
            return Ok(Vec::new());
        }
        let mut rows = self.source_rows(query, arguments).await?;
        if let Some(aggregates) = &query.aggregates {
            let mut all = Vec::with_capacity(aggregates.len());
            for aggregate in aggregates {
                all.push(self.folded(aggregate, &rows, arguments).await?);
            }
            rows = vec![all];
        }
        if query.order.is_empty() {
            let mut result = Vec::new();
            for row in rows.into_iter().skip(skip).take(limit) {
                result.push(self.outputs(&query.outputs, &row, arguments).await?);
            }
            return Ok(result);
        }
        let mut shown = Vec::with_capacity(rows.len());
        for row in rows {
            let outputs = self.outputs(&query.outputs, &row, arguments).await?;
            shown.push((row, outputs));
        }
        let shown = self.ordered(shown, &query.order, arguments).await?;
        Ok(shown.into_iter().skip(skip).take(limit).map(|(_, outputs)| outputs).collect())
    }

    /// Returns the shown parts of a row.
    pub(super) async fn outputs(
        &mut self,
        outputs: &[Output],
        row: &[Value],
        arguments: &[Value],
    ) -> Result<Row> {
        let rows = Rows { row, arguments, outputs: &[] };
        let nodes = outputs.iter().map(|output| &output.node);
        self.evaluate(|evaluation| evaluation.values(nodes.clone(), &rows)).await
    }

    async fn folded(
        &mut self,
        aggregate: &Aggregate,
        rows: &[Row],
        arguments: &[Value],
    ) -> Result<Value> {
        let mut values = Vec::with_capacity(rows.len());
        for row in rows {
            let seen = Rows { row, arguments, outputs: &[] };
            let value = self.value(&aggregate.operand, seen).await?;
            values.push(value);
        }
        if aggregate.distinct {
            values = Fold::distinct(values);
        }
        Ok(aggregate.fold.of(values)?)
    }

    /// Rows with what is shown of them, in order.
    async fn ordered(
        &mut self,
        rows: Vec<(Row, Row)>,
        order: &[OrderBy],
        arguments: &[Value],
    ) -> Result<Vec<(Row, Row)>> {
        let mut keyed: Vec<(Row, (Row, Row))> = Vec::with_capacity(rows.len());
        for (row, outputs) in rows {
            let mut key = Vec::with_capacity(order.len());
            for item in order {
                let rows = Rows { row: &row, outputs: &outputs, arguments };
                key.push(self.value(&item.node, rows).await?);
            }
            keyed.push((key, (row, outputs)));
        }
        keyed.sort_by(|(left, _), (right, _)| {
            let items = order.iter().zip(left.iter().zip(right));
            items.fold(Ordering::Equal, |so_far, (item, (left, right))| {
                so_far.then_with(|| match item.descending {
                    false => left.cmp(right),
                    true => right.cmp(left),
                })
            })
        });
        Ok(keyed.into_iter().map(|(_, row)| row).collect())
    }
}

/// Returns the columns of a result.
pub(super) fn columns(outputs: &[Output]) -> Vec<(String, Type)> {
    outputs.iter().map(|output| (output.name.clone(), output.value_type)).collect()
}
