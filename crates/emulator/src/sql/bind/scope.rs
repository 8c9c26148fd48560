//! The names that an expression can use.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::typed::Typed;
use crate::engine::{Table, Type};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::plan::{Aggregate, Node, Query, Scan, Target};

/// The columns of the query that is being bound, and of those around it.
#[derive(Default)]
pub struct Scope {
    /// The innermost query comes last.
    pub frames: Vec<Frame>,
}

/// The names that one query offers.
#[derive(Default)]
pub struct Frame {
    /// The relations in `FROM`.
    pub relations: Vec<Relation>,
    /// The columns that a `*` shows, in its order, by relation and position.
    pub shown: Vec<(usize, usize)>,
    /// How many slots a row has so far.
    pub width: usize,
    /// The values that the query gets from the query around.
    pub arguments: Vec<Node>,
    /// Once rows are made into groups, how.
    pub groups: Option<Groups>,
    /// The columns of the result that can be named, while they can, by name in lower case; `None`
    /// where several have one name.
    pub aliases: BTreeMap<String, Option<Typed>>,
    /// Behind `DISTINCT`, the columns of the result: no others can be named.
    pub visible: Option<Vec<Node>>,
}

/// How the rows of a query are made into groups.
#[derive(Default)]
pub struct Groups {
    /// Rows with equal keys are one group.
    pub keys: Vec<Typed>,
    /// The values that the parts of the query use which see groups.
    pub aggregates: Vec<Aggregate>,
}

/// One thing in `FROM`.
pub struct Relation {
    /// The query's name for it; empty if it has none.
    pub name: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// True if its name is that of its first column: an element of an array.
    pub is_value: bool,
}

/// A query that `WITH` gives a name to.
#[derive(Clone)]
pub struct Named {
    /// The name.
    pub name: String,
    /// The query.
    pub query: Arc<Query>,
}

/// A column of a [`Relation`].
pub struct Column {
    /// The name; empty if it has none.
    pub name: String,
    /// The type.
    pub value_type: Type,
    /// Where its value is in a row, once it is used.
    pub slot: Option<usize>,
    /// True if another column of the same name stands for it: `USING`.
    pub merged: bool,
}

impl Relation {
    /// Returns a relation with these columns.
    pub fn new(name: &str, columns: impl IntoIterator<Item = (String, Type)>) -> Relation {
        let column = |(name, value_type)| Column { name, value_type, slot: None, merged: false };
        let columns = columns.into_iter().map(column).collect();
        Relation { name: name.to_owned(), columns, is_value: false }
    }

    /// Returns the columns that are used and the slots they have.
    pub fn used(&self) -> Vec<(usize, usize)> {
        let columns = self.columns.iter().enumerate();
        columns.filter_map(|(position, column)| Some((position, column.slot?))).collect()
    }

    /// Returns the names by which a query can name it, or a row's place in it.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let place = self.columns.get(1).filter(|_| self.is_value).map(|column| &*column.name);
        std::iter::once(&*self.name).chain(place).filter(|name| !name.is_empty())
    }

    /// Returns true if this is its name.
    pub fn is_called(&self, name: &str) -> bool {
        !self.name.is_empty() && self.name.eq_ignore_ascii_case(name)
    }

    fn position(&self, name: &str, at: Pos) -> Result<Option<usize>> {
        let mut found = self.columns.iter().enumerate().filter(|(_, column)| {
            !column.name.is_empty() && column.name.eq_ignore_ascii_case(name)
        });
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => Err(ambiguous(name, at)),
            (first, _) => Ok(first.map(|(position, _)| position)),
        }
    }
}

impl Frame {
    /// Returns the frame of a statement over a table; the slots of its key come first.
    pub fn of_table(name: &str, table: &Table) -> Frame {
        let mut relation = Relation::new(name, columns_of(table));
        for (slot, part) in table.primary_key.iter().enumerate() {
            relation.columns[part.position].slot = Some(slot);
        }
        let width = table.primary_key.len();
        let shown = (0..table.columns.len()).map(|position| (0, position)).collect();
        Frame { relations: vec![relation], shown, width, ..Frame::default() }
    }

    /// Returns the target of the writes, once everything is bound that sees it.
    pub fn into_target(self, scan: Scan) -> Target {
        let used = self.relations.first().map(Relation::used).unwrap_or_default();
        Target { scan: Scan { used, ..scan }, width: self.width }
    }

    /// Returns the slot of a column.
    pub fn slot(&mut self, relation: usize, position: usize) -> usize {
        let column = &mut self.relations[relation].columns[position];
        *column.slot.get_or_insert_with(|| {
            self.width += 1;
            self.width - 1
        })
    }

