//! Reads: which rows, of which moment.

use spindle_emulator::engine;

use super::*;

#[tokio::test]
async fn an_exact_moment_shows_what_was_there_then() {
    let mut world = World::start().await;
    world.commit_once([insert(1)]).await.unwrap();
    world.emulator.advance(Duration::from_secs(10));
    let second = world.commit_once([insert(2)]).await.unwrap().commit_timestamp.unwrap();
    let five_seconds = prost_types::Duration { seconds: 5, nanos: 0 };
    for (bound, count) in [
        (ago(5), 1),
        (TimestampBound::ReadTimestamp(second), 2),
        (TimestampBound::MaxStaleness(five_seconds), 2),
        (TimestampBound::MinReadTimestamp(second), 2),
    ] {
        assert_eq!(world.users(Some(at(bound))).await.unwrap().rows.len(), count, "{bound:?}");
    }
}

#[tokio::test]
async fn nobody_reads_further_back_than_versions_are_kept() {
    let builder = Emulator::builder().version_retention(Duration::from_secs(60));
    let mut world = World::on(builder.start().await.unwrap(), false).await;
    world.emulator.advance(Duration::from_secs(120));
    assert!(world.users(Some(at(ago(59)))).await.is_ok());
    assert_eq!(code(world.users(Some(at(ago(61)))).await), Code::FailedPrecondition);
}

#[tokio::test]
async fn a_moment_has_the_schema_of_its_time() {
    let mut world = World::start().await;
    let before = world.commit_once([insert(1)]).await.unwrap().commit_timestamp.unwrap();
    let then = || Some(at(TimestampBound::ReadTimestamp(before)));
    change(&world, "CREATE TABLE later (id INT64) PRIMARY KEY (id)").unwrap();
    assert_eq!(world.users(then()).await.unwrap().rows.len(), 1, "others don't matter");
    assert_eq!(code(world.read("later", &["id"], all(), then()).await), Code::NotFound);
    let error = world.execute("SELECT * FROM later", 0, then()).await.unwrap_err();
    assert!(error.message().contains("Table not found"), "{error}");
    change(&world, "ALTER TABLE users ALTER COLUMN name STRING(MAX)").unwrap();
    assert_eq!(world.users(then()).await.unwrap().rows.len(), 1, "its rows are as they were");
    change(&world, "ALTER TABLE users ADD COLUMN more INT64").unwrap();
    let found = world.execute("SELECT * FROM users", 0, then()).await.unwrap();
    let fields = found.metadata.unwrap().row_type.unwrap().fields;
    assert!(fields.iter().all(|field| field.name != "more"));
    let read = world.read("users", &["more"], all(), then()).await;
    assert_eq!(code(read), Code::NotFound);
    for text in ["ALTER TABLE users DROP COLUMN age", "ALTER TABLE users ADD COLUMN age INT64"] {
        change(&world, text).unwrap();
        assert_eq!(code(world.users(then()).await), Code::Unimplemented, "{text}");
    }
    let read = world.read("USERS", &["id", "name"], all(), then()).await.unwrap();
    assert_eq!(rows(&read), ["1 NULL"]);
    assert_eq!(world.users(None).await.unwrap().rows.len(), 1);
    change(&world, "DROP TABLE later").unwrap();
    assert_eq!(code(world.read("later", &["id"], all(), None).await), Code::NotFound);
}

#[tokio::test]
async fn a_moment_before_the_only_table_was_dropped_does_not_show_another_of_its_name() {
    let emulator = Emulator::start().await.unwrap();
    let ddl = "CREATE TABLE only (id INT64) PRIMARY KEY (id)";
    let database = emulator.create_database(DATABASE, ddl).await.unwrap();
    let moment = database.read_timestamp(engine::TimestampBound::Strong).unwrap();
    for ddl in ["DROP TABLE only", ddl] {
        database.change_schema(&spindle_emulator::sql::parse_ddl(ddl).unwrap()).unwrap();
    }
    let error = database.read_at(moment, engine::Read::all("only", ["id"])).await.unwrap_err();
    assert_eq!(error.code(), engine::Code::Unimplemented);
}

#[tokio::test]
async fn a_moment_must_be_valid_and_at_most_an_hour_ago() {
    let mut world = World::start().await;
    let committed = world.commit_once([insert(1)]).await.unwrap().commit_timestamp.unwrap();
    let year_one = prost_types::Timestamp { seconds: -62_135_596_800, nanos: 0 };
    let then = |moment| Some(at(TimestampBound::ReadTimestamp(moment)));
    assert_eq!(code(world.users(then(year_one)).await), Code::InvalidArgument);
    world.users(then(committed)).await.unwrap();
    world.emulator.advance(Duration::from_secs(3_602));
    world.change_session().await;
    let error = world.users(then(committed)).await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    assert!(error.message().contains("has exceeded the maximum timestamp staleness"), "{error}");
}

#[tokio::test]
async fn a_stream_begins_before_its_error() {
    let mut world = World::start().await;
    let query = world.statement("SELECT nothing");
    let stream = world.client.execute_streaming_sql(query).await;
    assert_eq!(code(stream.unwrap().into_inner().message().await), Code::InvalidArgument);
    let stream = world.client.streaming_read(world.read_request("nothing", &["id"])).await;
    assert_eq!(code(stream.unwrap().into_inner().message().await), Code::NotFound);
}
