//! Tables that belong together, and indexes: what each commit keeps true.

use std::time::Duration;

use proto::transaction_options::read_only::TimestampBound;

use super::*;

const DDL: &str = "
    CREATE TABLE customer (id INT64 NOT NULL, email STRING(MAX), city STRING(MAX), age INT64)
      PRIMARY KEY (id);
    CREATE UNIQUE INDEX by_email ON customer (email);
    CREATE UNIQUE NULL_FILTERED INDEX by_city_and_age ON customer (city, age DESC);
    CREATE INDEX by_city ON customer (city DESC) STORING (age);
    CREATE TABLE orders (id INT64 NOT NULL, number INT64 NOT NULL, made TIMESTAMP
      OPTIONS (allow_commit_timestamp = true)) PRIMARY KEY (id, number),
      INTERLEAVE IN PARENT customer ON DELETE CASCADE;
    CREATE INDEX by_made ON orders (made);
    CREATE TABLE line (id INT64 NOT NULL, number INT64 NOT NULL, line INT64 NOT NULL)
      PRIMARY KEY (id, number, line), INTERLEAVE IN PARENT orders ON DELETE CASCADE;
    CREATE TABLE invoice (id INT64 NOT NULL, number INT64 NOT NULL) PRIMARY KEY (id, number),
      INTERLEAVE IN PARENT customer ON DELETE NO ACTION";

async fn start() -> World {
    let world = World::start().await;
    change(&world, DDL).unwrap();
    world
}

fn customer(id: i64, email: Option<&str>, city: Option<&str>, age: i64) -> proto::Mutation {
    let optional = |value: Option<&str>| value.map_or(null(), text);
    let values = [text(id.to_string()), optional(email), optional(city), text(age.to_string())];
    mutation(Operation::InsertOrUpdate(write("customer", ["id", "email", "city", "age"], values)))
}

fn below<const N: usize>(table: &str, columns: [&str; N], key: [i64; N]) -> proto::Mutation {
    let key = key.map(|part| text(part.to_string()));
    mutation(Operation::Insert(write(table, columns, key)))
}

fn order(id: i64, number: i64) -> proto::Mutation {
    below("orders", ["id", "number"], [id, number])
}

fn delete(table: &str, key: &[i64]) -> proto::Mutation {
    let key = list(key.iter().map(|part| text(part.to_string())).collect::<Vec<_>>());
    let key_set = Some(proto::KeySet { keys: vec![key], ..Default::default() });
    mutation(Operation::Delete(proto::mutation::Delete { table: table.into(), key_set }))
}

async fn by(
    world: &mut World,
    table: &str,
    index: &str,
    columns: &[&str],
    selector: Option<Selector>,
) -> Result<Vec<String>, Status> {
    by_keys(world, table, index, columns, all(), selector).await
}

async fn by_keys(
    world: &mut World,
    table: &str,
    index: &str,
    columns: &[&str],
    keys: proto::KeySet,
    selector: Option<Selector>,
) -> Result<Vec<String>, Status> {
    let request = proto::ReadRequest {
        session: world.session.clone(),
        transaction: selector
            .map(|selector| proto::TransactionSelector { selector: Some(selector) }),
        table: table.into(),
        index: index.into(),
        columns: columns.iter().map(|column| (*column).into()).collect(),
        key_set: Some(keys),
        ..Default::default()
    };
    Ok(rows(&world.client.read(request).await?.into_inner()))
}

async fn by_city(world: &mut World) -> Vec<String> {
    by(world, "customer", "by_city", &["city", "id", "age"], None).await.unwrap()
}

#[tokio::test]
async fn an_index_shows_the_rows_in_its_own_order_as_of_every_moment() {
    let mut world = start().await;
    let people = [customer(1, None, Some("b"), 5), customer(2, Some("x"), Some("c"), 6)];
    world.commit_once(people).await.unwrap();
    assert_eq!(by_city(&mut world).await, ["c 2 6", "b 1 5"]);
    world.emulator.advance(Duration::from_secs(10));
    world.commit_once([customer(1, None, Some("d"), 7), delete("customer", &[2])]).await.unwrap();
    world.commit_once([customer(3, Some("y"), None, 9)]).await.unwrap();
    assert_eq!(by_city(&mut world).await, ["d 1 7", "NULL 3 9"]);
    let ago = prost_types::Duration { seconds: 5, nanos: 0 };
    let bound = Some(TimestampBound::ExactStaleness(ago));
    let then = ReadOnly { timestamp_bound: bound, ..Default::default() };
    let then = Some(Selector::SingleUse(read_only(then)));
    let past = by(&mut world, "customer", "by_city", &["city", "id", "age"], then).await.unwrap();
    assert_eq!(past, ["c 2 6", "b 1 5"]);
    let missing = by(&mut world, "customer", "by_city", &["email"], None).await;
    assert_eq!(code(missing), Code::NotFound);
    for (table, index) in [("orders", "by_city"), ("customer", "nothing")] {
        assert_eq!(code(by(&mut world, table, index, &["id"], None).await), Code::NotFound);
    }
}

