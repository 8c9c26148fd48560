//! Constraints and generated columns: what no commit can break.

use std::time::Duration;

use super::*;

/// Why a change of the schema is refused.
fn refused(world: &World, ddl: &str) -> String {
    let error = change(world, ddl).unwrap_err();
    format!("{}: {}", error.code(), error.message())
}

impl World {
    /// Runs statements in one transaction and commits it.
    async fn run(&mut self, statements: &[&str]) -> Result<(), Status> {
        let id = self.begin_read_write().await;
        for (statement, seqno) in statements.iter().zip(1..) {
            self.write(&id, seqno, statement).await?;
        }
        self.commit(&id, []).await.map(drop)
    }

    /// The code of what these statements come to.
    async fn fails(&mut self, statements: &[&str]) -> (Code, String) {
        let status = self.run(statements).await.unwrap_err();
        (status.code(), status.message().to_owned())
    }
}

fn numbers<const N: usize>(table: &str, columns: [&str; N], values: [i64; N]) -> Write {
    write(table, columns, values.map(|value| text(value.to_string())))
}

fn inserted<const N: usize>(table: &str, cells: [(&str, i64); N]) -> proto::Mutation {
    mutation(Operation::Insert(numbers(table, cells.map(|c| c.0), cells.map(|c| c.1))))
}

fn deleted(table: &str, key: i64) -> proto::Mutation {
    let keys = vec![list([text(key.to_string())])];
    let key_set = Some(proto::KeySet { keys, ..Default::default() });
    mutation(Operation::Delete(proto::mutation::Delete { table: table.into(), key_set }))
}

#[tokio::test]
async fn a_row_that_a_check_forbids_is_never_there() {
    let mut world = World::start().await;
    change(
        &world,
        "CREATE TABLE account (id INT64, balance INT64, top INT64,
           CONSTRAINT solvent CHECK (balance >= 0), CHECK (balance <= top)) PRIMARY KEY (id)",
    )
    .unwrap();
    let broken = world.commit_once([inserted("account", [("id", 1), ("balance", -1)])]).await;
    let broken = broken.unwrap_err();
    assert_eq!(broken.code(), Code::OutOfRange);
    let message = "Check constraint `account`.`solvent` is violated for key {Int64(1)}";
    assert_eq!(broken.message(), message);
    // A NULL is not FALSE.
    world.run(&["INSERT INTO account (id, balance) VALUES (1, 5)"]).await.unwrap();
    let (code, message) = world.fails(&["UPDATE account SET top = 4 WHERE id = 1"]).await;
    assert_eq!(code, Code::OutOfRange);
    assert!(message.contains("CK_account_1"), "{message}");
    assert_eq!(world.query("SELECT balance, top FROM account").await.unwrap(), ["5 NULL"]);

    let new = "ALTER TABLE account ADD CONSTRAINT rich CHECK (balance > 5)";
    assert!(refused(&world, new).contains("is violated for key {Int64(1)}"));
    change(&world, "ALTER TABLE account DROP CONSTRAINT solvent").unwrap();
    world.run(&["UPDATE account SET balance = -1 WHERE id = 1"]).await.unwrap();
    for (ddl, reason) in [
        ("ALTER TABLE account DROP CONSTRAINT solvent", "solvent is not a constraint in account"),
        ("ALTER TABLE account ADD CHECK (nothing > 1)", "Unrecognized name: nothing"),
        ("ALTER TABLE account ADD CHECK (balance)", "INVALID_ARGUMENT: Error parsing expression"),
        ("ALTER TABLE account ADD CHECK (CURRENT_TIMESTAMP() > NULL)", "non-deterministic"),
        ("ALTER TABLE account ADD CHECK (1 = 1)", "does not use any non generated column"),
        ("ALTER TABLE account DROP COLUMN top", "dependent check constraint: CK_account_1"),
        ("ALTER TABLE users ADD CHECK (updated IS NULL)", "has option commit_timestamp"),
        ("ALTER TABLE users ADD CONSTRAINT CK_account_1 CHECK (id > 0)", "Duplicate name"),
    ] {
        let found = refused(&world, ddl);
        assert!(found.contains(reason), "{ddl}: {found}");
    }
}

