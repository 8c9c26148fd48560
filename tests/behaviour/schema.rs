//! The faults that the table, the database or the connection can have, each told apart.

use std::time::Duration;

use spindle::{Database, Error, LockTable};
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Emulator, Fault, Rpc};
use tokio::time::{sleep, timeout};

use crate::world::{
    Contender, DATABASE, EVENTUALLY, LEASE, LOCK, TABLE, World, lock_of, reserved, until,
};

async fn check(ddl: &str) -> Result<Vec<String>, Error> {
    World::with_table(ddl).await.table().check().await
}

#[tokio::test(start_paused = true)]
async fn the_table_of_the_ddl_folder_is_in_order() {
    check(include_str!("../../ddl/googlesql.sql")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_a_table_is_said_exactly() {
    let without = |line: &str| TABLE.replace(line, "");
    let with = |from: &str, to: &str| TABLE.replace(from, to);
    for (ddl, said) in [
        (with("locktable", "othertable"), "table `locktable` is not there"),
        (without("writer STRING(MAX),"), "has no column `writer`"),
        (without("lease_ms INT64,"), "ALTER TABLE locktable ADD COLUMN lease_ms INT64"),
        (without("info STRING(MAX),"), "ALTER TABLE locktable ADD COLUMN info STRING(MAX)"),
        (without("displaced TIMESTAMP,"), "ALTER TABLE locktable ADD COLUMN displaced TIMESTAMP"),
        (
            with("writer STRING(MAX)", "writer INT64"),
            "has `writer INT64`; expected `STRING(MAX)`: ALTER TABLE",
        ),
        (
            with(
                "heartbeat TIMESTAMP OPTIONS (allow_commit_timestamp=true)",
                "heartbeat STRING(MAX)",
            ),
            "has `heartbeat STRING(MAX)`",
        ),
        (
            with("token TIMESTAMP OPTIONS (allow_commit_timestamp=true)", "token TIMESTAMP"),
            "ALTER COLUMN token SET OPTIONS (allow_commit_timestamp=true)",
        ),
        (
            with("writer STRING(MAX)", "writer STRING(8)"),
            "ALTER TABLE locktable ALTER COLUMN writer STRING(MAX)",
        ),
        (
            with("token TIMESTAMP OPTIONS (allow_commit_timestamp=true)", "token STRING(MAX)"),
            "ALTER TABLE locktable ADD COLUMN token TIMESTAMP OPTIONS (allow_commit_timestamp=true)",
        ),
        (with("PRIMARY KEY (name)", "PRIMARY KEY (name, writer)"), "PRIMARY KEY (name)"),
    ] {
        let error = check(&ddl).await.unwrap_err();
        assert!(error.is_schema(), "{said}: {error:?}");
        assert!(error.to_string().contains(said), "expected `{said}`: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_table_that_comes_later_is_found_by_the_loop_that_went_on_trying() {
    let spanner = Emulator::start().await.unwrap();
    spanner.create_database(DATABASE, "").await.unwrap();
    let table = LockTable::new(Database::at(spanner.endpoint(), DATABASE), "locktable");
    let a = Contender::run(lock_of(&table, LOCK));
    let error = until("it says what is wrong", || a.lock.health().trouble.map(|it| it.error)).await;
    assert!(error.is_schema(), "{error:?}");
    assert!(!a.lock.health().is_ready());

    let world = World::on(spanner);
    world.alter(TABLE);
    a.holds().await;
    assert!(a.lock.health().is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_database_that_is_not_there_is_told_from_a_table_that_is_not_there() {
    let spanner = Emulator::start().await.unwrap();
    let elsewhere = "projects/p/instances/i/databases/elsewhere";
    let table = LockTable::new(Database::at(spanner.endpoint(), elsewhere), "locktable");
    let error = timeout(EVENTUALLY, table.check()).await.unwrap().unwrap_err();
    assert!(error.is_config() && error.to_string().contains("elsewhere"), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_without_read_timestamps_is_told_for_what_it_is_whatever_else_it_lacks() {
    for has_schema in [true, false] {
        let world = World::start().await;
        let hidden = Fault::on(Rpc::StreamingRead).effect(Effect::HideReadTimestamp);
        world.spanner.inject(hidden);
        if !has_schema {
            let silent = Fault::on(Rpc::ExecuteStreamingSql).effect(Effect::Fail(Code::Internal));
            world.spanner.inject(silent);
        }
        let error = world.table().check().await.unwrap_err();
        assert!(error.is_config() && error.to_string().contains("read timestamp"), "{error:?}");

        // The loop goes on trying, and says so; whoever asks is told at once.
        let a = world.contend("a");
        let trouble = until("it says what is wrong", || a.lock.health().trouble).await;
        assert!(trouble.error.to_string().contains("read timestamp"), "{trouble:?}");
        sleep(LEASE * 3).await;
        assert!(a.is_standby() && !a.lock.health().is_ready(), "{:?}", a.lock.health());
        let error = world.lock("b").build().unwrap().acquire().await.unwrap_err();
        assert!(error.is_config() && error.to_string().contains("read timestamp"), "{error:?}");
        a.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_by_permission_is_told_from_an_outage() {
    for (code, denied) in [(Code::PermissionDenied, true), (Code::Unavailable, false)] {
        for rpc in [Rpc::StreamingRead, Rpc::Commit] {
            let world = World::start().await;
            world.spanner.inject(Fault::on(rpc).table("locktable").effect(Effect::Fail(code)));
            let error = world.table().check().await.unwrap_err();
            assert_eq!(error.is_denied(), denied, "{rpc} {code:?}: {error:?}");
            assert!(!error.is_schema(), "{error:?}");
        }
    }
}

#[tokio::test]
async fn an_endpoint_with_tls_that_nobody_listens_on_is_an_error_and_no_panic() {
    let (_reserved, address) = reserved();
    let endpoint = format!("https://{address}");
    let client = spindle::google_cloud_spanner::client::Spanner::builder().with_endpoint(endpoint);
    let client = client.with_credentials(anonymous());
    let connecting = async move {
        let spanner = client.build().await.map_err(|error| error.to_string())?;
        let mut once = google_cloud_gax::options::RequestOptions::default();
        once.set_retry_policy(google_cloud_gax::retry_policy::NeverRetry);
        let client = spanner.database_client(DATABASE).with_request_options(once);
        client.build().await.map(|_| ()).map_err(|error| error.to_string())
    };
    // In a task, so that a panic inside the client would be seen as such.
    let ended = timeout(Duration::from_secs(60), tokio::spawn(connecting)).await.unwrap();
    assert!(ended.expect("no panic").is_err());
}

fn anonymous() -> google_cloud_auth::credentials::Credentials {
    google_cloud_auth::credentials::anonymous::Builder::new().build()
}
