//! A database of one user, on which statements run one after another.

use spindle_emulator::engine::{Code, Database, Handle, Read, ReadWriteOptions, Result, Value};
use spindle_emulator::sql::{InTransaction, Outcome, Parameters, Prepared, execute, parse_ddl};

const TABLES: &str = "
    CREATE TABLE Orders (
      shard INT64 NOT NULL, id INT64 NOT NULL, note STRING(50), price FLOAT64, paid BOOL, day DATE,
      raw BYTES(10),
    ) PRIMARY KEY (shard, id DESC);
    CREATE TABLE Flags (k STRING(10), v INT64) PRIMARY KEY (k);";

pub struct Memory {
    pub runtime: tokio::runtime::Runtime,
    pub database: Database,
}

impl Memory {
    pub fn new(ddl: &str) -> Memory {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        let memory = Memory { runtime, database: Database::default() };
        memory.change(ddl);
        memory
    }

    /// Orders and flags, with some rows.
    pub fn with_orders() -> Memory {
        let memory = Memory::new(TABLES);
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

    pub fn change(&self, ddl: &str) {
        self.database.change_schema(&parse_ddl(ddl).unwrap()).unwrap();
    }

    /// Runs a statement in a transaction of its own.
    pub fn run(&self, text: &str) -> Result<Outcome> {
        let statement = Prepared::new(text).map_err(|error| error.in_text(text))?;
        self.execute(&statement, &Parameters::default())
    }

    /// As [`run`](Memory::run).
    pub fn execute(&self, statement: &Prepared, parameters: &Parameters) -> Result<Outcome> {
        self.recorded(statement, parameters).0
    }

    /// As [`execute`](Memory::execute), with what the statement has read.
    pub fn recorded(
        &self,
        statement: &Prepared,
        parameters: &Parameters,
    ) -> (Result<Outcome>, Vec<Read>) {
        self.runtime.block_on(async {
            let id = self.database.begin(&ReadWriteOptions::default());
            let mut access = InTransaction::new(&self.database, Handle::ReadWrite(id));
            access.record();
            let outcome = execute(statement, parameters, &mut access).await;
            let reads = access.recorded().to_vec();
            match outcome.is_ok() {
                true => drop(self.database.commit(id, &[]).await.unwrap()),
                false => self.database.rollback(id).unwrap(),
            }
            (outcome, reads)
        })
    }

    /// Returns what a statement has read.
    pub fn reads_of(&self, text: &str) -> Vec<Read> {
        let (outcome, reads) = self.recorded(&Prepared::new(text).unwrap(), &Parameters::default());
        outcome.unwrap_or_else(|error| panic!("{text}: {error}"));
        reads
    }

    /// Returns how many rows a statement has written.
    pub fn write(&self, text: &str) -> u64 {
        let outcome = self.run(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        outcome.written.unwrap()
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
