//! Writes: what is accepted, and what becomes of it.

use super::*;

type Wrap = fn(Write) -> Operation;

async fn outcome(world: &mut World, operation: Operation) -> Result<(), (Code, String)> {
    let committed = world.commit_once([mutation(operation)]).await;
    committed.map(|_| ()).map_err(|error| (error.code(), error.message().to_owned()))
}

#[tokio::test]
async fn each_operation_expects_what_it_expects() {
    let mut world = World::start().await;
    let named = |id: &str, name| write("users", ["id", "name"], [text(id), text(name)]);
    let aged = |id: &str, age| write("users", ["id", "age"], [text(id), text(age)]);
    let ok: [(Wrap, Write, &str); 6] = [
        (Operation::Insert, named("1", "a"), "1 a NULL"),
        (Operation::Update, aged("1", "30"), "1 a 30"),
        (Operation::InsertOrUpdate, named("1", "b"), "1 b 30"),
        (Operation::Replace, named("1", "c"), "1 c NULL"),
        (Operation::InsertOrUpdate, aged("2", "4"), "2 NULL 4"),
        (Operation::Replace, named("3", "d"), "3 d NULL"),
    ];
    for (wrap, write, expected) in ok {
        outcome(&mut world, wrap(write)).await.unwrap();
        let read = world.users(None).await.unwrap();
        assert!(rows(&read).contains(&expected.to_owned()), "{expected}: {:?}", rows(&read));
    }
    let (code, message) =
        outcome(&mut world, Operation::Insert(named("1", "x"))).await.unwrap_err();
    assert_eq!(code, Code::AlreadyExists);
    assert_eq!(message, "Table users: Row {Int64(1)} already exists.");
    let (code, message) =
        outcome(&mut world, Operation::Update(named("9", "x"))).await.unwrap_err();
    assert_eq!(
        (code, message.as_str()),
        (Code::NotFound, "Table users: Row {Int64(9)} not found.")
    );
}

#[tokio::test]
async fn deleting_takes_keys_ranges_or_everything_and_minds_nothing() {
    let mut world = World::start().await;
    world.commit_once((1..=6).map(insert).collect::<Vec<_>>()).await.unwrap();
    let key = |id: &str| list([text(id)]);
    let delete = |key_set| {
        Operation::Delete(proto::mutation::Delete { table: "users".into(), key_set: Some(key_set) })
    };
    let keys = proto::KeySet { keys: vec![key("1"), key("99")], ..Default::default() };
    outcome(&mut world, delete(keys)).await.unwrap();
    let range = proto::KeyRange {
        start_key_type: Some(proto::key_range::StartKeyType::StartClosed(key("3"))),
        end_key_type: Some(proto::key_range::EndKeyType::EndOpen(key("5"))),
    };
    let keys = proto::KeySet { ranges: vec![range], ..Default::default() };
    outcome(&mut world, delete(keys)).await.unwrap();
    assert_eq!(world.ids().await, ["2", "5", "6"]);
    outcome(&mut world, delete(all())).await.unwrap();
    assert!(world.ids().await.is_empty());
}

#[tokio::test]
async fn mutations_of_one_commit_apply_in_order_and_together() {
    let mut world = World::start().await;
    world.commit_once([insert(1), update(1, "a"), update(1, "b")]).await.unwrap();
    let failed = world.commit_once([update(1, "c"), insert(2), insert(2)]).await;
    assert_eq!(code(failed), Code::InvalidArgument);
    let failed = world.commit_once([update(1, "c"), insert(1)]).await;
    assert_eq!(code(failed), Code::AlreadyExists);
    assert_eq!(rows(&world.users(None).await.unwrap()), ["1 b NULL"]);
    let delete = proto::mutation::Delete { table: "users".into(), key_set: Some(all()) };
    let delete = mutation(Operation::Delete(delete));
    let failed = world.commit_once([delete.clone(), update(1, "d")]).await;
    assert_eq!(code(failed), Code::InvalidArgument);
    world.commit_once([delete, insert(1)]).await.unwrap();
    assert_eq!(rows(&world.users(None).await.unwrap()), ["1 NULL NULL"]);
}

#[tokio::test]
async fn values_must_fit_their_columns() {
    let mut world = World::start().await;
    let insert =
        |column, value| Operation::Insert(write("users", ["id", column], [text("1"), value]));
    let cases = [
        (insert("age", text("x")), Code::FailedPrecondition, "Could not parse \"x\" as INT64"),
        (
            insert("name", text("12345678901")),
            Code::FailedPrecondition,
            "New value exceeds the maximum size limit for this column: users.name, size: 11, limit: 10.",
        ),
        (
            Operation::Insert(write("users", ["name"], [text("a")])),
            Code::FailedPrecondition,
            "A new row in table users does not specify a non-null value for NOT NULL column: id",
        ),
        (
            Operation::Insert(write("users", ["id"], [null()])),
            Code::FailedPrecondition,
            "Cannot specify a null value for column: id in table: users",
        ),
        (
            Operation::Insert(write("users", ["id", "name", "age"], [text("1"), text("a")])),
            Code::InvalidArgument,
            "Mutation column and value size mismatch: Found: 3 columns and 2 values",
        ),
    ];
    for (operation, code, message) in cases {
        assert_eq!(outcome(&mut world, operation).await, Err((code, message.to_owned())));
    }
    outcome(&mut world, insert("name", text("äöüäöüäöüä"))).await.unwrap();
}

