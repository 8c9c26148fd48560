//! The results of statements.

mod indexes;
mod kept;
mod keys;

use super::*;
use crate::engine::{Code, Database, Handle, KeyRange, Read, ReadWriteOptions};
use crate::sql::ast::Statement;
use crate::sql::{Parameter, parse_ddl};

const TABLES: &str = "
    CREATE TABLE Orders (
      shard INT64 NOT NULL, id INT64 NOT NULL, note STRING(50), price FLOAT64, paid BOOL, day DATE,
      raw BYTES(10),
    ) PRIMARY KEY (shard, id DESC);
    CREATE TABLE Flags (k STRING(10), v INT64) PRIMARY KEY (k);";

fn world() -> Memory {
    let mut world = Memory::new(TABLES);
    world.write(
        "INSERT INTO Orders (shard, id, note, price, paid) VALUES
           (1, 1, 'a', 1.5, true), (1, 2, 'b', NULL, false), (1, 3, NULL, 2.5, NULL),
           (2, 1, 'ab', -1.0, true), (2, 5, 'b', 0.0, true)",
    );
    world.write("INSERT Flags (k, v) VALUES ('on', 1), ('off', 0), ('x', NULL)");
    world.reads.clear();
    world
}

/// A database of one user, and what was read from it.
struct Memory {
    runtime: tokio::runtime::Runtime,
    database: Database,
    reads: Vec<Read>,
}

impl Memory {
    fn new(ddl: &str) -> Memory {
        let database = Database::default();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().expect("it starts");
        let memory = Memory { runtime, database, reads: Vec::new() };
        memory.change(ddl);
        memory
    }

    fn change(&self, ddl: &str) {
        let changes = parse_ddl(ddl).expect("it is right");
        self.database.change_schema(&changes).expect("it fits");
    }

    /// Runs a statement in a transaction of its own.
    fn run(&mut self, text: &str, parameters: &Parameters) -> Result<Outcome> {
        let statement = Prepared::new(text).map_err(|error| error.in_text(text))?;
        let outcome = self.execute(&statement, parameters);
        if matches!(statement.statement(), Statement::Query(_)) && !text.contains("UUID") {
            // A plan for any values gives what one for these values does.
            let for_these = statement.planned_for_these(&self.database.schema(), parameters);
            let reads = self.reads.len();
            assert_eq!(self.execute(&for_these, parameters), outcome, "{text}");
            self.reads.truncate(reads);
        }
        outcome
    }

    fn execute(&mut self, statement: &Prepared, parameters: &Parameters) -> Result<Outcome> {
        let Memory { runtime, database, reads } = self;
        runtime.block_on(async {
            let id = database.begin(&ReadWriteOptions::default());
            let mut access = InTransaction::new(database, Handle::ReadWrite(id));
            let outcome = execute(statement, parameters, &mut access).await;
            reads.append(&mut access.reads);
            match outcome.is_ok() {
                true => drop(database.commit(id, &[]).await?),
                false => database.rollback(id)?,
            }
            outcome
        })
    }

    fn write(&mut self, text: &str) -> u64 {
        match self.run(text, &Parameters::default()) {
            Ok(Outcome { written: Some(count), .. }) => count,
            other => panic!("{text}: {other:?}"),
        }
    }

    /// The rows of a query as a reader writes them: cells with blanks between.
    fn rows_with(&mut self, text: &str, parameters: &Parameters) -> Vec<String> {
        match self.run(text, parameters) {
            Ok(Outcome { written: None, rows, .. }) => {
                rows.iter().map(|row| row.iter().map(shown).collect::<Vec<_>>().join(" ")).collect()
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    fn rows(&mut self, text: &str) -> Vec<String> {
        self.rows_with(text, &Parameters::default())
    }

    /// The key ranges that a statement has read.
    fn ranges_of(&mut self, text: &str) -> String {
        self.reads.clear();
        self.run(text, &Parameters::default()).unwrap_or_else(|error| panic!("{text}: {error}"));
        let ranges = self.reads.iter().flat_map(|read| &read.keys);
        let ranges = ranges.map(|range| match *range == KeyRange::all() {
            true => "all".to_owned(),
            false => format!("{} to {}", place(&range.start), place(&range.end)),
        });
        ranges.collect::<Vec<_>>().join("; ")
    }
}

fn place(key: &crate::engine::Key) -> String {
    let values: Vec<String> = key.values().map(shown).collect();
    let behind = if key.0.len() > values.len() { "+" } else { "" };
    format!("({}){behind}", values.join(","))
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Bool(value) => value.to_string(),
        Value::Int64(value) => value.to_string(),
        Value::Float64(value) => format!("{value:?}"),
        Value::String(value) => value.clone(),
        Value::Bytes(value) => format!("{value:?}"),
        Value::Date(value) => value.to_string(),
        Value::Timestamp(value) => value.to_string(),
        Value::Numeric(value) => value.to_string(),
        Value::Json(value) => value.to_string(),
        Value::Array { values, .. } => {
            format!("[{}]", values.iter().map(shown).collect::<Vec<_>>().join(","))
        }
    }
}

#[test]
fn exists_looks_into_another_table_by_its_key() {
    let mut world = world();
    let ranges = world.ranges_of(
        "UPDATE Orders SET note = 'late' WHERE shard = 1 AND id = 1
         AND EXISTS (SELECT * FROM Flags WHERE k = 'on' AND v = 1)",
    );
    assert_eq!(ranges, "(1,1) to (1,1)+; (on) to (on)+");
    assert_eq!(
        world.ranges_of(
            "SELECT 1 FROM Flags WHERE k = 'on' AND false AND EXISTS (SELECT 1 FROM Orders)"
        ),
        "(on) to (on)+",
        "what isn't come to isn't read"
    );
}
