//! Tables that belong together, and indexes: what each commit keeps true.

use std::time::Duration;

use super::*;

const DDL: &str = "
    CREATE TABLE customer (id INT64 NOT NULL, email STRING(MAX), city STRING(MAX), age INT64)
      PRIMARY KEY (id);
    CREATE UNIQUE INDEX by_email ON customer (email);
    CREATE INDEX by_city ON customer (city DESC) STORING (age)";

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

/// The rows of `customer` that have their key in an index in these ranges.
async fn by(
    world: &mut World,
    index: &str,
    column: &str,
    keys: proto::KeySet,
    selector: Option<Selector>,
) -> Result<Vec<String>, Status> {
    let request = proto::ReadRequest {
        transaction: selected(selector),
        index: index.into(),
        key_set: Some(keys),
        ..world.read_request("customer", &[column])
    };
    Ok(rows(&world.client.read(request).await?.into_inner()))
}

#[tokio::test]
async fn an_index_over_rows_that_are_there_shows_them_from_its_creation_on() {
    let mut world = start().await;
    world.commit_once([customer(1, None, Some("a"), 5)]).await.unwrap();
    world.emulator.advance(Duration::from_secs(10));
    world.commit_once([customer(1, None, Some("a"), 6)]).await.unwrap();
    change(&world, "CREATE INDEX by_age ON customer (age)").unwrap();
    let then = || Some(at(ago(5)));
    let before = by(&mut world, "by_age", "age", all(), then()).await;
    assert_eq!(code(before), Code::NotFound, "it wasn't there then");
    assert_eq!(by(&mut world, "by_age", "age", all(), None).await.unwrap(), ["6"]);
    world.emulator.advance(Duration::from_secs(10));
    world.commit_once([customer(1, None, Some("a"), 7)]).await.unwrap();
    assert_eq!(by(&mut world, "by_age", "age", all(), then()).await.unwrap(), ["6"]);
    change(&world, "DROP INDEX by_age").unwrap();
    assert_eq!(code(by(&mut world, "by_age", "age", all(), None).await), Code::NotFound);
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
    let range = proto::KeyRange {
        start_key_type: Some(proto::key_range::StartKeyType::StartClosed(list([text("p")]))),
        end_key_type: Some(proto::key_range::EndKeyType::EndClosed(list([text("b")]))),
    };
    let keys = proto::KeySet { ranges: vec![range], ..Default::default() };
    let read = by(&mut world, "by_city", "id", keys, Some(Selector::Id(id.clone()))).await;
    assert_eq!(read.unwrap(), ["2"]);
    let outside = [customer(1, Some("a"), Some("aa"), 1), customer(3, Some("c"), Some("y"), 3)];
    at_once(world.commit_once(outside)).await;
    waits(world.commit_once([customer(4, Some("d"), Some("n"), 4)])).await;
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
    at_once(world.commit_once(others)).await;
    waits(world.commit_once([customer(2, Some("b"), Some("m"), 8)])).await;
    assert_eq!(rows(&world.execute(query, 2, own).await.unwrap()), ["2"]);
    world.commit(&id, []).await.unwrap();
}
