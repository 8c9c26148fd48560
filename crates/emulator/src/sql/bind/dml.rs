//! Statements that write.

use std::sync::Arc;

use super::Binder;
use super::call::PENDING_COMMIT_TIMESTAMP;
use super::scope::{Frame, Relation};
use super::typed::{Origin, Typed};
use crate::engine::{Code, Column, Table, Type, Value};
use crate::sql::ast::{
    Assignment, Delete, Expr, ExprKind, Insert, Item, Name, Select, Source, TableName, Update,
};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::parser::parse_expression;
use crate::sql::plan::{Action, InsertRows, Insertion, NewValue, Node, Output, Write};

impl Binder<'_> {
    /// Binds an `INSERT`.
    pub(super) fn insert(&mut self, insert: &Insert) -> Result<Write> {
        let table = self.table(&insert.table)?;
        let positions = inserted_columns(table, &insert.columns)?;
        let columns: Vec<&Column> = positions.iter().map(|at| &table.columns[*at]).collect();
        let rows = match &insert.source {
            Source::Values(rows) => {
                let mut bound = Vec::with_capacity(rows.len());
                for row in rows {
                    let (found, expected) = (row.values.len(), columns.len());
                    if found != expected {
                        let message = format!(
                            "Inserted row has wrong column count; Has {found}, expected {expected}"
                        );
                        return Err(SqlError::invalid(row.at, message));
                    }
                    let values = columns.iter().zip(&row.values);
                    let values: Result<_> =
                        values.map(|(column, value)| self.new_value(column, value)).collect();
                    bound.push(values?);
                }
                check_commit_timestamps(&bound)?;
                InsertRows::Values(bound)
            }
            Source::Query(select) => self.inserted_query(&columns, select, &insert.table)?,
        };
        let mut defaults = Vec::new();
        let columns_in = |key| (0..table.columns.len()).filter(move |it| table.is_key(*it) == key);
        // A row that is there keeps its key, whoever said what it is.
        for position in columns_in(true).chain(columns_in(false)) {
            if !positions.contains(&position)
                && let Some(value) = self.default_of(&table.columns[position])?
            {
                defaults.push((position, value));
            }
        }
        self.enter_table(&insert.table, table);
        let insertion = Insertion { mode: insert.mode, columns: positions, rows, defaults };
        self.write(&insert.table, table, Action::Insert(insertion), &insert.returning)
    }

    /// Has a statement read what generated columns are made of, if it shows one of them.
    fn use_inputs(&mut self, table: &Table) {
        let Some(frame) = self.scope.innermost() else { return };
        let Some(relation) = frame.relations.first() else { return };
        let shown = relation.used();
        if !shown.iter().any(|(position, _)| table.columns[*position].generated.is_some()) {
            return;
        }
        for (position, column) in table.columns.iter().enumerate() {
            let makes = |other: &Column| {
                other.generated.as_ref().is_some_and(|formula| formula.uses(&column.name))
            };
            if table.columns.iter().any(makes) {
                frame.slot(0, position);
            }
        }
    }

    /// Binds `THEN RETURN` over the table that was entered.
    fn returning(&mut self, table: &Table, items: &[Item]) -> Result<Option<Vec<Output>>> {
        if items.is_empty() {
            return Ok(None);
        }
        for item in items {
            // It would see the rows as they were, or as they will be.
            if let Item::Expr { expr, .. } = item
                && let Some(at) = first_subquery(expr)
            {
                return Err(SqlError::unsupported(at, "a subquery in THEN RETURN"));
            }
        }
        let outputs = self.outputs(items)?;
        self.use_inputs(table);
        Ok(Some(outputs.into_iter().map(Output::from).collect()))
    }

    /// Returns the value of a column that has a default and isn't mentioned.
    fn default_of(&mut self, column: &Column) -> Result<Option<NewValue>> {
        let Some(default) = &column.default else { return Ok(None) };
        if let Some(lack) = default.lack() {
            let name = &column.name;
            let message = format!("Not supported here: {lack}, for column {name}");
            return Err(SqlError::unplaced(Code::Unimplemented, message));
        }
        let expr = parse_expression(default.text())?;
        self.new_value(column, &expr).map(Some)
    }

    fn inserted_query(
        &mut self,
        columns: &[&Column],
        select: &Select,
        table: &TableName,
    ) -> Result<InsertRows> {
        let (query, outputs) = self.query(select)?;
        let (found, expected) = (outputs.len(), columns.len());
        if found != expected {
            let message =
                format!("Inserted row has wrong column count; Has {found}, expected {expected}");
            return Err(SqlError::invalid(table.at, message));
        }
        let mut query = (*query).clone();
        for ((column, typed), output) in columns.iter().zip(outputs).zip(&mut query.outputs) {
            // Of literals, only those of no type take that of the column.
            let is_any = typed.value_type.is_none()
                || matches!(&typed.node, Node::Constant(Value::Array { values, .. }) if values.is_empty())
                || matches!(typed.origin, Origin::Parameter);
            let origin = if is_any { typed.origin } else { Origin::Computed };
            output.node = assigned(column, Typed { origin, at: table.at, ..typed })?;
            output.value_type = column.column_type;
        }
        Ok(InsertRows::Query(Arc::new(query)))
    }

    /// Binds an `UPDATE`.
    pub(super) fn update(&mut self, update: &Update) -> Result<Write> {
        let table = self.table(&update.table)?;
        self.enter_table(&update.table, table);
        let filter = self.condition(&update.filter, "WHERE clause")?;
        let mut assignments: Vec<(usize, NewValue)> = Vec::new();
        for Assignment { table: qualifier, column: name, value } in &update.assignments {
            let called = update.table.alias.as_ref().unwrap_or(&update.table.name);
            if let Some(Name { text, at }) = qualifier
                && !text.eq_ignore_ascii_case(called)
            {
                return Err(match table.position(text) {
                    Some(_) => SqlError::unsupported(*at, "access to a field"),
                    None => SqlError::invalid(*at, format!("Unrecognized name: {text}")),
                });
            }
            if qualifier.is_none() && name.text.eq_ignore_ascii_case(called) {
                let message = "UPDATE ... SET does not support updating the entire row";
                return Err(SqlError::invalid(name.at, message));
            }
            let position = table.position(&name.text).ok_or_else(|| {
                SqlError::invalid(name.at, format!("Unrecognized name: {}", name.text))
            })?;
            let column = &table.columns[position];
            if table.is_key(position) {
                let message = format!("Cannot UPDATE primary key column {}", column.name);
                return Err(SqlError::invalid(name.at, message));
            }
            if assignments.iter().any(|(assigned, _)| *assigned == position) {
                let message = format!("Update item {} assigned more than once", column.name);
                return Err(SqlError::invalid(name.at, message));
            }
            if column.generated.is_some() {
                let message =
                    format!("Cannot UPDATE value on non-writable column: {}", column.name);
                return Err(SqlError::invalid(name.at, message));
            }
            assignments.push((position, self.new_value(column, value)?));
        }
        let action = Action::Update { filter, assignments };
        self.write(&update.table, table, action, &update.returning)
    }

    /// Binds a `DELETE`.
    pub(super) fn delete(&mut self, delete: &Delete) -> Result<Write> {
        let table = self.table(&delete.table)?;
        self.enter_table(&delete.table, table);
        let filter = self.condition(&delete.filter, "WHERE clause")?;
        self.write(&delete.table, table, Action::Delete { filter }, &delete.returning)
    }

    /// Binds the rest of a statement that writes to the table that was entered, and leaves it.
    fn write(
        &mut self,
        name: &TableName,
        table: &Arc<Table>,
        action: Action,
        returning: &[Item],
    ) -> Result<Write> {
        let returning = self.returning(table, returning)?;
        let target = self.scope.leave().into_target(self.scan(name, table)?);
        Ok(Write { target, action, returning })
    }

    fn enter_table(&mut self, name: &TableName, table: &Table) {
        let called = name.alias.as_ref().unwrap_or(&name.name);
        self.scope.enter(Frame::of_table(called, table));
    }

    /// Binds an expression over the columns of one row, and says which of them it uses and where
    /// their values are expected.
    pub fn formula(
        &mut self,
        columns: &[(&str, Type)],
        expr: &Expr,
        value_type: Type,
    ) -> Result<(Node, Vec<(usize, usize)>)> {
        if let Some(at) = first_subquery(expr) {
            let message = "a subquery cannot be used in an expression of a schema";
            return Err(SqlError::invalid(at, message));
        }
        let columns = columns.iter().map(|(name, value_type)| ((*name).to_owned(), *value_type));
        let relation = Relation::new("", columns);
        self.scope.enter(Frame { relations: vec![relation], ..Frame::default() });
        let typed = self.expr(expr)?;
        let found = typed.type_name();
        let typed = typed.coerced(value_type)?.ok_or_else(|| {
            let message =
                format!("the expression has type {found}, where {value_type} is expected");
            SqlError::invalid(expr.at, message)
        })?;
        let frame = self.scope.leave();
        Ok((typed.node, frame.relations.first().map(Relation::used).unwrap_or_default()))
    }

    /// Binds what a column gets.
    pub fn new_value(&mut self, column: &Column, value: &Expr) -> Result<NewValue> {
        if value.kind == ExprKind::Default {
            let null = NewValue::Computed(Node::Constant(Value::Null));
            return Ok(self.default_of(column)?.unwrap_or(null));
        }
        if let ExprKind::Call { function, arguments, .. } = &value.kind
            && function.eq_ignore_ascii_case(PENDING_COMMIT_TIMESTAMP)
            && arguments.is_empty()
            && column.column_type == Type::Timestamp
        {
            return Ok(NewValue::CommitTimestamp);
        }
        let typed = self.expr(value)?;
        assigned(column, typed).map(NewValue::Computed)
    }
}

