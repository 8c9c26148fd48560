//! The emulator's side.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Value as Json, json};

use crate::answer::Answer;
use crate::engine::{Code, Database, Error, ReadWriteOptions, TransactionId, Value};
use crate::sql::{InTransaction, Outcome, Parameter, Parameters, Prepared, execute, parse_ddl};

/// A table on both sides.
pub struct Table {
    pub name: &'static str,
    pub columns: &'static [(&'static str, &'static str)],
    pub key: &'static [&'static str],
    /// The values of each row, as expressions.
    pub rows: &'static [&'static str],
}

/// The tables that statements are about.
pub const TABLES: &[Table] = &[
    Table {
        name: "t",
        columns: &[
            ("a", "INT64"),
            ("b", "STRING"),
            ("c", "FLOAT64"),
            ("d", "BOOL"),
            ("e", "DATE"),
            ("f", "BYTES"),
            ("g", "TIMESTAMP"),
            ("h", "NUMERIC"),
            ("i", "JSON"),
            ("j", "ARRAY<INT64>"),
            ("k", "ARRAY<STRING>"),
        ],
        key: &["a", "b"],
        rows: &[
            "1, 'x', 1.5, TRUE, DATE '2026-01-02', b'x', TIMESTAMP '2026-01-01 00:00:00Z', NUMERIC '1.5', JSON '{\"a\":1}', [1, 2], ['x']",
            "1, 'y', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
            "2, 'xyz', -0.0, FALSE, DATE '0001-01-01', b'', TIMESTAMP '0001-01-01 00:00:00Z', NUMERIC '-99999999999999999999999999999.999999999', JSON '[]', [], []",
            "-3, '', 1e308, TRUE, DATE '9999-12-31', b'\\xff\\x00a', TIMESTAMP '9999-12-31 23:59:59.999999999Z', NUMERIC '0.000000001', JSON '\"x\"', [NULL, 3], ['x', NULL, 'é']",
            "9223372036854775807, 'ä%_', CAST('nan' AS FLOAT64), FALSE, DATE '2024-02-29', b'ab', TIMESTAMP '1969-12-31 23:59:59.5Z', NUMERIC '7', JSON 'null', [2, 2], ['', 'ab']",
        ],
    },
    Table {
        name: "u",
        columns: &[("a", "INT64"), ("v", "STRING"), ("u", "INT64"), ("w", "FLOAT64")],
        key: &["a"],
        rows: &["1, 'x', 3, 1.0", "2, 'xyz', NULL, NULL", "3, NULL, 1, -2.5", "5, 'x', 1, 0.0"],
    },
];

/// The parameters that statements can name: their types and values.
pub const PARAMETERS: &[(&str, &str, &str)] = &[
    ("yes", "BOOL", "TRUE"),
    ("no_bool", "BOOL", "NULL"),
    ("one", "INT64", "1"),
    ("two", "INT64", "2"),
    ("least", "INT64", "-9223372036854775808"),
    ("no_int64", "INT64", "NULL"),
    ("half", "FLOAT64", "0.5"),
    ("nan", "FLOAT64", "'nan'"),
    ("no_float64", "FLOAT64", "NULL"),
    ("seven", "NUMERIC", "7"),
    ("no_numeric", "NUMERIC", "NULL"),
    ("x", "STRING", "'x'"),
    ("wide", "STRING", "'Ää%'"),
    ("no_string", "STRING", "NULL"),
    ("raw", "BYTES", "b'\\xff\\x00a'"),
    ("no_bytes", "BYTES", "NULL"),
    ("day", "DATE", "'2024-02-29'"),
    ("no_date", "DATE", "NULL"),
    ("moment", "TIMESTAMP", "'1969-12-31 23:59:59.5Z'"),
    ("no_timestamp", "TIMESTAMP", "NULL"),
    ("document", "JSON", "JSON '{\"a\": [1, 2.5]}'"),
    ("no_json", "JSON", "NULL"),
    ("numbers", "ARRAY<INT64>", "[1, NULL, 2]"),
    ("no_numbers", "ARRAY<INT64>", "NULL"),
    ("texts", "ARRAY<STRING>", "['x', 'xyz']"),
    ("no_texts", "ARRAY<STRING>", "[]"),
];

/// The emulator's engine and SQL, without its network.
pub struct Ours {
    runtime: tokio::runtime::Runtime,
    database: Database,
    parameters: Parameters,
}

