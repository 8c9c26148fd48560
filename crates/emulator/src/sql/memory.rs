//! A database of one user in memory, to evaluate statements on.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::ast::Statement;
use super::{Access, Outcome, Parameters, Prepared, execute, parse_ddl};
use crate::engine::{
    Cell, Code, Error, Key, Mutation, Read, Result, Schema, Table, Timestamp, Value, WriteKind,
};

/// The rows of a table, each with all its cells.
type Rows = BTreeMap<Key, Vec<Value>>;

/// The database, and what was read from it.
#[derive(Debug)]
pub struct Memory {
    schema: Arc<Schema>,
    tables: BTreeMap<String, Rows>,
    /// The value of `CURRENT_TIMESTAMP`, and of a commit timestamp.
    pub now: Timestamp,
    /// Every read so far.
    pub reads: Vec<Read>,
}

impl Memory {
    /// Returns a database with the tables of a DDL text.
    pub fn new(ddl: &str) -> Memory {
        let mut schema = Schema::default();
        for change in parse_ddl(ddl).expect("the test's DDL is right") {
            schema.apply(&change).expect("the test's DDL fits together");
        }
        let now = Timestamp::parse_rfc3339("2026-01-02T03:04:05.000006Z");
        let now = now.expect("this is a timestamp");
        let schema = Arc::new(schema);
        Memory { schema, tables: BTreeMap::new(), now, reads: Vec::new() }
    }

    /// Parses and executes a statement.
    pub fn run(&mut self, text: &str, parameters: &Parameters) -> Result<Outcome> {
        let statement = Prepared::new(text).map_err(|error| error.in_text(text))?;
        let outcome = self.execute(&statement, parameters);
        if matches!(statement.statement(), Statement::Query(_)) && !text.contains("UUID") {
            // A plan for any values gives what one for these values does.
            let for_these = statement.planned_for_these(&self.schema, parameters);
            let reads = self.reads.len();
            assert_eq!(self.execute(&for_these, parameters), outcome, "{text}");
            self.reads.truncate(reads);
        }
        outcome
    }

    /// Executes a statement.
    pub fn execute(&mut self, statement: &Prepared, parameters: &Parameters) -> Result<Outcome> {
        let mut execution = pin!(execute(statement, parameters, self));
        loop {
            // Nothing here waits: at most, it lets others have their turn.
            let polled = execution.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(outcome) = polled {
                return outcome;
            }
        }
    }

    /// The entries of an index.
    fn entries(&mut self, name: &str) -> Rows {
        let index = self.schema.index(name).expect("the index is there");
        let (entries, definition) = (&index.entries, &index.definition);
        let table = found(&self.schema, &definition.table).expect("its table is there");
        let column =
            |row: &Vec<Value>, name: &str| row[table.position(name).expect("it has it")].clone();
        let mut rows = Rows::new();
        for row in self.tables.entry(table.name.clone()).or_default().values() {
            let entry: Vec<Value> = entries.columns.iter().map(|c| column(row, &c.name)).collect();
            let hidden =
                definition.null_filtered && entry[..index.key_parts()].iter().any(Value::is_null);
            if !hidden {
                rows.insert(entries.key_of_row(&entry), entry);
            }
        }
        rows
    }

    fn apply(&mut self, mutation: Mutation) -> Result<()> {
        match mutation {
            Mutation::Write { kind, table, columns, cells } => {
                let table = found(&self.schema, &table)?;
                let rows = self.tables.entry(table.name.clone()).or_default();
                let positions = columns.iter().filter_map(|column| table.position(column));
                let mut row = vec![Value::Null; table.columns.len()];
                let written: Vec<_> = positions.zip(cells).collect();
                let now = self.now;
                let set = |row: &mut Vec<Value>| {
                    for (position, cell) in &written {
                        row[*position] = match cell {
                            Cell::Value(value) => value.clone(),
                            Cell::CommitTimestamp => Value::Timestamp(now),
                        };
                    }
                };
                for (position, column) in table.columns.iter().enumerate() {
                    if let Some(default) = &column.default
                        && let Ok(Cell::Value(value)) = default.value(column, now)
                    {
                        row[position] = value;
                    }
                }
                set(&mut row);
                let key = table.key_of_row(&row);
                match (kind, rows.get_mut(&key)) {
                    (WriteKind::Insert | WriteKind::InsertOrUpdate, None) => {
                        drop(rows.insert(key, row))
                    }
                    (WriteKind::Update | WriteKind::InsertOrUpdate, Some(row)) => set(row),
                    (WriteKind::Update, None) => {
                        return Err(Error::new(Code::NotFound, key.to_string()));
                    }
                    _ => return Err(Error::new(Code::AlreadyExists, key.to_string())),
                }
            }
            Mutation::Delete { table, keys } => {
                let rows = self.tables.entry(table).or_default();
                rows.retain(|key, _| !keys.iter().any(|range| range.contains(key)));
            }
        }
        Ok(())
    }
}

fn found<'a>(schema: &'a Schema, table: &str) -> Result<&'a Table> {
    let found = schema.table(table).map(|table| &**table);
    found.ok_or_else(|| Error::table_not_found(table))
}

impl Access for Memory {
    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    async fn read(&mut self, read: Read) -> Result<Vec<Vec<Value>>> {
        if let Some(index) = &read.index {
            let rows = self.entries(index);
            self.reads.push(read.clone());
            let entries = &self.schema.index(index).expect("the index is there").entries;
            let cells = |row: &Vec<Value>| {
                let column =
                    |name: &String| row[entries.position(name).expect("it keeps this")].clone();
                read.columns.iter().map(column).collect()
            };
            let wanted =
                rows.iter().filter(|(key, _)| read.keys.iter().any(|range| range.contains(key)));
            return Ok(wanted.map(|(_, row)| cells(row)).collect());
        }
        let table = found(&self.schema, &read.table)?;
        let positions: Vec<usize> =
            read.columns.iter().filter_map(|column| table.position(column)).collect();
        let rows = self.tables.entry(table.name.clone()).or_default().iter();
        let wanted = rows.filter(|(key, _)| read.keys.iter().any(|range| range.contains(key)));
        let cells = |row: &Vec<Value>| positions.iter().map(|at| row[*at].clone()).collect();
        let result = wanted.map(|(_, row)| cells(row)).collect();
        self.reads.push(read);
        Ok(result)
    }

    async fn write(&mut self, mutations: Vec<Mutation>) -> Result<()> {
        let before = self.tables.clone();
        for mutation in mutations {
            if let Err(error) = self.apply(mutation) {
                self.tables = before;
                return Err(error);
            }
        }
        Ok(())
    }
}
