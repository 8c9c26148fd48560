//! No statement makes the evaluation panic, and none takes long on a small database.
//!
//! The input is statements, separated by lines of `;;`, that run in one transaction.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use prost_types::value::Kind;
use spindle_emulator_fuzz::engine::{Code, Database, Handle, ReadWriteOptions, Timestamp, Type, Value};
use spindle_emulator_fuzz::sql::{InTransaction, Parameter, Parameters, Prepared, execute, parse_ddl};

const TABLES: &str = "
    CREATE TABLE locktable (
      name STRING(MAX) NOT NULL,
      heartbeat TIMESTAMP OPTIONS (allow_commit_timestamp=true),
      token TIMESTAMP OPTIONS (allow_commit_timestamp=true),
      writer STRING(MAX),
    ) PRIMARY KEY (name);
    CREATE TABLE t (
      a INT64 NOT NULL, b STRING(5), c FLOAT64, d BOOL, e DATE, f BYTES(4), g TIMESTAMP,
      h NUMERIC DEFAULT (1.5), i JSON, j ARRAY<INT64>, k ARRAY<STRING(3)> DEFAULT (['x']),
    ) PRIMARY KEY (a, b DESC);";

const ROWS: &str = r#"
    INSERT INTO t (a, b, c, d, e, f, h, i, j) VALUES
      (1, 'x', 1.5, true, '2026-01-02', b'x', 1, JSON '{"a": 1}', [1, NULL]),
      (1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
      (2, 'yy', -0.0, false, '0001-01-01', b'', DEFAULT, JSON '[]', []),
      (-1, '', 1e308, true, '9999-12-31', b'abcd',
       NUMERIC '-99999999999999999999999999999.999999999', JSON '""', [2])"#;

struct World {
    runtime: tokio::runtime::Runtime,
    database: Database,
    parameters: Parameters,
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().build().expect("a runtime needs no resources");
        let database = runtime.block_on(async {
            let database = Database::default();
            database.change_schema(&parse_ddl(TABLES).expect("right")).expect("right");
            let transaction = database.begin(&ReadWriteOptions::default());
            let mut access = InTransaction::new(&database, Handle::ReadWrite(transaction));
            let rows = Prepared::new(ROWS).expect("right");
            execute(&rows, &Parameters::default(), &mut access).await.expect("right");
            database.commit(transaction, &[]).await.expect("right");
            database
        });
        let parameters = Parameters::from_iter([
            ("name", Parameter::Untyped("n".into())),
            ("token", Parameter::Untyped("2026-01-02T03:04:05Z".into())),
            ("i", Parameter::Typed(Type::Int64, Value::Int64(i64::MAX))),
            ("n", Parameter::Untyped(Kind::NullValue(0).into())),
            ("f", Parameter::Untyped(0.5.into())),
            (
                "l",
                Parameter::Untyped(
                    vec!["1".into(), Kind::NullValue(0).into(), "2".into()].into(),
                ),
            ),
            ("b", Parameter::Untyped(true.into())),
            ("s", Parameter::Typed(Type::String, Value::String("2026-01-02".into()))),
            ("g", Parameter::Typed(Type::Timestamp, Value::Timestamp(Timestamp::MAX))),
        ]);
        World { runtime, database, parameters }
    })
}

fuzz_target!(|text: &str| {
    let World { runtime, database, parameters } = world();
    runtime.block_on(async {
        let transaction = database.begin(&ReadWriteOptions::default());
        for text in text.split("\n;;\n").take(8) {
            let Ok(statement) = Prepared::new(text) else { continue };
            let mut access = InTransaction::new(database, Handle::ReadWrite(transaction));
            if let Err(error) = execute(&statement, parameters, &mut access).await {
                assert!(!error.message().is_empty());
                assert!(!matches!(error.code(), Code::Internal | Code::Unknown), "{error}");
            }
        }
        database.rollback(transaction).expect("the transaction is open");
    });
});