#[tokio::test]
async fn an_index_over_rows_that_are_there_shows_them_from_its_creation_on() {
    let mut world = start().await;
    world.commit_once([customer(1, None, Some("a"), 5)]).await.unwrap();
    world.emulator.advance(Duration::from_secs(10));
    world.commit_once([customer(1, None, Some("a"), 6)]).await.unwrap();
    change(&world, "CREATE INDEX by_age ON customer (age)").unwrap();
    let ago = prost_types::Duration { seconds: 5, nanos: 0 };
    let bound = Some(TimestampBound::ExactStaleness(ago));
    let then = ReadOnly { timestamp_bound: bound, ..Default::default() };
    let then = || Some(Selector::SingleUse(read_only(then)));
    let before = by(&mut world, "customer", "by_age", &["age"], then()).await;
    assert_eq!(code(before), Code::NotFound, "it wasn't there then");
    assert_eq!(by(&mut world, "customer", "by_age", &["age"], None).await.unwrap(), ["6"]);
    world.emulator.advance(Duration::from_secs(10));
    world.commit_once([customer(1, None, Some("a"), 7)]).await.unwrap();
    assert_eq!(by(&mut world, "customer", "by_age", &["age"], then()).await.unwrap(), ["6"]);
    change(&world, "DROP INDEX by_age").unwrap();
    assert_eq!(code(by(&mut world, "customer", "by_age", &["age"], None).await), Code::NotFound);
}

#[tokio::test]
async fn a_unique_index_refuses_a_second_row_and_null_is_a_value_to_it_unless_filtered() {
    let mut world = start().await;
    world.commit_once([customer(1, Some("a"), Some("x"), 1)]).await.unwrap();
    let second = world.commit_once([customer(2, Some("a"), None, 1)]).await.unwrap_err();
    assert_eq!(second.code(), Code::AlreadyExists);
    assert!(second.message().contains("by_email"), "{second}");
    let both = [customer(3, None, None, 1), customer(4, None, None, 1)];
    assert_eq!(code(world.commit_once(both).await), Code::AlreadyExists);
    let filtered = [customer(3, Some("c"), None, 1), customer(4, Some("d"), None, 1)];
    world.commit_once(filtered).await.unwrap();
    let same = [customer(5, Some("e"), Some("x"), 1)];
    assert_eq!(code(world.commit_once(same).await), Code::AlreadyExists);
    // A key that the first row frees in the same commit is free.
    world
        .commit_once([customer(1, Some("z"), Some("y"), 1), customer(2, Some("a"), Some("x"), 1)])
        .await
        .unwrap();
    let refused = change(&world, "CREATE UNIQUE INDEX by_age ON customer (age)").unwrap_err();
    assert_eq!(refused.code(), spindle_emulator::engine::Code::FailedPrecondition);
}

#[tokio::test]
async fn a_statement_sees_the_entries_that_its_transaction_has_made() {
    let mut world = start().await;
    world.commit_once([customer(1, Some("a"), Some("b"), 5)]).await.unwrap();
    let id = world.begin_read_write().await;
    let selector = || Some(Selector::Id(id.clone()));
    let statement = |sql: &str, seqno| proto::ExecuteSqlRequest {
        session: world.session.clone(),
        transaction: Some(proto::TransactionSelector { selector: selector() }),
        sql: sql.into(),
        seqno,
        ..Default::default()
    };
    let update = statement("UPDATE customer SET city = 'z' WHERE id = 1", 1);
    let insert = statement("INSERT INTO customer (id, email, city) VALUES (2, 'b', 'c')", 2);
    let order = statement(
        "INSERT INTO orders (id, number, made) VALUES (2, 1, PENDING_COMMIT_TIMESTAMP())",
        3,
    );
    let second = statement("INSERT INTO customer (id, email) VALUES (3, 'b')", 4);
    for statement in [update, insert, order] {
        world.client.execute_sql(statement).await.unwrap();
    }
    let inside = by(&mut world, "customer", "by_city", &["city", "id"], selector()).await.unwrap();
    assert_eq!(inside, ["z 1", "c 2"]);
    let made = by(&mut world, "orders", "by_made", &["number"], selector()).await.unwrap();
    assert_eq!(made, ["1"]);
    let pending = by(&mut world, "orders", "by_made", &["made"], selector()).await;
    assert_eq!(code(pending), Code::InvalidArgument);
    let outside = world.client.execute_sql(second).await;
    assert_eq!(code(outside), Code::AlreadyExists);
    assert_eq!(by_city(&mut world).await, ["b 1 5"]);
}