#[tokio::test]
async fn a_generated_column_follows_the_columns_it_is_made_of() {
    let mut world = World::start().await;
    change(
        &world,
        "CREATE TABLE t (k INT64, a INT64, b INT64, g1 INT64 AS (g2 + 1) STORED,
           g2 INT64 NOT NULL AS (a + b) STORED, n NUMERIC AS (g1) STORED) PRIMARY KEY (k);
         CREATE UNIQUE INDEX by_g1 ON t (g1)",
    )
    .unwrap();
    let all = "SELECT k, g1, g2, n FROM t ORDER BY k";
    world.commit_once([inserted("t", [("k", 1), ("a", 1), ("b", 1)])]).await.unwrap();
    assert_eq!(world.query(all).await.unwrap(), ["1 3 2 3"]);
    let id = world.begin_read_write().await;
    let own = Some(Selector::Id(id.clone()));
    world.write(&id, 1, "UPDATE t SET a = 5 WHERE k = 1").await.unwrap();
    assert_eq!(rows(&world.execute(all, 2, own.clone()).await.unwrap()), ["1 7 6 7"]);
    let update = "UPDATE t SET b = 3 WHERE k = 1 THEN RETURN g1, b";
    assert_eq!(rows(&world.execute(update, 3, own.clone()).await.unwrap()), ["9 3"]);
    let insert = "INSERT INTO t (k, a, b) VALUES (2, 0, 0) THEN RETURN g2, n";
    assert_eq!(rows(&world.execute(insert, 4, own.clone()).await.unwrap()), ["0 1"]);
    let by_index = "SELECT g1 FROM t@{FORCE_INDEX=by_g1} WHERE g1 > 1";
    assert_eq!(rows(&world.execute(by_index, 5, own).await.unwrap()), ["9"]);
    world.commit(&id, []).await.unwrap();
    assert_eq!(world.query(by_index).await.unwrap(), ["9"]);

    for (sql, code, reason) in [
        ("INSERT INTO t (k, a, b) VALUES (3, 4, 4)", Code::AlreadyExists, "by_g1"),
        ("INSERT INTO t (k, a) VALUES (3, 4)", Code::FailedPrecondition, "null"),
        ("INSERT INTO t (k, g1) VALUES (3, 4)", Code::InvalidArgument, "non-writable column: g1"),
        ("UPDATE t SET g1 = 4 WHERE TRUE", Code::InvalidArgument, "non-writable column: g1"),
        ("UPDATE t SET a = 9223372036854775807 WHERE k = 1", Code::OutOfRange, "overflow"),
    ] {
        let found = world.fails(&[sql]).await;
        assert!(found.0 == code && found.1.contains(reason), "{sql}: {found:?}");
    }
    let written = world.commit_once([inserted("t", [("k", 9), ("g1", 1)])]).await.unwrap_err();
    assert_eq!(written.message(), "Cannot write into generated column `t.g1`.");

    change(&world, "ALTER TABLE t ADD COLUMN twice INT64 AS (g1 * 2) STORED").unwrap();
    assert_eq!(world.query("SELECT twice FROM t ORDER BY k").await.unwrap(), ["18", "2"]);
    for (ddl, reason) in [
        ("ALTER TABLE t DROP COLUMN a", "because it is referenced by generated column `g2`"),
        ("ALTER TABLE t ADD COLUMN c INT64 AS (c + 1) STORED", "depend on each other: c"),
        ("ALTER TABLE t ADD COLUMN c STRING(MAX) AS (a) STORED", "has type INT64"),
        ("ALTER TABLE t ADD COLUMN c INT64 AS (1 / 0) STORED", "definition of generated column"),
        ("ALTER TABLE t ADD COLUMN c STRING(MAX) AS (GENERATE_UUID()) STORED", "`GENERATE_UUID`"),
        ("ALTER TABLE t ALTER COLUMN g1 INT64", "Cannot convert generated column `t.g1`"),
        ("ALTER TABLE t ALTER COLUMN a INT64 AS (b) STORED", "Cannot convert column `t.a`"),
        ("ALTER TABLE t ALTER COLUMN g1 SET DEFAULT (1)", "cannot be a generated column"),
        (
            "ALTER TABLE users ADD COLUMN u TIMESTAMP AS (updated) STORED",
            "Cannot use commit timestamp column `updated`",
        ),
    ] {
        let found = refused(&world, ddl);
        assert!(found.contains(reason), "{ddl}: {found}");
    }
}

#[tokio::test]
async fn two_blind_writers_leave_a_generated_column_that_fits_both() {
    let mut world = World::start().await;
    change(
        &world,
        "CREATE TABLE t (k INT64, a INT64, b INT64, g INT64 AS (a * 10 + b) STORED)
           PRIMARY KEY (k)",
    )
    .unwrap();
    world.commit_once([inserted("t", [("k", 1), ("a", 0), ("b", 0)])]).await.unwrap();
    use spindle_emulator::engine::{Mutation, ReadWriteOptions, WriteKind};
    let database = world.emulator.database(DATABASE).unwrap();
    let update =
        |column| Mutation::write(WriteKind::Update, "t", [("k", 1.into()), (column, 7.into())]);
    let (left, right) = (
        database.begin(&ReadWriteOptions::default()),
        database.begin(&ReadWriteOptions::default()),
    );
    database.write(left, &[update("a")]).await.unwrap();
    database.write(right, &[update("b")]).await.unwrap();
    database.commit(left, &[]).await.unwrap();
    database.commit(right, &[]).await.unwrap();
    assert_eq!(world.query("SELECT g FROM t").await.unwrap(), ["77"]);
}

