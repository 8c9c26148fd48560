//! A database of one user, on which statements run one after another.

use spindle_emulator::engine::{Code, Database, Handle, ReadWriteOptions, Result, Value};
use spindle_emulator::sql::{InTransaction, Outcome, Parameters, Prepared, execute, parse_ddl};

const TABLES: &str = "
    CREATE TABLE Orders (
      shard INT64 NOT NULL, id INT64 NOT NULL, note STRING(50), price FLOAT64, paid BOOL, day DATE,
      raw BYTES(10),
    ) PRIMARY KEY (shard, id DESC);
    CREATE TABLE Flags (k STRING(10), v INT64) PRIMARY KEY (k);";

pub struct Memory {
    runtime: tokio::runtime::Runtime,
    database: Database,
}

impl Memory {
    /// Orders and flags, with some rows.
    pub fn with_orders() -> Memory {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        let memory = Memory { runtime, database: Database::default() };
        memory.database.change_schema(&parse_ddl(TABLES).unwrap()).unwrap();
        for text in [
            "INSERT INTO Orders (shard, id, note, price, paid) VALUES
               (1, 1, 'a', 1.5, true), (1, 2, 'b', NULL, false), (1, 3, NULL, 2.5, NULL),
               (2, 1, 'ab', -1.0, true), (2, 5, 'b', 0.0, true)",
            "INSERT Flags (k, v) VALUES ('on', 1), ('off', 0), ('x', NULL)",
        ] {
            memory.run(text).unwrap();
        }
        memory
    }

    /// Runs a statement in a transaction of its own.
    pub fn run(&self, text: &str) -> Result<Outcome> {
        let statement = Prepared::new(text).map_err(|error| error.in_text(text))?;
        self.runtime.block_on(async {
            let id = self.database.begin(&ReadWriteOptions::default());
            let mut access = InTransaction::new(&self.database, Handle::ReadWrite(id));
            let outcome = execute(&statement, &Parameters::default(), &mut access).await;
            match outcome.is_ok() {
                true => drop(self.database.commit(id, &[]).await?),
                false => self.database.rollback(id)?,
            }
            outcome
        })
    }

    /// Returns the rows of a query as a reader writes them: cells with blanks between.
    pub fn rows(&self, text: &str) -> Vec<String> {
        let outcome = self.run(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let row = |row: &Vec<Value>| row.iter().map(shown).collect::<Vec<_>>().join(" ");
        outcome.rows.iter().map(row).collect()
    }

    pub fn one(&self, expr: &str) -> String {
        self.rows(&format!("SELECT {expr}")).remove(0)
    }

    pub fn error(&self, text: &str) -> Code {
        self.run(text).unwrap_err().code()
    }
}

pub fn shown(value: &Value) -> String {
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