#[tokio::test]
async fn a_key_of_an_index_has_the_parts_that_its_definition_names_and_finds_every_row_with_them() {
    let mut world = start().await;
    let people = [
        customer(1, Some("a"), Some("m"), 1),
        customer(2, Some("b"), Some("m"), 2),
        customer(3, Some("c"), Some("z"), 3),
    ];
    world.commit_once(people).await.unwrap();
    let keys = |parts: &[&str]| proto::KeySet {
        keys: vec![list(parts.iter().map(|part| text(*part)).collect::<Vec<_>>())],
        ..Default::default()
    };
    for (index, parts, found) in [
        ("by_city", &["m"][..], &["1", "2"][..]),
        ("by_city", &["n"][..], &[][..]),
        ("by_city_and_age", &["m", "2"][..], &["2"][..]),
    ] {
        let rows = by_keys(&mut world, "customer", index, &["id"], keys(parts), None).await;
        assert_eq!(rows.unwrap(), found, "{index} {parts:?}");
    }
    for (index, parts, expected) in [
        ("by_city", &[][..], "1 key parts, found 0."),
        ("by_city", &["m", "1"][..], "1 key parts, found 2."),
        ("by_city_and_age", &["m"][..], "2 key parts, found 1."),
    ] {
        let refused = by_keys(&mut world, "customer", index, &["id"], keys(parts), None).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        let message = format!("Wrong number of key parts for {index}. Expected {expected}");
        assert_eq!(refused.message(), message);
    }
}

/// Customers of three cities, whose order is that of their ids.
fn three_customers() -> [proto::Mutation; 3] {
    [
        customer(1, Some("a"), Some("a"), 1),
        customer(2, Some("b"), Some("m"), 2),
        customer(3, Some("c"), Some("z"), 3),
    ]
}

/// Goal: a reader by an index finds it unchanged, and nobody else waits.
#[tokio::test]
async fn a_read_by_an_index_locks_the_entries_that_it_read_and_no_more() {
    let mut world = start().await;
    world.commit_once(three_customers()).await.unwrap();
    let id = world.begin_read_write().await;
    let request = proto::ReadRequest {
        session: world.session.clone(),
        transaction: Some(proto::TransactionSelector { selector: Some(Selector::Id(id.clone())) }),
        table: "customer".into(),
        index: "by_city".into(),
        columns: vec!["id".into()],
        key_set: Some(proto::KeySet {
            ranges: vec![proto::KeyRange {
                start_key_type: Some(proto::key_range::StartKeyType::StartClosed(list([text(
                    "p",
                )]))),
                end_key_type: Some(proto::key_range::EndKeyType::EndClosed(list([text("b")]))),
            }],
            ..Default::default()
        }),
        ..Default::default()
    };
    let read = world.client.read(request).await.unwrap().into_inner();
    assert_eq!(rows(&read), ["2"]);
    let outside = [customer(1, Some("a"), Some("aa"), 1), customer(3, Some("c"), Some("y"), 3)];
    let outside = world.commit_once(outside);
    tokio::time::timeout(Duration::from_secs(5), outside).await.unwrap().unwrap();
    let phantom = world.commit_once([customer(4, Some("d"), Some("n"), 4)]);
    assert!(tokio::time::timeout(Duration::from_millis(300), phantom).await.is_err());
    world.commit(&id, []).await.unwrap();
}