/// Goal: who has read a generated column finds it unchanged, and writers of others don't wait.
#[tokio::test]
async fn a_generated_column_is_locked_with_what_it_is_made_of() {
    let mut world = World::start().await;
    change(
        &world,
        "CREATE TABLE t (k INT64, a INT64, b INT64, g INT64 AS (a + 1) STORED) PRIMARY KEY (k)",
    )
    .unwrap();
    world.commit_once([inserted("t", [("k", 1), ("a", 1)])]).await.unwrap();
    let id = world.begin_read_write().await;
    let own = Some(Selector::Id(id.clone()));
    let query = "SELECT g FROM t WHERE k = 1";
    assert_eq!(rows(&world.execute(query, 1, own.clone()).await.unwrap()), ["2"]);
    let update = |column| mutation(Operation::Update(numbers("t", ["k", column], [1, 5])));
    let other = world.commit_once([update("b")]);
    tokio::time::timeout(Duration::from_secs(5), other).await.unwrap().unwrap();
    let same = world.commit_once([update("a")]);
    assert!(tokio::time::timeout(Duration::from_millis(300), same).await.is_err());
    assert_eq!(rows(&world.execute(query, 2, own).await.unwrap()), ["2"]);
    world.commit(&id, []).await.unwrap();
}

const FOREIGN: &str = "
    CREATE TABLE city (id INT64, code INT64) PRIMARY KEY (id);
    CREATE TABLE person (id INT64, city INT64, code INT64,
      CONSTRAINT lives FOREIGN KEY (city) REFERENCES city (id),
      CONSTRAINT knows FOREIGN KEY (code) REFERENCES city (code)) PRIMARY KEY (id);
    CREATE TABLE pet (id INT64, owner INT64, FOREIGN KEY (owner) REFERENCES person (id)
      ON DELETE CASCADE) PRIMARY KEY (id);
    CREATE TABLE toy (id INT64, pet INT64, FOREIGN KEY (pet) REFERENCES pet (id)
      ON DELETE CASCADE) PRIMARY KEY (id);
    CREATE TABLE remark (id INT64, city INT64, FOREIGN KEY (city) REFERENCES city (id)
      NOT ENFORCED) PRIMARY KEY (id)";

#[tokio::test]
async fn a_reference_has_its_row_when_a_commit_is_over() {
    let mut world = World::start().await;
    change(&world, FOREIGN).unwrap();
    let missing = world.commit_once([inserted("person", [("id", 1), ("city", 3)])]).await;
    let missing = missing.unwrap_err();
    assert_eq!(missing.code(), Code::FailedPrecondition);
    assert_eq!(
        missing.message(),
        "Foreign key `lives` constraint violation on table `person`. Cannot find referenced key \
         `{Int64(3)}` in table `city`."
    );
    // The order within a commit says nothing.
    let person = inserted("person", [("id", 1), ("city", 3), ("code", 30)]);
    let city = inserted("city", [("id", 3), ("code", 30)]);
    world.commit_once([person, city]).await.unwrap();
    world.commit_once([inserted("person", [("id", 2)])]).await.unwrap();
    world.commit_once([inserted("remark", [("id", 1), ("city", 99)])]).await.unwrap();

    let gone = world.commit_once([deleted("city", 3)]).await.unwrap_err();
    assert_eq!(
        gone.message(),
        "Foreign key `lives` constraint violation when deleting or updating referenced key \
         `{Int64(3)}` in table `city`. A row with that key exists in the referencing table \
         `person`."
    );
    for statements in [
        ["UPDATE city SET code = 31 WHERE id = 3"],
        ["INSERT INTO person (id, code) VALUES (5, 31)"],
        ["UPDATE person SET city = 4 WHERE id = 1"],
    ] {
        assert_eq!(world.fails(&statements).await.0, Code::FailedPrecondition, "{statements:?}");
    }
    let same = world.commit_once([inserted("city", [("id", 4), ("code", 30)])]).await.unwrap_err();
    assert_eq!(same.code(), Code::AlreadyExists, "what is referred to is unique");
    let swap = ["DELETE FROM person WHERE id = 1", "DELETE FROM city WHERE id = 3"];
    world.run(&swap).await.unwrap();
    assert_eq!(world.query("SELECT COUNT(*) FROM city").await.unwrap(), ["0"]);
}