#[tokio::test]
async fn the_commit_timestamp_is_stored_as_it_is_answered() {
    let mut world = World::start().await;
    let sentinel = text("spanner.commit_timestamp()");
    let values = [text("1"), sentinel.clone()];
    let insert = Operation::Insert(write("users", ["id", "updated"], values));
    let committed = world.commit_once([mutation(insert)]).await.unwrap().commit_timestamp.unwrap();
    let stored = world.read("users", &["updated"], all(), None).await.unwrap();
    let stored: prost_types::Timestamp = rows(&stored)[0].parse().unwrap();
    assert_eq!(stored, committed);
    assert_eq!(committed.nanos % 1_000, 0, "microseconds");

    let refused = Operation::Insert(write("users", ["id", "name"], [text("2"), sentinel]));
    // In a STRING column it is a text like any other, and this one is too long.
    let (code, message) = outcome(&mut world, refused).await.unwrap_err();
    assert_eq!(code, Code::FailedPrecondition);
    assert!(message.starts_with("New value exceeds"), "{message}");
}

#[tokio::test]
async fn a_timestamp_in_the_future_is_refused_where_commit_timestamps_go() {
    let mut world = World::start().await;
    let values = [text("1"), text("9000-01-01T00:00:00Z")];
    let insert = Operation::Insert(write("users", ["id", "updated"], values));
    let (code, message) = outcome(&mut world, insert).await.unwrap_err();
    assert_eq!(code, Code::FailedPrecondition);
    assert!(message.starts_with("Cannot write timestamps in the future, found: "), "{message}");
    let values = [text("1"), text("2000-01-01T00:00:00Z")];
    let insert = Operation::Insert(write("users", ["id", "updated"], values));
    outcome(&mut world, insert).await.unwrap();
}

#[tokio::test]
async fn a_commit_timestamp_in_a_key_is_allowed_above_and_below_or_not_at_all() {
    let mut world = World::start().await;
    let stamped = "TIMESTAMP OPTIONS (allow_commit_timestamp = true)";
    for (name, above, below) in [("a", "TIMESTAMP", stamped), ("b", stamped, "TIMESTAMP")] {
        let ddl = format!(
            "CREATE TABLE {name} (made {above}) PRIMARY KEY (made);
             CREATE TABLE {name}2 (made {below}) PRIMARY KEY (made), INTERLEAVE IN PARENT {name}"
        );
        change(&world, &ddl).unwrap();
        for table in [name, &format!("{name}2")] {
            let values = [text("spanner.commit_timestamp()")];
            let insert = Operation::Insert(write(table, ["made"], values));
            let (code, message) = outcome(&mut world, insert).await.unwrap_err();
            assert!(code == Code::FailedPrecondition && message.contains("hierarchy"), "{message}");
        }
    }
}

#[tokio::test]
async fn a_column_with_a_timestamp_of_the_future_takes_no_commit_timestamps() {
    let mut world = World::start().await;
    change(
        &world,
        "ALTER TABLE users ALTER COLUMN updated SET OPTIONS (allow_commit_timestamp = null)",
    )
    .unwrap();
    let insert = |at: &str| write("users", ["id", "updated"], [text("1"), text(at)]);
    outcome(&mut world, Operation::Insert(insert("9999-01-01T00:00:00Z"))).await.unwrap();
    let allow =
        "ALTER TABLE users ALTER COLUMN updated SET OPTIONS (allow_commit_timestamp = true)";
    let error = change(&world, allow).unwrap_err();
    assert_eq!(error.code(), spindle_emulator::engine::Code::FailedPrecondition);
    outcome(&mut world, Operation::Update(insert("2000-01-01T00:00:00Z"))).await.unwrap();
    change(&world, allow).unwrap();
}

#[tokio::test]
async fn names_are_found_in_any_case() {
    let mut world = World::start().await;
    let insert = Operation::Insert(write("USERS", ["Id", "NAME"], [text("1"), text("a")]));
    outcome(&mut world, insert).await.unwrap();
    let read = world.read("Users", &["iD", "Name"], all(), None).await.unwrap();
    assert_eq!(rows(&read), ["1 a"]);
    let fields = read.metadata.unwrap().row_type.unwrap().fields;
    let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["id", "name"], "as the table has them");
}

#[tokio::test]
async fn commit_statistics_count_the_cells() {
    let mut world = World::start().await;
    let counted = async |world: &mut World, mutations: Vec<proto::Mutation>| {
        let request = proto::CommitRequest {
            session: world.session.clone(),
            transaction: Some(Wanted::SingleUseTransaction(read_write())),
            mutations,
            return_commit_stats: true,
            ..Default::default()
        };
        let committed = world.client.commit(request).await.unwrap().into_inner();
        committed.commit_stats.unwrap().mutation_count
    };
    assert_eq!(counted(&mut world, vec![insert(1), update(1, "a")]).await, 3);
    // An entry of an index counts when it comes and when it goes.
    change(&world, "CREATE INDEX by_name ON users (name)").unwrap();
    let delete = proto::mutation::Delete { table: "users".into(), key_set: Some(all()) };
    let delete = mutation(Operation::Delete(delete));
    // The second update changes no entry. One deletion of both rows takes both entries along.
    let mutations = [(insert(2), 2), (update(2, "b"), 4), (update(2, "b"), 2), (delete, 3)];
    for (mutation, count) in mutations {
        assert_eq!(counted(&mut world, vec![mutation]).await, count);
    }
}
