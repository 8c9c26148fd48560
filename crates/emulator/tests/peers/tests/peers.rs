//! The community's Spanner client, and on it the lock library `spindle_rs`, on the emulator.

use std::process::{Child, Command};
use std::sync::mpsc::channel;
use std::time::Duration;

use google_cloud_gax::conn::Environment;
use google_cloud_spanner::client::{Client, ClientConfig};
use google_cloud_spanner::mutation::insert;
use google_cloud_spanner::statement::Statement;
use google_cloud_spanner::value::CommitTimestamp;
use spindle_emulator::{Emulator, engine};

const DATABASE: &str = "projects/p/instances/i/databases/d";
const DDL: &str = "
    CREATE TABLE locktable (
      name STRING(MAX) NOT NULL,
      heartbeat TIMESTAMP OPTIONS (allow_commit_timestamp=true),
      token TIMESTAMP OPTIONS (allow_commit_timestamp=true),
      writer STRING(MAX),
    ) PRIMARY KEY (name)";
const LEASE: Duration = Duration::from_secs(1);
/// Longer than anything here takes, also on a machine that is busy with something else.
const TIME_LIMIT: Duration = Duration::from_secs(120);

async fn start() -> Emulator {
    let emulator = Emulator::start().await.expect("a free port");
    emulator.create_database(DATABASE, DDL).await.expect("valid DDL");
    emulator
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_community_client_writes_reads_and_counts() {
    let emulator = start().await;
    let config = ClientConfig {
        environment: Environment::Emulator(emulator.address().to_string()),
        ..ClientConfig::default()
    };
    let client = Client::new(DATABASE, config).await.expect("a client");
    let columns = ["name", "token", "writer"];
    let row = insert("locktable", &columns, &[&"job", &CommitTimestamp::new(), &"a"]);
    let committed = client.apply(vec![row]).await.expect("applied").timestamp;

    let (_, written) = client
        .read_write_transaction(|transaction| {
            Box::pin(async move {
                let mut update =
                    Statement::new("UPDATE locktable SET writer = @writer WHERE name = 'job'");
                update.add_param("writer", &"b");
                Ok::<i64, google_cloud_spanner::client::Error>(transaction.update(update).await?)
            })
        })
        .await
        .expect("updated");
    assert_eq!(written, 1);

    let mut reader = client.single().await.expect("a session");
    let mut query = Statement::new("SELECT token, writer FROM locktable WHERE name = @name");
    query.add_param("name", &"job");
    let mut rows = reader.query(query).await.expect("a result");
    let row = rows.next().await.expect("no error").expect("a row");
    assert_eq!(row.column_by_name::<String>("writer").expect("text"), "b");
    let token = row.column_by_name::<CommitTimestamp>("token").expect("a timestamp");
    assert_eq!(token.unix_timestamp(), committed.expect("committed").seconds);
    client.close().await;
    emulator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spindle_rs_acquires_heartbeats_and_takes_over() {
    let emulator = start().await;
    let mut first = contender(&emulator, "a");
    let (acquired, heartbeat) = wait_for(&emulator, |row| is(row, "writer", "a")).await;
    let (same, later) = wait_for(&emulator, |row| row["heartbeat"] > heartbeat).await;
    assert_eq!(same, acquired, "a heartbeat leaves the token");

    let mut second = contender(&emulator, "b");
    first.kill().expect("killed");
    first.wait().expect("it has ended");
    let (taken_over, _) = wait_for(&emulator, |row| is(row, "writer", "b")).await;
    assert!(taken_over > acquired);
    let (_, last) = wait_for(&emulator, |row| row["heartbeat"] > later).await;
    assert!(last > later);
    second.kill().expect("killed");
    second.wait().expect("it has ended");
    emulator.stop().await;
}

/// Starts a contender for the lock in a process of its own. `spindle_rs` finds its server in the
/// environment, and a crash of it should be one.
fn contender(emulator: &Emulator, id: &str) -> Child {
    let this = std::env::current_exe().expect("a test has a path");
    Command::new(this)
        .args(["--ignored", "--exact", "contend"])
        .env("SPANNER_EMULATOR_HOST", emulator.address().to_string())
        .env("CONTENDER", id)
        .spawn()
        .expect("started")
}

#[test]
#[ignore = "what the processes of another test do"]
fn contend() {
    let Ok(id) = std::env::var("CONTENDER") else { return };
    let (leader, changes) = channel();
    let mut lock = spindle_rs::LockBuilder::new()
        .db(DATABASE.into())
        .table("locktable".into())
        .name("job".into())
        .id(id)
        .lease_ms(LEASE.as_millis() as u64)
        .leader_tx(Some(leader))
        .build();
    lock.run().expect("running");
    while changes.recv_timeout(TIME_LIMIT).is_ok() {}
}

type LockRow = std::collections::BTreeMap<String, engine::Value>;

fn is(row: &LockRow, column: &str, text: &str) -> bool {
    row[column] == engine::Value::from(text)
}

/// Waits until the lock's row is as wanted, and gives its token and its heartbeat.
async fn wait_for(
    emulator: &Emulator,
    wanted: impl Fn(&LockRow) -> bool,
) -> (engine::Value, engine::Value) {
    let database = emulator.database(DATABASE).expect("it was created");
    let seen = async {
        loop {
            let rows = database.rows("locktable").expect("the table");
            let lock = rows.into_iter().find(|row| is(row, "name", "job"));
            if let Some(row) = lock.filter(|row| wanted(row)) {
                return (row["token"].clone(), row["heartbeat"].clone());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIME_LIMIT, seen).await.expect("the row does not get there")
}