/// Goal: a row that a statement refers to stays until its transaction is over.
#[tokio::test]
async fn a_statement_locks_the_row_that_it_refers_to() {
    let mut world = World::start().await;
    change(&world, FOREIGN).unwrap();
    world
        .commit_once([inserted("city", [("id", 1)]), inserted("city", [("id", 2)])])
        .await
        .unwrap();
    let id = world.begin_read_write().await;
    world.write(&id, 1, "INSERT INTO person (id, city) VALUES (1, 1)").await.unwrap();
    let other = world.commit_once([deleted("city", 2)]);
    tokio::time::timeout(Duration::from_secs(5), other).await.unwrap().unwrap();
    let same = world.commit_once([deleted("city", 1)]);
    assert!(tokio::time::timeout(Duration::from_millis(300), same).await.is_err());
    world.commit(&id, []).await.unwrap();
}

#[tokio::test]
async fn what_cascades_goes_with_the_row_it_refers_to() {
    let mut world = World::start().await;
    change(&world, FOREIGN).unwrap();
    let fill = [
        "INSERT INTO person (id) VALUES (1), (2)",
        "INSERT INTO pet (id, owner) VALUES (10, 1), (11, 1), (20, 2)",
        "INSERT INTO toy (id, pet) VALUES (100, 10), (110, 11), (200, 20)",
    ];
    world.run(&fill).await.unwrap();
    world.commit_once([deleted("person", 1)]).await.unwrap();
    assert_eq!(world.query("SELECT id FROM toy").await.unwrap(), ["200"]);
    let id = world.begin_read_write().await;
    world.write(&id, 1, "INSERT INTO pet (id, owner) VALUES (21, 2)").await.unwrap();
    world.write(&id, 2, "DELETE FROM person WHERE id = 2").await.unwrap();
    let left = world.execute("SELECT id FROM pet", 3, Some(Selector::Id(id.clone()))).await;
    assert_eq!(rows(&left.unwrap()), [""; 0]);
    world.commit(&id, []).await.unwrap();
    assert_eq!(world.query("SELECT id FROM toy").await.unwrap(), [""; 0]);

    // A row goes as well that comes in the same commit.
    world.commit_once([inserted("person", [("id", 8)])]).await.unwrap();
    let pet = inserted("pet", [("id", 80), ("owner", 8)]);
    world.commit_once([pet, deleted("person", 8)]).await.unwrap();
    assert_eq!(world.query("SELECT id FROM pet").await.unwrap(), [""; 0]);

    world.commit_once([inserted("person", [("id", 9)])]).await.unwrap();
    let again = [deleted("person", 9), inserted("person", [("id", 9)])];
    let again = world.commit_once(again).await.unwrap_err();
    assert!(again.message().starts_with("Cannot write and delete the row"), "{again}");
    let both = [inserted("person", [("id", 7)]), deleted("person", 7)];
    let both = world.commit_once(both).await.unwrap_err();
    assert_eq!(both.code(), Code::FailedPrecondition);
    assert!(both.message().starts_with("Cannot write and delete the row"), "{}", both.message());
}

#[tokio::test]
async fn foreign_keys_are_added_and_dropped_and_hold_what_they_need() {
    let mut world = World::start().await;
    change(&world, FOREIGN).unwrap();
    world.commit_once([inserted("remark", [("id", 1), ("city", 9)])]).await.unwrap();
    let add = "ALTER TABLE remark ADD CONSTRAINT real FOREIGN KEY (city) REFERENCES city (id)";
    for (ddl, reason) in [
        (add, "Cannot find referenced key `{Int64(9)}` in table `city`"),
        ("DROP TABLE city", "referenced by one or more foreign keys: `lives`, `knows`"),
        ("ALTER TABLE city DROP COLUMN code", "used by one or more foreign keys: `knows`"),
        ("ALTER TABLE person ALTER COLUMN code INT64 NOT NULL", "Cannot change the nullability"),
        ("DROP INDEX IDX_city_code_U_knows", "in use by foreign keys"),
        ("ALTER TABLE pet ADD FOREIGN KEY (owner) REFERENCES none (id)", "Table not found: none"),
        ("ALTER TABLE pet ADD FOREIGN KEY (owner) REFERENCES users (name)", "types are different"),
        ("ALTER TABLE pet ADD FOREIGN KEY (own) REFERENCES users (id)", "Column `own` not found"),
        ("ALTER TABLE pet ADD FOREIGN KEY (id, owner) REFERENCES users (id)", "number of columns"),
    ] {
        let found = refused(&world, ddl);
        assert!(found.contains(reason), "{ddl}: {found}");
    }
    world.commit_once([inserted("city", [("id", 9), ("code", 1)])]).await.unwrap();
    change(&world, add).unwrap();
    assert_eq!(code(world.commit_once([deleted("city", 9)]).await), Code::FailedPrecondition);
    change(
        &world,
        "ALTER TABLE remark DROP CONSTRAINT real; ALTER TABLE person DROP CONSTRAINT knows",
    )
    .unwrap();
    world.commit_once([deleted("city", 9)]).await.unwrap();
    let managed = "SELECT index_name FROM information_schema.indexes WHERE spanner_is_managed";
    let managed = world.query(managed).await.unwrap();
    assert!(!managed.iter().any(|name| name.contains("knows")), "{managed:?}");
}