impl Ours {
    /// With the tables and their rows.
    pub fn new() -> Result<Ours, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let database = runtime.block_on(filled()).map_err(|error| error.to_string())?;
        let parameters = runtime.block_on(parameters(&database)).map_err(|e| e.to_string())?;
        Ok(Ours { runtime, database, parameters })
    }

    /// Returns the emulator's answer to a statement. Its writes are undone.
    pub fn ask(&self, text: &str) -> Answer {
        let answer = catch_unwind(AssertUnwindSafe(|| self.runtime.block_on(self.answer(text))));
        answer.unwrap_or(Answer::Crash)
    }

    async fn answer(&self, text: &str) -> Answer {
        if let Some(kept) = Kept::of(text) {
            return match kept.answer(&self.database, &self.parameters).await {
                Ok(answer) => answer,
                Err(error) => refused(&error),
            };
        }
        let statement = match Prepared::new(text) {
            Ok(statement) => statement,
            Err(error) => return refused(&error.in_text(text)),
        };
        let transaction = self.database.begin(&ReadWriteOptions::default());
        let mut access = InTransaction::read_write(&self.database, transaction);
        let outcome = execute(&statement, &self.parameters, &mut access).await;
        if let Err(error) = self.database.rollback(transaction) {
            return Answer::Evaluation(error.to_string());
        }
        match outcome {
            Ok(outcome) => rows(outcome),
            Err(error) => refused(&error),
        }
    }
}

/// An expression that a table keeps, or that a statement writes.
///
/// Google's side has no generated columns and no CHECK, and runs no statement that writes. It is asked
/// what they come to: a query of the expression on each row, or of the rows that a condition concerns.
pub struct Kept<'a> {
    role: Role,
    kind: &'a str,
    expression: &'a str,
}

/// The place where an expression is kept or written.
#[derive(Clone, Copy, PartialEq)]
pub enum Role {
    /// A generated column.
    Generated,
    /// A CHECK.
    Check,
    /// The value that an UPDATE sets in a column of this name; the condition stands behind it.
    Update,
    /// The condition of a DELETE.
    Delete,
}

/// The text before the expression, the text behind it, and the mark before its type or column.
const KEPT: [(Role, &str, &str, &str); 4] = [
    (Role::Generated, "SELECT a, b, (", ") FROM t", " /* generated "),
    (Role::Check, "SELECT a, b FROM t WHERE (", ") IS NOT FALSE", " /* check "),
    (Role::Update, "SELECT z.a, z.b, ", "", " /* update "),
    (Role::Delete, "SELECT z.a, z.b FROM t AS z WHERE ", "", " /* delete "),
];

impl Kept<'_> {
    /// The pattern of such a query, for a value of this type or for this column.
    pub fn pattern(role: Role, kind: &str) -> String {
        let found = KEPT.iter().find(|(known, ..)| *known == role);
        let (_, before, behind, mark) = found.unwrap_or(&KEPT[0]);
        format!("{before}#{behind}{mark}{kind} */")
    }

    fn of(text: &str) -> Option<Kept<'_>> {
        KEPT.iter().find_map(|(role, before, behind, mark)| {
            let (query, kind) = text.strip_suffix(" */")?.rsplit_once(mark)?;
            let expression = query.strip_prefix(before)?.strip_suffix(behind)?;
            Some(Kept { role: *role, kind, expression })
        })
    }

    async fn answer(&self, filled: &Database, parameters: &Parameters) -> Result<Answer, Error> {
        let Kept { role, kind, expression } = *self;
        match role {
            Role::Generated => {
                self.kept(&format!("kept {} AS ({expression}) STORED", stored(kind)), ", kept")
                    .await
            }
            Role::Check => self.kept(&format!("CHECK ({expression})"), "").await,
            Role::Update => {
                let (value, filter) =
                    expression.rsplit_once(" FROM t AS z WHERE ").unwrap_or((expression, "TRUE"));
                let text = format!(
                    "UPDATE t AS z SET {kind} = {value} WHERE {filter} THEN RETURN a, b, {kind}"
                );
                written(filled, parameters, &text).await
            }
            Role::Delete => {
                let text = format!("DELETE FROM t AS z WHERE {expression} THEN RETURN a, b");
                written(filled, parameters, &text).await
            }
        }
    }

    async fn kept(&self, element: &str, column: &str) -> Result<Answer, Error> {
        let database = Database::default();
        database.change_schema(&parse_ddl(&definition(&TABLES[0], Some(element)))?)?;
        for row in TABLES[0].rows {
            match insert(&database, &TABLES[0], row).await {
                // A row that breaks the CHECK is left out.
                Err(error) if error.message().contains("is violated for key") => {}
                other => other?,
            }
        }
        let transaction = database.begin(&ReadWriteOptions::default());
        let text = format!("SELECT a, b{column} FROM t");
        Ok(rows(run(&database, transaction, &Parameters::default(), &text).await?))
    }
}

async fn run(
    database: &Database,
    id: TransactionId,
    given: &Parameters,
    text: &str,
) -> Result<Outcome, Error> {
    let mut access = InTransaction::read_write(database, id);
    let statement = Prepared::new(text).map_err(|error| error.in_text(text))?;
    execute(&statement, given, &mut access).await
}

