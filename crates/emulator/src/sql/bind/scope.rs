//! The names that an expression can use.

use super::typed::Typed;
use crate::engine::{Table, Type};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::plan::{Aggregate, Node, Scan, Target};

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
    /// How many slots a row has so far.
    pub width: usize,
    /// The values that the query gets from the query around.
    pub arguments: Vec<Node>,
    /// Where all rows make one, the values of them that the query uses.
    pub aggregates: Option<Vec<Aggregate>>,
    /// The columns of the result that can be named, while they can, by name; `None`
    /// where several have one name.
    pub aliases: Vec<(String, Option<Typed>)>,
}

/// One thing in `FROM`.
pub struct Relation {
    /// The query's name for it; empty if it has none.
    pub name: String,
    /// Its columns.
    pub columns: Vec<Column>,
}

/// A column of a [`Relation`].
pub struct Column {
    /// The name; empty if it has none.
    pub name: String,
    /// The type.
    pub value_type: Type,
    /// Where its value is in a row, once it is used.
    pub slot: Option<usize>,
}

impl Relation {
    /// Returns a relation with these columns.
    pub fn new(name: &str, columns: impl IntoIterator<Item = (String, Type)>) -> Relation {
        let column = |(name, value_type)| Column { name, value_type, slot: None };
        let columns = columns.into_iter().map(column).collect();
        Relation { name: name.to_owned(), columns }
    }

    /// Returns the columns that are used and the slots they have.
    pub fn used(&self) -> Vec<(usize, usize)> {
        let columns = self.columns.iter().enumerate();
        columns.filter_map(|(position, column)| Some((position, column.slot?))).collect()
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
        Frame { relations: vec![relation], width, ..Frame::default() }
    }

    fn alias(&self, name: &str) -> Option<&Option<Typed>> {
        let (_, alias) = self.aliases.iter().find(|(own, _)| own.eq_ignore_ascii_case(name))?;
        Some(alias)
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
        if rows.is_some() {
            return Err(SqlError::unsupported(at, format_args!("the row {name} as a value")));
        }
        let mut found = None;
        for (place, relation) in self.relations.iter().enumerate() {
            if let Some(position) = relation.position(name, at)?
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
                if let Some(alias) = frame.alias(name) {
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
            if let Some(alias) = frame.alias(table) {
                let alias = alias.as_ref().ok_or_else(|| ambiguous(table, at))?;
                return Err(no_field(name, alias.value_type.unwrap_or(Type::Int64), at));
            }
            let called = frame.relations.iter().position(|relation| relation.is_called(table));
            if let Some(relation) = called {
                let position = frame.relations[relation].position(name, at)?;
                let position = position.ok_or_else(|| {
                    let message = format!("Name {name} not found inside {table}");
                    SqlError::invalid(at, message)
                })?;
                return self.column_at(depth, relation, position, at);
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
        let node = Node::Column(frame.slot(relation, position));
        if frame.aggregates.is_some() {
            let message = format!(
                "Expression references column {name} which is neither grouped nor aggregated"
            );
            return Err(SqlError::invalid(at, message));
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