#[tokio::test]
async fn lenient_ddl_keeps_what_is_not_here_and_refuses_what_uses_it() {
    let emulator = Emulator::builder().lenient_ddl().start().await.unwrap();
    let mut world = World::on(emulator, false).await;
    let statements = [
        "CREATE SEQUENCE ids OPTIONS (sequence_kind = 'bit_reversed_positive')",
        "CREATE ROLE reader",
        "CREATE TABLE made (\n  id INT64 NOT NULL DEFAULT (GET_NEXT_SEQUENCE_VALUE(SEQUENCE ids)),\n  \
         n INT64 GENERATED BY DEFAULT AS IDENTITY (BIT_REVERSED_POSITIVE),\n  since TIMESTAMP,\n) \
         PRIMARY KEY(id),\n  ROW DELETION POLICY (OLDER_THAN(since, INTERVAL 1 DAY))",
        "CREATE VIEW few SQL SECURITY INVOKER AS SELECT made.id FROM made",
        "CREATE CHANGE STREAM stream FOR ALL",
        "CREATE SEARCH INDEX found ON made(n)",
        "CREATE PROPERTY GRAPH graph NODE TABLES (made)",
        "CREATE MODEL model REMOTE",
        "GRANT SELECT ON TABLE made TO ROLE reader",
    ];
    let database = "projects/p/instances/i/databases/lenient";
    let ddl = format!("{};", statements.join(";\n"));
    world.emulator.create_database(database, &ddl).await.unwrap();
    let request = format!("GET /v1/{database}/ddl");
    let shown = http::send(&world.emulator.rest_endpoint(), &request, "").await;
    let shown = shown.body.to_string();
    for statement in statements {
        let statement = serde_json::Value::from(statement).to_string();
        assert!(shown.contains(&statement), "{statement}\n{shown}");
    }

    let request = proto::CreateSessionRequest { database: database.into(), session: None };
    world.session = world.client.create_session(request).await.unwrap().into_inner().name;
    let insert = [
        "INSERT INTO made (n) VALUES (1)",
        "INSERT INTO made (id) VALUES (1)",
        "INSERT INTO few (id) VALUES (1)",
    ];
    for (statement, reason) in insert.iter().zip([
        "the next value of a sequence, for column id",
        "the next value of an identity column, for column n",
        "the VIEW few",
    ]) {
        let (code, message) = world.fails(&[statement]).await;
        assert!(code == Code::Unimplemented && message.contains(reason), "{message}");
    }
    world.run(&["INSERT INTO made (id, n) VALUES (1, 2)"]).await.unwrap();
    let unset = world.commit_once([inserted("made", [("id", 5)])]).await.unwrap_err();
    assert_eq!(unset.code(), Code::Unimplemented);
    for query in ["SELECT * FROM few", "SELECT id FROM made@{FORCE_INDEX=found}"] {
        assert_eq!(code(world.query(query).await), Code::Unimplemented, "{query}");
    }
    let tables = "SELECT table_name, table_type FROM information_schema.tables ORDER BY table_name";
    assert_eq!(world.query(tables).await.unwrap(), ["few VIEW", "made BASE TABLE"]);
    let changes = spindle_emulator::sql::parse_ddl_leniently(
        "DROP VIEW few; DROP CHANGE STREAM stream; ALTER TABLE made DROP ROW DELETION POLICY;
         CREATE TABLE few (k INT64) PRIMARY KEY (k)",
    );
    let database = world.emulator.database(database).unwrap();
    database.change_schema(&changes.unwrap()).unwrap();
    assert_eq!(world.query("SELECT * FROM few").await.unwrap(), [""; 0]);
}
