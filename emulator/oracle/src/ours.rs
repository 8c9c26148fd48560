//! The emulator's side.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Value as Json, json};

use crate::answer::Answer;
use crate::engine::{Code, Database, Error, ReadWriteOptions, Value};
use crate::sql::{InTransaction, Outcome, Parameters, Prepared, execute, parse_ddl};

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

/// The emulator's engine and SQL, without its network.
pub struct Ours {
    runtime: tokio::runtime::Runtime,
    database: Database,
}

impl Ours {
    /// With the tables and their rows.
    pub fn new() -> Result<Ours, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let database = runtime.block_on(filled()).map_err(|error| error.to_string())?;
        Ok(Ours { runtime, database })
    }

    /// Returns the emulator's answer to a statement. Its writes are undone.
    pub fn ask(&self, text: &str) -> Answer {
        let answer = catch_unwind(AssertUnwindSafe(|| self.runtime.block_on(self.answer(text))));
        answer.unwrap_or(Answer::Crash)
    }

    async fn answer(&self, text: &str) -> Answer {
        if let Some(kept) = Kept::of(text) {
            return match kept.answer().await {
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
        let outcome = execute(&statement, &Parameters::default(), &mut access).await;
        if let Err(error) = self.database.rollback(transaction) {
            return Answer::Evaluation(error.to_string());
        }
        match outcome {
            Ok(outcome) => rows(outcome),
            Err(error) => refused(&error),
        }
    }
}

/// An expression that a table keeps, as a generated column or a CHECK.
///
/// Google's side has neither, so it is asked what they come to: a query of the expression on each row,
/// or for the rows on which it isn't FALSE.
pub struct Kept<'a> {
    is_generated: bool,
    kind: &'a str,
    expression: &'a str,
}

/// The text before the expression, the text behind it, and the mark before its type: of a generated
/// column, and of a CHECK.
const KEPT: [(&str, &str, &str); 2] = [
    ("SELECT a, b, (", ") FROM t", " /* generated "),
    ("SELECT a, b FROM t WHERE (", ") IS NOT FALSE", " /* check "),
];

impl Kept<'_> {
    /// The pattern of such a query, for a generated column of this type, or a CHECK.
    pub fn pattern(generated: Option<&str>) -> String {
        let (before, behind, mark) = KEPT[usize::from(generated.is_none())];
        format!("{before}#{behind}{mark}{} */", generated.unwrap_or("BOOL"))
    }

    fn of(text: &str) -> Option<Kept<'_>> {
        KEPT.iter().zip([true, false]).find_map(|((before, behind, mark), is_generated)| {
            let (query, kind) = text.strip_suffix(" */")?.rsplit_once(mark)?;
            let expression = query.strip_prefix(before)?.strip_suffix(behind)?;
            Some(Kept { is_generated, kind, expression })
        })
    }

    async fn answer(&self) -> Result<Answer, Error> {
        let Kept { is_generated, kind, expression } = *self;
        let kept = match is_generated {
            true => format!("kept {} AS ({expression}) STORED", stored(kind)),
            false => format!("CHECK ({expression})"),
        };
        let database = Database::default();
        database.change_schema(&parse_ddl(&definition(&TABLES[0], Some(&kept)))?)?;
        for row in TABLES[0].rows {
            match insert(&database, &TABLES[0], row).await {
                // A row that breaks the CHECK is left out.
                Err(error) if error.message().contains("is violated for key") => {}
                other => other?,
            }
        }
        let transaction = database.begin(&ReadWriteOptions::default());
        let mut access = InTransaction::read_write(&database, transaction);
        let text = if is_generated { "SELECT a, b, kept FROM t" } else { "SELECT a, b FROM t" };
        let statement = Prepared::new(text).map_err(|error| error.in_text(text))?;
        Ok(rows(execute(&statement, &Parameters::default(), &mut access).await?))
    }
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
