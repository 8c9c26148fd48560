//! Writes: what is accepted, and what becomes of it.

use super::*;

async fn outcome(world: &mut World, operation: Operation) -> Result<(), (Code, String)> {
    let committed = world.commit_once([mutation(operation)]).await;
    committed.map(|_| ()).map_err(|error| (error.code(), error.message().to_owned()))
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
