//! Plans that are used again.

use std::sync::Arc;
use std::time::Duration;

use spindle_emulator::engine::{Code, Handle, Result, TimestampBound, Type, Value};
use spindle_emulator::sql::{
    InTransaction, Outcome, Parameter, Parameters, Prepared, Statements, execute,
};

use crate::memory::Memory;

/// A parameter `@p` that came with a type.
fn typed(value: Value) -> Parameters {
    let value_type = value.value_type().expect("it has one");
    Parameters::from_iter([("p", Parameter::Typed(value_type, value))])
}

/// The same without one.
fn text(text: &str) -> Parameters {
    Parameters::from_iter([("p", Parameter::Untyped(text.into()))])
}

fn prepared(text: &str) -> Prepared {
    Prepared::new(text).expect("it is right")
}

fn table() -> Memory {
    Memory::new("CREATE TABLE T (k INT64 NOT NULL, s STRING(9), day DATE) PRIMARY KEY (k)")
}

/// The types of the columns and the rows.
fn rows(outcome: Result<Outcome>) -> (Vec<Type>, Vec<Vec<Value>>) {
    match outcome {
        Ok(Outcome { columns, rows, .. }) => {
            (columns.into_iter().map(|(_, kind)| kind).collect(), rows)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_statement_answers_for_the_values_of_now() {
    let table = table();
    let insert = prepared("INSERT T (k, s) VALUES (@p, 'a')");
    for key in 1..4 {
        table.execute(&insert, &typed(Value::Int64(key))).unwrap();
        table.execute(&insert, &text(&(10 * key).to_string())).unwrap();
    }
    let look = prepared("SELECT k FROM T WHERE k = @p");
    let parameters: [fn(i64) -> Parameters; 2] =
        [|key| typed(Value::Int64(key)), |key| text(&key.to_string())];
    for parameter in parameters {
        for key in [1, 30, 2, 9] {
            let expected = if key == 9 { vec![] } else { vec![vec![Value::Int64(key)]] };
            assert_eq!(rows(table.execute(&look, &parameter(key))).1, expected);
        }
    }
    let null = Parameters::from_iter([("p", Parameter::Typed(Type::Int64, Value::Null))]);
    assert!(rows(table.execute(&look, &null)).1.is_empty());
}

#[test]
fn a_statement_gives_the_type_that_its_parameter_has_now() {
    let (table, select) = (table(), prepared("SELECT @p"));
    let all = [Value::Int64(1), Value::String("1".into()), Value::Bool(true), Value::Int64(2)];
    for value in all {
        let (types, rows) = rows(table.execute(&select, &typed(value.clone())));
        assert_eq!((types, rows), (vec![value.value_type().unwrap()], vec![vec![value]]));
    }
    for _ in 0..2 {
        assert_eq!(rows(table.execute(&select, &text("5"))).0, [Type::Int64]);
        let refused = table.execute(&select, &text("a")).unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
    }
}

#[test]
fn a_value_that_is_not_of_its_places_type_is_refused_each_time() {
    let table = table();
    for (query, right, wrong) in [
        ("SELECT k FROM T WHERE k = @p", text("5"), text("x")),
        ("SELECT k FROM T WHERE day = @p", text("2026-01-02"), text("2026")),
        (
            "SELECT k FROM T WHERE day = @p",
            typed(Value::String("2026-01-02".into())),
            typed(Value::String("2026".into())),
        ),
        ("SELECT k FROM T LIMIT @p", text("1"), text("x")),
    ] {
        let query = prepared(query);
        for _ in 0..2 {
            table.execute(&query, &right).unwrap();
            let refused = table.execute(&query, &wrong).unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument);
        }
    }
}

#[test]
fn a_statement_sees_the_schema_of_its_moment() {
    let (table, all) = (table(), prepared("SELECT * FROM T"));
    let none = Parameters::default();
    let before = table.database.read_timestamp(TimestampBound::Strong).unwrap();
    assert_eq!(rows(table.execute(&all, &none)).0.len(), 3);
    table.change("ALTER TABLE T ADD COLUMN more INT64");
    assert_eq!(rows(table.execute(&all, &none)).0.len(), 4);
    let mut access = InTransaction::new(&table.database, Handle::ReadOnly(before));
    let outcome = table.runtime.block_on(execute(&all, &none, &mut access));
    assert_eq!(rows(outcome).0.len(), 3);
    assert_eq!(rows(table.execute(&all, &none)).0.len(), 4);
    table.change("DROP TABLE T");
    assert_eq!(table.execute(&all, &none).unwrap_err().code(), Code::InvalidArgument);
}

#[test]
fn a_statement_has_the_time_of_now() {
    let world = Memory::with_orders();
    let statement = Prepared::new("SELECT CURRENT_TIMESTAMP()").unwrap();
    for _ in 0..2 {
        world.database.clock().advance(Duration::from_secs(1));
        let now = world.runtime.block_on(async { world.database.clock().now() });
        let outcome = world.execute(&statement, &Parameters::default()).unwrap();
        assert_eq!(outcome.rows, [[Value::Timestamp(now)]]);
    }
}

#[test]
fn a_kept_statement_asks_for_the_key_of_now() {
    let world = Memory::with_orders();
    let statement = Prepared::new("SELECT v FROM Flags WHERE k = @p").unwrap();
    for key in ["on", "off"] {
        let key = Value::String(key.into());
        let (_, reads) = world.recorded(&statement, &typed(key.clone()));
        assert_eq!(reads[0].keys[0].start.values().next(), Some(&key));
    }
}

#[test]
fn statements_are_kept_and_not_without_end() {
    let statements = Statements::default();
    let first = statements.prepare("SELECT 1").unwrap();
    assert!(Arc::ptr_eq(&first, &statements.prepare("SELECT 1").unwrap()));
    let prepare = |text: &str| Arc::downgrade(&statements.prepare(text).unwrap());
    let all: Vec<_> = (0..10_000).map(|number| prepare(&format!("SELECT {number}"))).collect();
    let kept = all.iter().filter(|statement| statement.strong_count() > 0).count();
    assert!((1..=1_000).contains(&kept), "{kept}");
    let long = format!("SELECT '{}'", "x".repeat(10_000));
    assert_eq!(prepare(&long).strong_count(), 0);
    assert!(statements.prepare("SELECT").is_err());
}
