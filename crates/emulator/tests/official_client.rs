//! The emulator as Google's own client sees it.

#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::time::Duration;

use google_cloud_gax::error::rpc::{Code, StatusDetails};
use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_spanner::builder::SpannerBuilderExt;
use google_cloud_spanner::channel_pool::StaticChannelPoolConfig;
use google_cloud_spanner::client::{DatabaseClient, Spanner};
use google_cloud_spanner::key;
use google_cloud_spanner::key::KeySet;
use google_cloud_spanner::mutation::Mutation;
use google_cloud_spanner::read::ReadRequest;
use google_cloud_spanner::transaction::{BasicTransactionRetryPolicy, ReadWriteTransaction};
use tokio::io::{AsyncBufReadExt, BufReader};

use spindle_emulator::{Effect, Emulator, Fault, Restart, Rpc, engine};

const DATABASE: &str = "projects/p/instances/i/databases/d";
const DDL: &str = "
    CREATE TABLE locktable (
      name STRING(MAX) NOT NULL,
      heartbeat TIMESTAMP OPTIONS (allow_commit_timestamp=true),
      token TIMESTAMP OPTIONS (allow_commit_timestamp=true),
      writer STRING(MAX),
      lease_ms INT64,
    ) PRIMARY KEY (name)";

struct World {
    emulator: Emulator,
    client: DatabaseClient,
}

impl World {
    async fn start() -> World {
        let emulator = Emulator::start().await.unwrap();
        emulator.create_database(DATABASE, DDL).await.unwrap();
        let client = connect(&emulator).await;
        World { emulator, client }
    }

    fn database(&self) -> engine::Database {
        self.emulator.database(DATABASE).unwrap()
    }

    /// Commits once, and says with which code it failed if it did. `None` in place of a code means
    /// that no status was received.
    async fn write(&self, mutation: Mutation) -> Result<(), Option<Code>> {
        let runner = self
            .client
            .read_write_transaction()
            .with_commit_retry_policy(NeverRetry)
            .with_commit_attempt_timeout(Duration::from_secs(2))
            .with_retry_policy(BasicTransactionRetryPolicy::new().with_max_attempts(1))
            .build();
        let written = runner
            .run(move |transaction: ReadWriteTransaction| {
                let mutation = mutation.clone();
                async move { transaction.buffer([mutation]) }
            })
            .await;
        written.map(|_| ()).map_err(|error| error.status().map(|status| status.code))
    }

    fn writers(&self) -> Vec<engine::Value> {
        let rows = self.database().rows("locktable").unwrap();
        rows.into_iter().map(|row| row["writer"].clone()).collect()
    }
}

async fn connect(emulator: &Emulator) -> DatabaseClient {
    connect_to(emulator.endpoint()).await
}

async fn connect_to(endpoint: String) -> DatabaseClient {
    let spanner = Spanner::builder()
        .with_endpoint(endpoint)
        .with_channel_pool(StaticChannelPoolConfig::new(1))
        .build()
        .await
        .unwrap();
    spanner.database_client(DATABASE).build().await.unwrap()
}

fn acquire(name: &str, writer: &str) -> Mutation {
    Mutation::new_insert_builder("locktable")
        .set("name")
        .to(name)
        .set("heartbeat")
        .to("spanner.commit_timestamp()")
        .set("token")
        .to("spanner.commit_timestamp()")
        .set("writer")
        .to(writer)
        .build()
}