#[tokio::test]
async fn a_statement_that_goes_by_an_index_locks_what_it_read_and_no_more() {
    let mut world = start().await;
    world.commit_once(three_customers()).await.unwrap();
    let id = world.begin_read_write().await;
    let own = Some(Selector::Id(id.clone()));
    let query = "SELECT age FROM customer WHERE email = 'b'";
    assert_eq!(rows(&world.execute(query, 1, own.clone()).await.unwrap()), ["2"]);
    let others = [customer(1, Some("aa"), Some("a"), 7), customer(4, Some("d"), Some("m"), 4)];
    let others = world.commit_once(others);
    tokio::time::timeout(Duration::from_secs(5), others).await.unwrap().unwrap();
    let same = world.commit_once([customer(2, Some("b"), Some("m"), 8)]);
    assert!(tokio::time::timeout(Duration::from_millis(300), same).await.is_err());
    assert_eq!(rows(&world.execute(query, 2, own).await.unwrap()), ["2"]);
    world.commit(&id, []).await.unwrap();
}

#[tokio::test]
async fn a_row_below_needs_one_above_and_goes_with_it_or_keeps_it() {
    let mut world = start().await;
    let orphan = world.commit_once([order(1, 1)]).await.unwrap_err();
    assert_eq!(orphan.code(), Code::NotFound);
    let line = |id, number, line| below("line", ["id", "number", "line"], [id, number, line]);
    let first = [customer(1, Some("a"), None, 1), order(1, 1), line(1, 1, 1), line(1, 1, 2)];
    world.commit_once(first).await.unwrap();
    world.commit_once([customer(2, Some("b"), None, 1), order(2, 1), line(2, 1, 1)]).await.unwrap();
    world.commit_once([delete("customer", &[1])]).await.unwrap();
    for (table, columns) in [("orders", ["id", "number"]), ("line", ["id", "line"])] {
        assert_eq!(rows(&world.read(table, &columns, all(), None).await.unwrap()), ["2 1"]);
    }
    assert_eq!(by(&mut world, "orders", "by_made", &["id"], None).await.unwrap(), ["2"]);
    let invoice = || below("invoice", ["id", "number"], [2, 1]);
    world.commit_once([invoice()]).await.unwrap();
    assert_eq!(code(world.commit_once([delete("customer", &[2])]).await), Code::FailedPrecondition);
    let replaced = mutation(Operation::Replace(write("customer", ["id"], [text("2")])));
    assert_eq!(code(world.commit_once([replaced.clone()]).await), Code::FailedPrecondition);
    world.commit_once([delete("invoice", &[2, 1]), replaced]).await.unwrap();
    assert_eq!(rows(&world.read("orders", &["id"], all(), None).await.unwrap()).len(), 0);
}

#[tokio::test]
async fn what_others_depend_on_is_not_dropped() {
    let world = start().await;
    for ddl in [
        "DROP TABLE customer",
        "DROP TABLE orders",
        "ALTER TABLE customer DROP COLUMN city",
        "CREATE INDEX by_city ON orders (made)",
        "CREATE TABLE by_city (id INT64) PRIMARY KEY (id)",
        "CREATE TABLE other (n INT64) PRIMARY KEY (n), INTERLEAVE IN PARENT customer",
    ] {
        let refused = change(&world, ddl).unwrap_err();
        let expected = spindle_emulator::engine::Code::FailedPrecondition;
        assert_eq!(refused.code(), expected, "{ddl}: {refused}");
    }
    change(&world, "DROP TABLE line; DROP INDEX by_made; DROP TABLE orders").unwrap();
}

#[tokio::test]
async fn the_information_schema_shows_indexes_and_parents() {
    let mut world = start().await;
    let query = |sql: &str| proto::ExecuteSqlRequest {
        session: world.session.clone(),
        sql: sql.into(),
        ..Default::default()
    };
    let tables = query(
        "SELECT table_name, parent_table_name, on_delete_action FROM information_schema.tables
         WHERE parent_table_name IS NOT NULL ORDER BY table_name",
    );
    let columns = query(
        "SELECT column_name, ordinal_position, column_ordering FROM information_schema.index_columns
         WHERE index_name = 'by_city' ORDER BY column_name",
    );
    let found = world.client.execute_sql(tables).await.unwrap().into_inner();
    let expected = ["invoice customer NO ACTION", "line orders CASCADE", "orders customer CASCADE"];
    assert_eq!(rows(&found), expected);
    let found = world.client.execute_sql(columns).await.unwrap().into_inner();
    assert_eq!(rows(&found), ["age NULL NULL", "city 1 DESC"]);
}