    /// The column that a name without a table stands for.
    pub fn named(&self, name: &str, at: Pos) -> Result<Option<(usize, usize)>> {
        // The name of a row is stronger than those of columns.
        let rows = self.relations.iter().position(|relation| relation.is_called(name));
        if let Some(relation) = rows {
            return match self.relations[relation].is_value {
                true => Ok(Some((relation, 0))),
                false => Err(SqlError::unsupported(at, format_args!("the row {name} as a value"))),
            };
        }
        let mut found = None;
        for (place, relation) in self.relations.iter().enumerate() {
            if let Some(position) = relation.position(name, at)?
                && !relation.columns[position].merged
                && found.replace((place, position)).is_some()
            {
                return Err(ambiguous(name, at));
            }
        }
        Ok(found)
    }
}

fn no_field(name: &str, of: Type, at: Pos) -> SqlError {
    match of {
        Type::Json => SqlError::unsupported(at, format_args!("access to field {name} of a JSON")),
        other => {
            let message = format!("Cannot access field {name} on a value with type {other}");
            SqlError::invalid(at, message)
        }
    }
}

fn ambiguous(name: &str, at: Pos) -> SqlError {
    SqlError::invalid(at, format!("Column name {name} is ambiguous"))
}

/// Returns a table's columns, by name and type.
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
        self.frames.pop().unwrap_or_default()
    }

    /// Returns the query that was started last.
    pub fn innermost(&mut self) -> Option<&mut Frame> {
        self.frames.last_mut()
    }

    /// Returns the column that a name stands for.
    pub fn column(&mut self, table: Option<&str>, name: &str, at: Pos) -> Result<Typed> {
        for depth in (0..self.frames.len()).rev() {
            let frame = &self.frames[depth];
            let Some(table) = table else {
                if let Some(alias) = frame.aliases.get(&name.to_ascii_lowercase()) {
                    let alias = alias.clone().ok_or_else(|| ambiguous(name, at))?;
                    let node = self.handed_on(depth, alias.node);
                    return Ok(Typed { node, ..alias });
                }
                match frame.named(name, at)? {
                    Some((relation, position)) => {
                        return self.column_at(depth, relation, position, at);
                    }
                    None => continue,
                }
            };
            // Where the columns of the result can be named, they hide rows.
            if let Some(alias) = frame.aliases.get(&table.to_ascii_lowercase()) {
                let alias = alias.as_ref().ok_or_else(|| ambiguous(table, at))?;
                return Err(no_field(name, alias.value_type.unwrap_or(Type::Int64), at));
            }
            let called = frame.relations.iter().position(|relation| relation.is_called(table));
            match called {
                Some(relation) if !frame.relations[relation].is_value => {
                    let position = frame.relations[relation].position(name, at)?;
                    let position = position.ok_or_else(|| {
                        let message = format!("Name {name} not found inside {table}");
                        SqlError::invalid(at, message)
                    })?;
                    return self.column_at(depth, relation, position, at);
                }
                _ => {}
            }
            if let Some((relation, position)) = frame.named(table, at)? {
                let value_type = frame.relations[relation].columns[position].value_type;
                return Err(no_field(name, value_type, at));
            }
        }
        Err(SqlError::invalid(at, format!("Unrecognized name: {}", table.unwrap_or(name))))
    }

    /// Returns a column of the query that was started last, by position.
    pub fn own_column(&mut self, relation: usize, position: usize, at: Pos) -> Result<Typed> {
        self.column_at(self.frames.len().saturating_sub(1), relation, position, at)
    }

    fn column_at(
        &mut self,
        depth: usize,
        relation: usize,
        position: usize,
        at: Pos,
    ) -> Result<Typed> {
        let frame = &mut self.frames[depth];
        let column = &frame.relations[relation].columns[position];
        let (name, value_type) = (column.name.clone(), column.value_type);
        let mut node = Node::Column(frame.slot(relation, position));
        if let Some(groups) = &frame.groups {
            let key = groups.keys.iter().position(|key| key.node == node).ok_or_else(|| {
                let message = format!(
                    "Expression references column {name} which is neither grouped nor aggregated"
                );
                SqlError::invalid(at, message)
            })?;
            node = Node::Column(key);
        }
        if let Some(visible) = &frame.visible {
            let place = visible.iter().position(|output| *output == node).ok_or_else(|| {
                let message = format!(
                    "ORDER BY clause expression references column {name} which is not visible \
                     after SELECT DISTINCT"
                );
                SqlError::invalid(at, message)
            })?;
            node = Node::Output(place);
        }
        Ok(Typed::computed(at, value_type, self.handed_on(depth, node)))
    }

    /// A value of the query at this depth, as the innermost query has it: each query in between
    /// hands it on.
    fn handed_on(&mut self, depth: usize, mut node: Node) -> Node {
        for frame in &mut self.frames[depth + 1..] {
            let known = frame.arguments.iter().position(|argument| *argument == node);
            let place = known.unwrap_or(frame.arguments.len());
            if known.is_none() {
                frame.arguments.push(node);
            }
            node = Node::Argument(place);
        }
        node
    }
}
