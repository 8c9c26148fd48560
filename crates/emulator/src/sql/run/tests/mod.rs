//! The results of statements.

mod alter;
mod arrays;
mod casts;
mod defaults;
mod definitions;
mod indexes;
mod joins;
mod kept;
mod keys;

mod plans;
mod refusals;
mod returning;
mod text;
mod values;

use super::super::memory::Memory;
use super::*;
use crate::engine::{Code, KeyRange, Timestamp};
use crate::sql::{Parameter, Untyped};

const TABLES: &str = "
    CREATE TABLE locktable (
      name STRING(MAX) NOT NULL,
      heartbeat TIMESTAMP OPTIONS (allow_commit_timestamp=true),
      token TIMESTAMP OPTIONS (allow_commit_timestamp=true),
      writer STRING(MAX),
    ) PRIMARY KEY (name);
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

impl Memory {
    fn write(&mut self, text: &str) -> u64 {
        match self.run(text, &Parameters::default()) {
            Ok(Outcome::Written(count)) => count,
            other => panic!("{text}: {other:?}"),
        }
    }

    /// The rows of a query as a reader writes them: cells with blanks between.
    fn rows_with(&mut self, text: &str, parameters: &Parameters) -> Vec<String> {
        match self.run(text, parameters) {
            Ok(Outcome::Rows { rows, .. }) => {
                rows.iter().map(|row| row.iter().map(shown).collect::<Vec<_>>().join(" ")).collect()
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    fn rows(&mut self, text: &str) -> Vec<String> {
        self.rows_with(text, &Parameters::default())
    }

    fn one(&mut self, expr: &str) -> String {
        self.rows(&format!("SELECT {expr}")).remove(0)
    }

    fn error(&mut self, text: &str) -> (Code, String) {
        match self.run(text, &Parameters::default()) {
            Err(error) => {
                // The text and the caret that follow are tested where they are made.
                let message = error.message().lines().next().unwrap_or("");
                (error.code(), message.to_owned())
            }
            other => panic!("{text}: {other:?}"),
        }
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

fn text(value: &str) -> Parameter {
    Parameter::Untyped(Untyped::Text(value.into()))
}

#[test]
fn the_predecessors_acquire_beat_and_take_over() {
    let mut world = Memory::new(TABLES);
    let start = world.now;
    let params = Parameters::from_iter([
        ("name", text("n")),
        ("token", text("2026-01-02T03:04:05.000006000Z")),
        ("writer", text("id2")),
    ]);
    let first = "insert locktable (name, heartbeat, token, writer) values ('n',PENDING_COMMIT_TIMESTAMP(),PENDING_COMMIT_TIMESTAMP(),'id')";
    assert_eq!(world.write(first), 1);
    assert_eq!(world.error(first).0, Code::AlreadyExists);
    world.now = Timestamp::from_micros(start.micros() + 1_500_900);
    let look = "select token, writer, timestamp_diff(current_timestamp(), heartbeat, millisecond) as diff from locktable where name = @name";
    assert_eq!(world.rows_with(look, &params), ["2026-01-02T03:04:05.000006Z id 1500"]);
    let beat = "update locktable set heartbeat = PENDING_COMMIT_TIMESTAMP() where name = @name";
    assert_eq!(world.run(beat, &params).unwrap(), Outcome::Written(1));
    assert_eq!(world.write("insert locktable (name) values ('n_2026-01-02T03:04:05.000006Z')"), 1);
    let take = "update locktable set heartbeat = PENDING_COMMIT_TIMESTAMP(), token = @token, writer = @writer where name = @name";
    assert_eq!(world.run(take, &params).unwrap(), Outcome::Written(1));
    world.reads.clear();
    assert_eq!(world.write("delete from locktable where starts_with(name, 'n_')"), 1);
    assert_eq!(world.reads[0].columns, ["name"], "the pending heartbeat is not looked at");
    let who = "select token, writer from locktable where name = @name";
    assert_eq!(world.rows_with(who, &params), ["2026-01-02T03:04:05.000006Z id2"]);
    assert_eq!(world.one("1"), "1");
}

#[test]
fn rows_come_in_key_order_or_as_asked() {
    let mut world = world();
    assert_eq!(world.rows("SELECT shard, id FROM Orders"), ["1 3", "1 2", "1 1", "2 5", "2 1"]);
    assert_eq!(
        world.rows("SELECT note AS n FROM Orders ORDER BY n DESC, price"),
        ["b", "b", "ab", "a", "NULL"]
    );
    assert_eq!(world.rows("SELECT price FROM Orders ORDER BY 1 LIMIT 2"), ["NULL", "-1.0"]);
    assert_eq!(
        world.rows("SELECT price FROM Orders ORDER BY price DESC LIMIT 1 OFFSET 4"),
        ["NULL"]
    );
    assert_eq!(
        world.rows("SELECT -id AS id FROM Orders WHERE shard = 1 ORDER BY id + 0"),
        ["-3", "-2", "-1"],
        "an alias hides the column"
    );
    let limit = Parameters::from_iter([("n", text("1"))]);
    assert_eq!(world.rows_with("SELECT k FROM Flags ORDER BY k LIMIT @n", &limit), ["off"]);
}

#[test]
fn names_of_columns_are_those_of_the_query() {
    let mut world = world();
    let columns = |outcome: Outcome| match outcome {
        Outcome::Rows { columns, .. } => columns
            .into_iter()
            .map(|(name, value_type)| format!("{name} {value_type}"))
            .collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let none = Parameters::default();
    let all = world.run("SELECT f.*, F.V AS twice, v + 1, V, NULL AS n FROM flags AS f", &none);
    assert_eq!(
        columns(all.unwrap()),
        ["k STRING", "v INT64", "twice INT64", " INT64", "V INT64", "n INT64"]
    );
}

#[test]
fn counting_makes_one_row() {
    let mut world = world();
    assert_eq!(
        world.rows("SELECT COUNT(*), count(note), COUNT(*) - COUNT(paid) AS unknown FROM Orders"),
        ["5 4 1"]
    );
    assert_eq!(world.rows("SELECT COUNT(*) FROM Orders WHERE shard = 9"), ["0"]);
    assert_eq!(world.rows("SELECT COUNT(*) > 1, 7 FROM Flags ORDER BY COUNT(*)"), ["true 7"]);
    let error = world.error("SELECT note, COUNT(*) FROM Orders");
    assert_eq!(
        error,
        (
            Code::InvalidArgument,
            "Expression references column note which is neither grouped nor aggregated [at 1:8]"
                .into()
        )
    );
    assert_eq!(world.error("SELECT 1 FROM Orders WHERE COUNT(*) > 1").0, Code::InvalidArgument);
    assert_eq!(world.error("SELECT COUNT(COUNT(*)) FROM Orders").0, Code::InvalidArgument);
}

#[test]
fn exists_looks_into_another_table_by_its_key() {
    let mut world = world();
    assert_eq!(
        world.rows(
            "SELECT k FROM Flags f WHERE EXISTS (SELECT 1 FROM Orders o WHERE o.shard = f.v)"
        ),
        ["on"]
    );
    let ranges = world.ranges_of(
        "UPDATE Orders SET note = 'late' WHERE shard = 1 AND id = 1
         AND EXISTS (SELECT * FROM Flags WHERE k = 'on' AND v = 1)",
    );
    assert_eq!(ranges, "(1,1) to (1,1)+; (on) to (on)+");
    assert_eq!(world.rows("SELECT note FROM Orders WHERE shard = 1 AND id = 1"), ["late"]);
    assert_eq!(
        world.ranges_of(
            "SELECT 1 FROM Flags WHERE k = 'on' AND false AND EXISTS (SELECT 1 FROM Orders)"
        ),
        "(on) to (on)+",
        "what isn't come to isn't read"
    );
    assert_eq!(
        world.rows(
            "SELECT k FROM Flags WHERE NOT EXISTS (SELECT 1 FROM Orders WHERE shard = v
             AND EXISTS (SELECT 1 FROM Flags g WHERE g.v = id)) ORDER BY k"
        ),
        ["off", "x"]
    );
    assert_eq!(world.one("EXISTS (SELECT 1 FROM Flags LIMIT 1 OFFSET 3)"), "false");
    assert_eq!(world.one("EXISTS (SELECT COUNT(*) FROM Flags WHERE false)"), "true");
    let fenced = "INSERT INTO Orders (shard, id, note) SELECT 9, 9, k FROM Flags WHERE k = 'on'
        AND EXISTS (SELECT 1 FROM Flags WHERE v = 0)";
    assert_eq!(world.write(fenced), 1);
    assert_eq!(world.rows("SELECT note FROM Orders WHERE shard = 9"), ["on"]);
}

#[test]
fn the_schema_can_be_asked_about() {
    let mut world = world();
    assert_eq!(
        world.rows(
            "SELECT table_name, table_type FROM information_schema.tables
             WHERE table_schema = '' ORDER BY 1"
        ),
        ["Flags BASE TABLE", "Orders BASE TABLE", "locktable BASE TABLE"]
    );
    assert_eq!(
        world.rows(
            "SELECT COLUMN_NAME, ORDINAL_POSITION, IS_NULLABLE, SPANNER_TYPE
             FROM INFORMATION_SCHEMA.COLUMNS AS c WHERE c.TABLE_NAME = 'Flags'"
        ),
        ["k 1 YES STRING(10)", "v 2 YES INT64"]
    );
    assert_eq!(
        world.rows(
            "SELECT t.TABLE_NAME FROM INFORMATION_SCHEMA.TABLES t WHERE EXISTS (SELECT 1 FROM
             INFORMATION_SCHEMA.COLUMN_OPTIONS o WHERE o.TABLE_NAME = t.TABLE_NAME
             AND o.OPTION_NAME = 'allow_commit_timestamp' AND o.OPTION_VALUE = 'TRUE')"
        ),
        ["locktable"]
    );
    assert_eq!(world.error("SELECT 1 FROM information_schema.statistics").0, Code::Unimplemented);
}

#[test]
fn updates_see_each_row_as_it_was() {
    let mut world = world();
    assert_eq!(world.write("UPDATE Orders o SET price = o.price + id, note = NULL WHERE paid"), 3);
    assert_eq!(
        world.rows("SELECT price FROM Orders ORDER BY shard, id"),
        ["2.5", "NULL", "2.5", "0.0", "5.0"]
    );
    assert_eq!(world.write("DELETE Orders WHERE note IS NULL AND shard = 1"), 2);
    assert_eq!(world.write("DELETE FROM Orders WHERE shard = 8"), 0);
    assert_eq!(world.rows("SELECT COUNT(*) FROM Orders"), ["3"]);
}
