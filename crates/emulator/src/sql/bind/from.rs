//! `FROM`.

use std::sync::Arc;

use super::Binder;
use super::scope::{Frame, Relation, columns_of};
use crate::engine::{BoundIndex, Table};
use crate::sql::ast::{FromItem, FromStep, Join, Name, Select, TableName};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::information_schema;
use crate::sql::plan::{Query, Scan, Source, Step, Subquery};

impl Binder<'_> {
    /// Binds `FROM`; each step sees those before it. The frame that was entered last takes them. The columns
    /// that are used of them are left to whoever has bound the rest.
    pub(super) fn from(&mut self, steps: &[FromStep]) -> Result<Vec<Step>> {
        let mut bound = Vec::with_capacity(steps.len());
        for step in steps {
            let (relation, source) = self.relation(step)?;
            self.check_name(&relation, step.at)?;
            let needs_condition = matches!(step.join, Join::Inner | Join::Left);
            if needs_condition && step.condition.is_none() {
                let join = if step.join == Join::Left { "LEFT" } else { "INNER" };
                let message =
                    format!("{join} JOIN must have an immediately following ON or USING clause");
                return Err(SqlError::invalid(step.at, message));
            }
            let frame = self.frame();
            frame.relations.push(relation);
            let on = match &step.condition {
                None => None,
                Some(condition) => Some(self.condition(condition, "JOIN ON clause")?),
            };
            bound.push(Step { source, keeps_unmatched: step.join == Join::Left, on });
        }
        Ok(bound)
    }

    fn check_name(&mut self, new: &Relation, at: Pos) -> Result<()> {
        let name = &new.name;
        match self.frame().relations.iter().any(|known| known.is_called(name)) {
            true => {
                let message = format!("Duplicate table alias {name} in the same FROM clause");
                Err(SqlError::invalid(at, message))
            }
            false => Ok(()),
        }
    }

    fn relation(&mut self, step: &FromStep) -> Result<(Relation, Source)> {
        match &step.item {
            FromItem::Table(name) => self.named_table(name),
            FromItem::Query { query, alias } => {
                let subquery = self.closed_subquery(query)?;
                let name = alias.as_deref().unwrap_or_default();
                let relation = relation_of(name, &subquery.query);
                Ok((relation, Source::Query { subquery, used: Vec::new() }))
            }
        }
    }

    /// Binds a query that sees the queries around the one that it stands in, but not that one.
    fn closed_subquery(&mut self, select: &Select) -> Result<Subquery> {
        let hidden = std::mem::take(&mut self.frame().relations);
        let bound = self.subquery(select);
        self.frame().relations = hidden;
        bound.map(|(subquery, _)| subquery)
    }

    fn named_table(&mut self, name: &TableName) -> Result<(Relation, Source)> {
        let called = name.alias.as_ref().unwrap_or(&name.name);
        if let Some(schema) = &name.schema {
            if schema.eq_ignore_ascii_case(information_schema::NAME) {
                if self.now.is_none() {
                    // The rows may be many, and a kept plan would keep them.
                    return Err(SqlError::value_needed(name.at));
                }
                let view = information_schema::view(&name.name, self.schema)
                    .ok_or_else(|| information_schema::missing(name))?;
                let source = Source::Fixed { rows: Arc::new(view.rows), used: Vec::new() };
                return Ok((Relation::new(called, view.columns), source));
            }
            return Err(SqlError::unsupported(name.at, format_args!("the schema {schema}")));
        }
        let table = self.table(name)?;
        let source = Source::Table(self.scan(name, table)?);
        Ok((Relation::new(called, columns_of(table)), source))
    }

    /// Returns how a table may be read for a statement.
    pub(super) fn scan(&self, name: &TableName, table: &Arc<Table>) -> Result<Scan> {
        let indexes = || self.schema.indexes_of(&table.name).cloned();
        let (indexes, is_forced) = match &name.index {
            None => (indexes().collect(), false),
            Some(forced) if forced.text.eq_ignore_ascii_case("_BASE_TABLE") => (Vec::new(), true),
            Some(Name { text, at }) => {
                let is_meant =
                    |index: &Arc<BoundIndex>| index.definition.name.eq_ignore_ascii_case(text);
                let index = indexes().find(is_meant).ok_or_else(|| {
                    if let Some(kept) = self.schema.kept_as(text) {
                        return SqlError::unsupported(
                            *at,
                            format_args!("the {} {text}", kept.kind),
                        );
                    }
                    let table = &table.name;
                    let message =
                        format!("The table {table} does not have a secondary index called {text}");
                    SqlError::invalid(*at, message)
                })?;
                (vec![index], true)
            }
        };
        Ok(Scan { table: Arc::clone(table), used: Vec::new(), indexes, is_forced })
    }

    fn frame(&mut self) -> &mut Frame {
        if self.scope.frames.is_empty() {
            self.scope.enter(Frame::default());
        }
        let last = self.scope.frames.len() - 1;
        &mut self.scope.frames[last]
    }
}

fn relation_of(name: &str, query: &Query) -> Relation {
    let columns = query.outputs.iter().map(|output| (output.name.clone(), output.value_type));
    Relation::new(name, columns)
}