fn look(name: &str) -> ReadRequest {
    ReadRequest::builder("locktable", ["name", "token", "heartbeat", "writer", "lease_ms"])
        .with_keys(KeySet::builder().add_key(key![name]).build())
        .build()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_was_written_is_read_with_a_timestamp_not_before_its_commit() {
    let world = World::start().await;
    let mutation = acquire("job", "a");
    let committed = world
        .client
        .write_only_transaction()
        .build()
        .write_at_least_once(vec![mutation])
        .await
        .unwrap();
    let reads = world.client.read_only_transaction().build().await.unwrap();
    let mut rows = reads.execute_read(look("job")).await.unwrap();
    let row = rows.next().await.transpose().unwrap().unwrap();
    let token = row.get::<Option<google_cloud_wkt::Timestamp>>("token").unwrap();
    assert_eq!(token, committed.commit_timestamp);
    assert_eq!(row.get::<Option<String>>("writer").unwrap().as_deref(), Some("a"));
    assert_eq!(row.get::<Option<i64>>("lease_ms").unwrap(), None);
    assert!(reads.read_timestamp() >= committed.commit_timestamp);

    let missing = world.client.read_only_transaction().build().await.unwrap();
    let mut rows = missing.execute_read(look("other")).await.unwrap();
    assert!(missing.read_timestamp().is_some());
    assert!(rows.next().await.is_none());
    world.emulator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_session_is_told_from_a_missing_row_by_its_details() {
    let world = World::start().await;
    world.emulator.restart(Restart::keep().lose_sessions()).await.unwrap();
    let read = world.client.single_use().build().execute_read(look("job")).await;
    let error = read.err().unwrap();
    let status = error.status().unwrap();
    assert_eq!(status.code, Code::NotFound);
    assert!(status.message.starts_with("Session not found: "), "{}", status.message);
    assert!(matches!(status.details.first(), Some(StatusDetails::ResourceInfo(_))));

    let again = connect(&world.emulator).await;
    again.single_use().build().execute_read(look("job")).await.unwrap();
    world.emulator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_leaves_the_write_applied_and_the_sender_in_the_dark() {
    let world = World::start().await;
    let lost = Fault::on(Rpc::Commit).table("locktable").key("job").effect(Effect::LoseReply);
    let fault = world.emulator.inject(lost);
    assert_eq!(world.write(acquire("job", "a")).await, Err(None));
    assert_eq!(fault.hits(), 1);
    assert_eq!(world.writers(), [engine::Value::from("a")]);
    fault.remove();
    world.write(acquire("other", "a")).await.unwrap();
    world.emulator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_request_is_applied_after_its_sender_gave_up() {
    let world = World::start().await;
    let late = Effect::ApplyLate { after: Duration::from_secs(1) };
    world.emulator.inject(Fault::on(Rpc::Commit).times(1).effect(late));
    assert_eq!(world.write(acquire("job", "a")).await, Err(Some(Code::Unavailable)));
    assert!(world.writers().is_empty());
    while world.writers().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    world.emulator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_connection_or_a_stall_applies_nothing() {
    let world = World::start().await;
    for effect in [Effect::DropConnection, Effect::Stall] {
        let fault = world.emulator.inject(Fault::on(Rpc::Commit).times(1).effect(effect));
        assert!(world.write(acquire("job", "a")).await.is_err(), "{effect:?}");
        assert_eq!(fault.hits(), 1);
        assert!(world.writers().is_empty(), "{effect:?}");
    }
    for effect in [Effect::Fail(engine::Code::Internal), Effect::Abort] {
        world.emulator.inject(Fault::on(Rpc::Commit).times(1).effect(effect));
        assert!(world.write(acquire("job", "a")).await.is_err(), "{effect:?}");
        assert!(world.writers().is_empty(), "{effect:?}");
    }
    world.write(acquire("job", "a")).await.unwrap();
    world.emulator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_counted_as_documented_for_the_client() {
    let world = World::start().await;
    let requests = world.emulator.requests();
    assert_eq!((requests.get(Rpc::CreateSession), requests.total()), (1, 1));
    requests.reset();
    let reads = world.client.read_only_transaction().build().await.unwrap();
    reads.execute_read(look("job")).await.unwrap();
    assert_eq!((requests.get(Rpc::StreamingRead), requests.total()), (1, 1));
    requests.reset();
    world.write(acquire("job", "a")).await.unwrap();
    assert_eq!(requests.get(Rpc::BeginTransaction), 1);
    assert_eq!((requests.get(Rpc::Commit), requests.total()), (1, 2));
    world.emulator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_says_where_it_listens_and_ends_when_it_is_told_to() {
    let directory = std::env::temp_dir().join(format!("spindle-emulator-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let ddl = directory.join("schema.sql");
    std::fs::write(&ddl, DDL).unwrap();
    let program = env!("CARGO_BIN_EXE_spindle-emulator");
    let mut running = tokio::process::Command::new(program)
        .args(["--port", "0", "--database", DATABASE, "--ddl"])
        .arg(&ddl)
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    let address = line.strip_prefix("export SPANNER_EMULATOR_HOST=").unwrap().to_owned();
    let client = connect_to(format!("http://{address}")).await;
    client.single_use().build().execute_read(look("job")).await.unwrap();

    let (_, port) = address.rsplit_once(':').unwrap();
    let second =
        tokio::process::Command::new(program).args(["--port", port]).output().await.unwrap();
    let error = String::from_utf8(second.stderr).unwrap();
    assert!(!second.status.success());
    assert!(error.contains(&format!("port {port} of 127.0.0.1 is taken")), "{error}");

    let id = running.id().unwrap().to_string();
    let told = tokio::process::Command::new("kill").args(["-TERM", &id]).status().await.unwrap();
    assert!(told.success());
    assert!(running.wait().await.unwrap().success());
    std::fs::remove_dir_all(&directory).unwrap();
}
