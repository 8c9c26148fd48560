//! `FROM`.

use std::sync::Arc;

use super::Binder;
use super::operands::{not_comparable, pair};
use super::scope::{Frame, Named, Relation, columns_of};
use super::typed::{Typed, unified};
use crate::engine::{BoundIndex, Table, Type, Value};
use crate::sql::ast::{
    Comparison, FromItem, FromStep, Join, JoinCondition, Name, Select, TableName,
};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::information_schema;
use crate::sql::plan::{Node, Query, Scan, Source, Step, Subquery};

/// A step of `FROM` before it is known which of its columns are used.
pub(super) struct Draft {
    origin: Origin,
    keeps_unmatched: bool,
    on: Option<Node>,
}

enum Origin {
    Table(Scan),
    Fixed(Vec<Vec<Value>>),
    Query(Subquery),
    Elements(Node),
}

impl Binder<'_> {
    /// Binds `FROM`; each step sees those before it. The frame that was entered last takes them.
    pub(super) fn from(&mut self, steps: &[FromStep]) -> Result<Vec<Draft>> {
        let mut drafts = Vec::with_capacity(steps.len());
        for step in steps {
            let (relation, origin) = self.relation(step)?;
            self.check_name(&relation, step.at)?;
            let needs_condition = matches!(step.join, Join::Inner | Join::Left)
                && !matches!(origin, Origin::Elements(_));
            if needs_condition && step.condition.is_none() {
                let join = if step.join == Join::Left { "LEFT" } else { "INNER" };
                let message =
                    format!("{join} JOIN must have an immediately following ON or USING clause");
                return Err(SqlError::invalid(step.at, message));
            }
            let frame = self.frame();
            let place = frame.relations.len();
            frame.shown.extend((0..relation.columns.len()).map(|position| (place, position)));
            frame.relations.push(relation);
            let on = match &step.condition {
                None => None,
                Some(JoinCondition::On(condition)) => {
                    Some(self.condition(condition, "JOIN ON clause")?)
                }
                Some(JoinCondition::Using(columns)) => Some(self.using(columns)?),
            };
            let keeps_unmatched = step.join == Join::Left;
            drafts.push(Draft { origin, keeps_unmatched, on });
        }
        Ok(drafts)
    }

    fn check_name(&mut self, new: &Relation, at: Pos) -> Result<()> {
        let mut names: Vec<&str> =
            self.frame().relations.iter().flat_map(Relation::names).collect();
        for name in new.names() {
            if names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                let message = format!("Duplicate table alias {name} in the same FROM clause");
                return Err(SqlError::invalid(at, message));
            }
            names.push(name);
        }
        Ok(())
    }

    fn relation(&mut self, step: &FromStep) -> Result<(Relation, Origin)> {
        match &step.item {
            FromItem::Table(name) => self.table_or_array(name),
            FromItem::Unnest { array, alias, offset } => {
                let array = self.expr(array)?;
                elements(array, alias.as_deref(), offset.as_deref())
            }
            FromItem::Query { query, alias } => {
                let subquery = self.closed_subquery(query)?;
                let name = alias.as_deref().unwrap_or_default();
                Ok((relation_of(name, &subquery.query), Origin::Query(subquery)))
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

    fn table_or_array(&mut self, name: &TableName) -> Result<(Relation, Origin)> {
        let called = name.alias.as_ref().unwrap_or(&name.name);
        if let Some(schema) = &name.schema {
            if schema.eq_ignore_ascii_case(information_schema::NAME) {
                if self.now.is_none() {
                    // The rows may be many, and a kept plan would keep them.
                    return Err(SqlError::value_needed(name.at));
                }
                let view = information_schema::view(&name.name, self.schema)
                    .ok_or_else(|| information_schema::missing(name))?;
                return Ok((Relation::new(called, view.columns), Origin::Fixed(view.rows)));
            }
            let known = |frame: &Frame| {
                frame.relations.iter().any(|relation| relation.name.eq_ignore_ascii_case(schema))
            };
            if self.scope.frames.iter().any(known) {
                let array = self.scope.column(Some(schema), &name.name, name.at)?;
                return elements(array, Some(called), None);
            }
            return Err(SqlError::unsupported(name.at, format_args!("the schema {schema}")));
        }
        let named =
            self.named.iter().rev().find(|named| named.name.eq_ignore_ascii_case(&name.name));
        if let Some(Named { query, .. }) = named.cloned() {
            let relation = relation_of(called, &query);
            return Ok((relation, Origin::Query(Subquery { query, arguments: Vec::new() })));
        }
        let table = self.table(name)?;
        let origin = Origin::Table(self.scan(name, table)?);
        Ok((Relation::new(called, columns_of(table)), origin))
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

    /// Binds `USING`: the columns on both sides are equal, and are one from here on.
    fn using(&mut self, columns: &[Name]) -> Result<Node> {
        let mut conditions = Vec::with_capacity(columns.len());
        let mut first = Vec::with_capacity(columns.len());
        for Name { text, at } in columns {
            let frame = self.frame();
            let last = frame.relations.len() - 1;
            let right = frame.relations.pop();
            let left = frame.named(text, *at);
            frame.relations.extend(right);
            let Some((relation, position)) = left? else {
                let message =
                    format!("Column {text} in USING clause not found on left side of join");
                return Err(SqlError::invalid(*at, message));
            };
            if !first.contains(&(relation, position)) {
                first.push((relation, position));
            }
            let left = self.scope.own_column(relation, position, *at)?;
            let relation = &self.frame().relations[last];
            if !relation.is_value && relation.is_called(text) {
                let message = format!(
                    "Name {text} in USING clause is a table alias, not a column name, on right \
                     side of join"
                );
                return Err(SqlError::invalid(*at, message));
            }
            let mut places = (0..relation.columns.len())
                .filter(|place| relation.columns[*place].name.eq_ignore_ascii_case(text));
            let Some(place) = places.next() else {
                let message =
                    format!("Column {text} in USING clause not found on right side of join");
                return Err(SqlError::invalid(*at, message));
            };
            let right = self.scope.own_column(last, place, *at)?;
            self.frame().relations[last].columns[place].merged = true;
            let Some((nodes, Some(value_type))) = unified(vec![left, right])? else {
                let message = format!("Column {text} in USING has different types on both sides");
                return Err(SqlError::invalid(*at, message));
            };
            if !value_type.is_comparable() {
                return Err(not_comparable("=", value_type, *at));
            }
            let [left, right] = pair(nodes);
            conditions.push(Node::Compare(Comparison::Equal, Box::new(left), Box::new(right)));
        }
        // Behind a column that stands for two come the rest of the left side and of the right.
        let Frame { shown, relations, .. } = self.frame();
        shown.retain(|at| !first.contains(at) && !relations[at.0].columns[at.1].merged);
        shown.splice(0..0, first);
        Ok(Node::And(conditions))
    }

    fn frame(&mut self) -> &mut Frame {
        if self.scope.frames.is_empty() {
            self.scope.enter(Frame::default());
        }
        let last = self.scope.frames.len() - 1;
        &mut self.scope.frames[last]
    }
}

impl Draft {
    /// Returns the step, now that it is known what is used of it.
    pub(super) fn step(self, relation: &Relation) -> Step {
        let used = relation.used();
        let source = match self.origin {
            Origin::Table(scan) => Source::Table(Scan { used, ..scan }),
            Origin::Fixed(rows) => Source::Fixed { rows: Arc::new(rows), used },
            Origin::Query(subquery) => Source::Query { subquery, used },
            Origin::Elements(array) => Source::Elements { array, used },
        };
        Step { source, keeps_unmatched: self.keeps_unmatched, on: self.on }
    }
}

fn relation_of(name: &str, query: &Query) -> Relation {
    let columns = query.outputs.iter().map(|output| (output.name.clone(), output.value_type));
    Relation::new(name, columns)
}

fn elements(array: Typed, alias: Option<&str>, offset: Option<&str>) -> Result<(Relation, Origin)> {
    let Some(Type::Array(element)) = array.value_type else {
        return Err(super::array::no_array(&array));
    };
    let alias = alias.unwrap_or_default();
    let mut columns = vec![(alias.to_owned(), *element)];
    columns.extend(offset.map(|offset| (offset.to_owned(), Type::Int64)));
    let mut relation = Relation::new(alias, columns);
    relation.is_value = true;
    Ok((relation, Origin::Elements(array.node)))
}