/// The rows that a statement returns, which are undone.
async fn written(database: &Database, given: &Parameters, text: &str) -> Result<Answer, Error> {
    let transaction = database.begin(&ReadWriteOptions::default());
    let outcome = run(database, transaction, given, text).await;
    database.rollback(transaction)?;
    Ok(match outcome? {
        Outcome::Returned { columns, rows: returned, .. } => {
            rows(Outcome::Rows { columns, rows: returned })
        }
        other => rows(other),
    })
}

async fn parameters(database: &Database) -> Result<Parameters, Error> {
    let mut named = Vec::new();
    for (name, kind, value) in PARAMETERS {
        let transaction = database.begin(&ReadWriteOptions::default());
        let text = format!("SELECT CAST({value} AS {kind})");
        let outcome = run(database, transaction, &Parameters::default(), &text).await?;
        database.rollback(transaction)?;
        if let Outcome::Rows { columns, mut rows } = outcome {
            named.push((*name, Parameter::Typed(columns[0].1, rows.remove(0).remove(0))));
        }
    }
    Ok(Parameters::from_iter(named))
}

/// The result of a statement, as Google's side shows it.
fn rows(outcome: Outcome) -> Answer {
    let Outcome::Rows { columns, rows } = outcome else { return Answer::Accepted };
    let types = columns.iter().map(|(_, kind)| kind.to_string()).collect();
    Answer::Rows(types, rows.iter().map(|row| row.iter().map(shown).collect()).collect())
}

/// A type as DDL writes it.
fn stored(kind: &str) -> String {
    match kind {
        "STRING" | "BYTES" => format!("{kind}(MAX)"),
        "ARRAY<STRING>" => "ARRAY<STRING(MAX)>".into(),
        _ => kind.into(),
    }
}

/// The DDL of a table, with one more element.
fn definition(table: &Table, more: Option<&str>) -> String {
    let columns = table.columns.iter();
    let mut elements: Vec<String> =
        columns.map(|(name, kind)| format!("{name} {}", stored(kind))).collect();
    elements.extend(more.map(str::to_owned));
    let key = table.key.join(", ");
    format!("CREATE TABLE {} ({}) PRIMARY KEY ({key})", table.name, elements.join(", "))
}

async fn insert(database: &Database, table: &Table, row: &str) -> Result<(), Error> {
    let names: Vec<&str> = table.columns.iter().map(|(name, _)| *name).collect();
    let text = format!("INSERT INTO {} ({}) VALUES ({row})", table.name, names.join(", "));
    let statement = Prepared::new(&text).map_err(|error| error.in_text(&text))?;
    let transaction = database.begin(&ReadWriteOptions::default());
    let mut access = InTransaction::read_write(database, transaction);
    execute(&statement, &Parameters::default(), &mut access).await?;
    database.commit(transaction, &[]).await.map(drop)
}

async fn filled() -> Result<Database, Error> {
    let database = Database::default();
    for table in TABLES {
        database.change_schema(&parse_ddl(&definition(table, None))?)?;
        // So that statements go by them, wherever they can.
        for (number, (column, kind)) in table.columns.iter().enumerate() {
            if !kind.starts_with("ARRAY") && *kind != "JSON" {
                let ddl =
                    format!("CREATE INDEX {}_{number} ON {} ({column})", table.name, table.name);
                database.change_schema(&parse_ddl(&ddl)?)?;
            }
        }
        for row in table.rows {
            insert(&database, table, row).await?;
        }
    }
    Ok(database)
}

fn refused(error: &Error) -> Answer {
    let message = error.message().lines().next().unwrap_or_default().to_owned();
    match error.code() {
        // A subquery of several rows is found out by evaluating it.
        Code::InvalidArgument if message.contains("more than one row") => {
            Answer::Evaluation(message)
        }
        Code::InvalidArgument => Answer::Analysis(message),
        Code::Unimplemented => {
            let construct = message.split(" [at ").next().unwrap_or_default();
            Answer::Unsupported(construct.replace("Not supported here: ", ""))
        }
        Code::Internal | Code::Unknown => Answer::Crash,
        _ => Answer::Evaluation(message),
    }
}

/// A value as Google's side shows it.
fn shown(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => json!(value),
        Value::Int64(value) => json!(value.to_string()),
        Value::Float64(value) if value.is_nan() => json!("7ff8000000000000"),
        Value::Float64(value) if *value == 0.0 => json!("0"),
        Value::Float64(value) => json!(format!("{:x}", value.to_bits())),
        Value::String(value) => json!(value),
        Value::Bytes(value) => {
            json!(value.iter().map(|next| format!("{next:02x}")).collect::<String>())
        }
        Value::Date(value) => json!(value.to_string()),
        Value::Timestamp(value) => {
            json!(format!("{}.{:09}", value.seconds(), value.subsec_nanos()))
        }
        Value::Numeric(value) => json!(value.to_string()),
        Value::Json(value) => json!(value.to_string()),
        Value::Array { values, .. } => json!(values.iter().map(shown).collect::<Vec<_>>()),
    }
}
