//! Queries.

use std::cmp::Ordering;

use super::{Execution, Outcome};
use crate::engine::{Result, Type, Value};
use crate::sql::access::Access;
use crate::sql::eval::{Rows, project};
use crate::sql::plan::{OrderBy, Query, Relation};

type Row = Vec<Value>;

impl<A: Access> Execution<'_, A> {
    pub(super) async fn query(&mut self, query: &Query) -> Result<Outcome> {
        let rows = self.query_rows(query).await?;
        let columns = query.outputs.iter();
        // A NULL that could have any type is shown as the first of them.
        let columns = columns
            .map(|output| (output.name.clone(), output.value_type.unwrap_or(Type::Int64)))
            .collect();
        Ok(Outcome::Rows { columns, rows })
    }

    pub(super) async fn query_rows(&mut self, query: &Query) -> Result<Vec<Row>> {
        let mut rows = self.source_rows(query).await?;
        if let Some(counts) = &query.counts {
            let mut totals = vec![0_i64; counts.len()];
            for row in &rows {
                for (total, operand) in totals.iter_mut().zip(counts) {
                    let value = match operand {
                        None => Value::Bool(true),
                        Some(operand) => {
                            self.evaluate(|evaluation| evaluation.value(operand, &Rows::only(row)))
                                .await?
                        }
                    };
                    *total += i64::from(!value.is_null());
                }
            }
            rows = vec![totals.into_iter().map(Value::Int64).collect()];
        }
        let rows = self.ordered(rows, &query.order).await?;
        let skip = usize::try_from(query.skip).unwrap_or(usize::MAX);
        let limit = query.limit.map_or(usize::MAX, |limit| limit.try_into().unwrap_or(usize::MAX));
        let mut result = Vec::new();
        for row in rows.into_iter().skip(skip).take(limit) {
            let mut outputs = Vec::with_capacity(query.outputs.len());
            for output in &query.outputs {
                let value = self
                    .evaluate(|evaluation| evaluation.value(&output.node, &Rows::only(&row)))
                    .await?;
                outputs.push(value);
            }
            result.push(outputs);
        }
        Ok(result)
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
                let value = self
                    .evaluate(|evaluation| evaluation.value(&item.node, &Rows::only(&row)))
                    .await?;
                key.push(value);
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
