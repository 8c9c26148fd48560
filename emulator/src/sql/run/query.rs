//! Queries.

use std::cmp::Ordering;

use super::{Execution, Outcome};
use crate::engine::{Result, Type, Value};
use crate::sql::access::Access;
use crate::sql::eval::{Rows, fold, project};
use crate::sql::plan::{Aggregate, Node, OrderBy, Output, Query, Relation};

type Row = Vec<Value>;

impl<A: Access> Execution<'_, A> {
    pub(super) async fn query(&mut self, query: &Query) -> Result<Outcome> {
        let rows = self.query_rows(query).await?;
        Ok(Outcome::Rows { columns: columns(&query.outputs), rows })
    }

    pub(super) async fn query_rows(&mut self, query: &Query) -> Result<Vec<Row>> {
        let mut rows = self.source_rows(query).await?;
        if let Some(aggregates) = &query.aggregates {
            rows = vec![self.folded(aggregates, &rows).await?];
        }
        let rows = self.ordered(rows, &query.order).await?;
        let skip = usize::try_from(query.skip).unwrap_or(usize::MAX);
        let limit = query.limit.map_or(usize::MAX, |limit| limit.try_into().unwrap_or(usize::MAX));
        let mut result = Vec::new();
        for row in rows.into_iter().skip(skip).take(limit) {
            result.push(self.outputs(&query.outputs, &row).await?);
        }
        Ok(result)
    }

    /// What is shown of a row.
    pub(super) async fn outputs(&mut self, outputs: &[Output], row: &[Value]) -> Result<Row> {
        let mut values = Vec::with_capacity(outputs.len());
        for output in outputs {
            values.push(self.value(&output.node, row).await?);
        }
        Ok(values)
    }

    /// The value of an expression on a row.
    pub(super) async fn value(&mut self, node: &Node, row: &[Value]) -> Result<Value> {
        self.evaluate(|evaluation| evaluation.value(node, &Rows::only(row))).await
    }

    async fn folded(&mut self, aggregates: &[Aggregate], rows: &[Row]) -> Result<Row> {
        let mut folded = Vec::with_capacity(aggregates.len());
        for Aggregate { fold: with, distinct, operand } in aggregates {
            let mut values = Vec::with_capacity(rows.len());
            for row in rows {
                values.push(self.value(operand, row).await?);
            }
            folded.push(fold(*with, *distinct, values)?);
        }
        Ok(folded)
    }

    async fn source_rows(&mut self, query: &Query) -> Result<Vec<Row>> {
        let filter = query.filter.as_ref();
        match &query.source {
            None => Ok(vec![Vec::new()]),
            Some(source) => match &source.relation {
                Relation::Fixed(rows) => {
                    let rows = rows.iter().map(|row| project(row, source)).collect();
                    self.passing(rows, filter).await
                }
                Relation::Table(table) => self.rows(table, source, filter).await,
            },
        }
    }

    async fn ordered(&mut self, rows: Vec<Row>, order: &[OrderBy]) -> Result<Vec<Row>> {
        if order.is_empty() {
            return Ok(rows);
        }
        let mut keyed: Vec<(Row, Row)> = Vec::with_capacity(rows.len());
        for row in rows {
            let mut key = Vec::with_capacity(order.len());
            for item in order {
                key.push(self.value(&item.node, &row).await?);
            }
            keyed.push((key, row));
        }
        keyed.sort_by(|(left, _), (right, _)| {
            let items = order.iter().zip(left.iter().zip(right));
            items.fold(Ordering::Equal, |so_far, (item, (left, right))| {
                so_far.then_with(|| item.compare(left, right))
            })
        });
        Ok(keyed.into_iter().map(|(_, row)| row).collect())
    }
}

/// The columns of a result. A NULL that could have any type is shown as an INT64.
pub(super) fn columns(outputs: &[Output]) -> Vec<(String, Type)> {
    let column = |output: &Output| (output.name.clone(), output.value_type.unwrap_or(Type::Int64));
    outputs.iter().map(column).collect()
}

impl OrderBy {
    fn compare(&self, left: &Value, right: &Value) -> Ordering {
        match (left.is_null(), right.is_null()) {
            (false, false) if self.descending => right.cmp(left),
            (false, false) => left.cmp(right),
            (left, right) if self.nulls_first => right.cmp(&left),
            (left, right) => left.cmp(&right),
        }
    }
}