/// Refuses rows of which some have the commit timestamp in a column where others have a value.
fn check_commit_timestamps(rows: &[Vec<NewValue>]) -> Result<()> {
    let differs = |place: &usize| {
        let mut pending = rows.iter().map(|row| row[*place] == NewValue::CommitTimestamp);
        let first = pending.next();
        pending.any(|next| Some(next) != first)
    };
    let Some(place) = (0..rows.first().map_or(0, Vec::len)).find(differs) else { return Ok(()) };
    let column = place + 1;
    let message = format!(
        "Invalid use of PENDING_COMMIT_TIMESTAMP in column {column}. All values for the column must \
         be PENDING_COMMIT_TIMESTAMP() or none of them."
    );
    Err(SqlError::unplaced(Code::InvalidArgument, message))
}

/// Where the first subquery of an expression stands, if it has one.
pub fn first_subquery(expr: &Expr) -> Option<Pos> {
    if let ExprKind::Subquery { .. } | ExprKind::InQuery { .. } = expr.kind {
        return Some(expr.at);
    }
    let mut found = None;
    expr.kind.for_each_child(&mut |child| found = found.or_else(|| first_subquery(child)));
    found
}

fn inserted_columns(table: &Table, names: &[Name]) -> Result<Vec<usize>> {
    let mut positions: Vec<usize> = Vec::with_capacity(names.len());
    for name in names {
        let position = table.position(&name.text).ok_or_else(|| {
            let message = format!("Column {} is not present in table {}", name.text, table.name);
            SqlError::invalid(name.at, message)
        })?;
        if positions.contains(&position) {
            let column = &table.columns[position].name;
            let message = format!("INSERT has columns with duplicate name: {column}");
            return Err(SqlError::invalid(name.at, message));
        }
        if table.columns[position].generated.is_some() {
            let column = &table.columns[position].name;
            let message = format!("Cannot INSERT value on non-writable column: {column}");
            return Err(SqlError::invalid(name.at, message));
        }
        positions.push(position);
    }
    Ok(positions)
}

fn assigned(column: &Column, typed: Typed) -> Result<Node> {
    let (at, found) = (typed.at, typed.type_name());
    match typed.coerced(column.column_type)? {
        Some(typed) => Ok(typed.node),
        None => {
            let (name, expected) = (&column.name, column.column_type);
            let message = format!(
                "Value has type {found} which cannot be inserted into column {name}, which has \
                 type {expected}"
            );
            Err(SqlError::invalid(at, message))
        }
    }
}
