//! A server, a lock table, and contenders, on one virtual clock.

use std::time::Duration;

use spindle::google_cloud_spanner::client::{DatabaseClient, Spanner};
use spindle::google_cloud_spanner::key;
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::value::Timestamp;
use spindle::testing::Clock;
use spindle::{CancellationToken, FencingToken, LockBuilder, LockTable, RunHandle, Spindle};
use spindle_emulator::{Effect, Emulator, Fault, Rpc};
use tokio::time::{Instant, sleep, timeout};

pub const DATABASE: &str = "projects/p/instances/i/databases/d";
pub const LEASE: Duration = Duration::from_secs(10);
pub const LOCK: &str = "job";

/// A bound for what must happen, far beyond any lease; on the virtual clock it costs nothing.
pub const EVENTUALLY: Duration = Duration::from_secs(300);

pub const OPTIONAL_COLUMNS: &str = include_str!("../../ddl/googlesql.sql");

pub struct World {
    pub spanner: Emulator,
}

/// One instance that runs, with what ends it.
pub struct Contender {
    pub lock: Spindle,
    pub cancel: CancellationToken,
    pub running: RunHandle,
}

/// A row of the lock table as it stands there.
#[derive(Clone, Debug, PartialEq)]
pub struct RawRow {
    pub heartbeat: Option<i128>,
    pub token: Option<i128>,
    pub writer: Option<String>,
}

impl World {
    pub async fn start() -> World {
        World::with_table(OPTIONAL_COLUMNS).await
    }

    pub async fn with_table(ddl: &str) -> World {
        let spanner = Emulator::start().await.unwrap();
        let orders = "CREATE TABLE orders (id STRING(MAX) NOT NULL) PRIMARY KEY (id)";
        spanner.create_database(DATABASE, &format!("{ddl};\n{orders}")).await.unwrap();
        World { spanner }
    }

    /// The lock table by a connection of its own: each call is another process, so to speak.
    pub fn table(&self) -> LockTable {
        LockTable::connect_to(self.spanner.endpoint(), DATABASE, "locktable")
    }

    pub fn lock(&self, id: &str) -> LockBuilder {
        self.lock_named(LOCK, id)
    }

    pub fn lock_named(&self, name: &str, id: &str) -> LockBuilder {
        self.table().lock(name).id(id).lease(LEASE).clock(Clock::runtime())
    }

    pub fn contend(&self, id: &str) -> Contender {
        Contender::run(self.lock(id))
    }

    /// An instance that holds the lock.
    pub async fn elect(&self, id: &str) -> Contender {
        let contender = self.contend(id);
        contender.holds().await;
        contender
    }

    /// The session of whoever heartbeats now.
    pub async fn holders_session(&self) -> String {
        let requests = self.spanner.requests();
        requests.reset();
        until("the holder sends a heartbeat", || {
            let sessions = requests.sessions();
            sessions.into_iter().find(|session| requests.of_session(session, Rpc::Commit) > 0)
        })
        .await
    }

    /// From here on Spanner hears nothing of the holder any more, as after a SIGKILL, until its
    /// process replaces its client half a minute later.
    pub async fn crash(&self, holder: &Contender) {
        assert!(holder.lock.has_lock().is_some(), "only a holder is known by its commits");
        let session = self.holders_session().await;
        self.spanner.inject(Fault::any().session(session).effect(Effect::Stall));
    }

    /// A client of the test's own, to look at the table and to edit it by hand.
    pub async fn client(&self) -> DatabaseClient {
        let spanner = Spanner::builder().with_endpoint(self.spanner.endpoint());
        let spanner = spanner.build().await.unwrap();
        spanner.database_client(DATABASE).build().await.unwrap()
    }

    pub async fn row(&self, name: &str) -> Option<RawRow> {
        let columns = vec!["heartbeat", "token", "writer"];
        let keys = KeySet::builder().add_key(key![name.to_string()]).build();
        let read = ReadRequest::builder("locktable", columns).with_keys(keys).build();
        let client = self.client().await;
        let mut rows = client.single_use().build().execute_read(read).await.unwrap();
        let row = rows.next().await.transpose().unwrap()?;
        let time = |column: &str| row.get::<Option<Timestamp>>(column).unwrap().map(nanoseconds);
        Some(RawRow {
            heartbeat: time("heartbeat"),
            token: time("token"),
            writer: row.get("writer").unwrap(),
        })
    }

    /// The names of all rows, takeover rows included.
    pub async fn names(&self) -> Vec<String> {
        let read = ReadRequest::builder("locktable", vec!["name"]).with_keys(KeySet::all()).build();
        let client = self.client().await;
        let mut rows = client.single_use().build().execute_read(read).await.unwrap();
        let mut names = Vec::new();
        while let Some(row) = rows.next().await.transpose().unwrap() {
            names.push(row.get("name").unwrap());
        }
        names
    }

    /// Writes past the library.
    pub async fn write(&self, mutation: Mutation) {
        self.write_all([mutation]).await;
    }

    pub async fn write_all(&self, mutations: impl IntoIterator<Item = Mutation>) {
        let mutations: Vec<Mutation> = mutations.into_iter().collect();
        let client = self.client().await;
        client.write_only_transaction().build().write(mutations).await.unwrap();
    }

    pub async fn delete_row(&self, name: &str) {
        let keys = KeySet::builder().add_key(key![name.to_string()]).build();
        self.write(Mutation::delete("locktable", keys)).await;
    }
}

impl Contender {
    pub fn run(builder: LockBuilder) -> Contender {
        let lock = builder.build().unwrap();
        let cancel = CancellationToken::new();
        let running = lock.run(cancel.clone());
        Contender { lock, cancel, running }
    }

    /// Waits until this one holds.
    pub async fn holds(&self) -> FencingToken {
        until("it holds", || self.lock.has_lock()).await
    }

    pub async fn holds_no_more(&self) {
        until("it holds no more", || self.lock.has_lock().is_none().then_some(())).await;
    }

    /// Cancels it and waits until it has ended.
    pub async fn stop(self) {
        self.cancel.cancel();
        timeout(EVENTUALLY, self.running).await.expect("it ends").unwrap();
    }

    /// Returns true if it runs without holding.
    pub fn is_standby(&self) -> bool {
        self.lock.has_lock().is_none()
    }
}

/// Waits for a condition.
pub async fn until<T>(what: &str, condition: impl Fn() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(found) = condition() {
                return found;
            }
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(EVENTUALLY, waiting).await.unwrap_or_else(|_| panic!("never: {what}"))
}

/// How long something took on the virtual clock.
pub async fn timed<T>(action: impl Future<Output = T>) -> (T, Duration) {
    let start = Instant::now();
    let result = action.await;
    (result, start.elapsed())
}

pub fn nanoseconds(timestamp: Timestamp) -> i128 {
    i128::from(timestamp.seconds()) * 1_000_000_000 + i128::from(timestamp.nanos())
}
