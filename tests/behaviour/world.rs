//! A server, a lock table, and contenders, on one virtual clock.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, Once};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use spindle::google_cloud_spanner::client::{DatabaseClient, Spanner};
use spindle::google_cloud_spanner::key;
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::value::Timestamp;
use spindle::testing::Clock;
use spindle::{
    CancellationToken, Database, Fence, FencingToken, LockBuilder, LockTable, RunHandle, Spindle,
};
use spindle_emulator::engine::Code;
use spindle_emulator::engine::Value;
use spindle_emulator::{Effect, Emulator, Rpc};
use spindle_fleet::{Builder, Member, RwLock};
use tokio::net::TcpSocket;
use tokio::runtime::{Handle, Runtime};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::line::Line;

pub const DATABASE: &str = "projects/p/instances/i/databases/d";
pub const LEASE: Duration = Duration::from_secs(10);
pub const LOCK: &str = "job";

/// A bound for what must happen, far beyond any lease; on the virtual clock it costs nothing.
pub const EVENTUALLY: Duration = Duration::from_secs(300);

/// A port that refuses connections: bound without listening, so that nobody else comes to listen there.
pub fn reserved() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

pub const TABLE: &str = include_str!("../../ddl/googlesql.sql");

/// As other implementations make it, and no table that locks take.
pub const FOUR_COLUMNS: &str = include_str!("../four_columns.sql");

/// Each way in which a reply can be missing although the commit was applied.
pub const LOST: [Effect; 4] = [
    Effect::LoseReply,
    Effect::StallReply,
    Effect::FailAfterApplying(Code::Unavailable),
    Effect::FailAfterApplying(Code::Unknown),
];

pub struct World {
    pub spanner: Emulator,
    /// One for each process.
    lines: Mutex<Vec<Line>>,
    runtime: Handle,
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
    pub lease_ms: Option<i64>,
    /// The first in line.
    pub next: Option<String>,
}

/// Tests run side by side, and each line and each client is a file or more: together they are more than
/// the 1,024 that a shell allows at first.
fn raise_limit_of_files() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let maximum = getrlimit(Resource::Nofile).maximum;
        // It is a wish: where it is refused, tests that need more fail by themselves.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    });
}

impl World {
    pub async fn start() -> World {
        World::with_table(TABLE).await
    }

    pub async fn with_table(ddl: &str) -> World {
        let spanner = Emulator::start().await.unwrap();
        let orders = "CREATE TABLE orders (id STRING(MAX) NOT NULL) PRIMARY KEY (id)";
        spanner.create_database(DATABASE, &format!("{ddl};\n{orders}")).await.unwrap();
        World::on(spanner)
    }

    /// Changes the schema.
    pub fn alter(&self, statements: &str) {
        let database = self.spanner.database(DATABASE).unwrap();
        database.change_schema(&spindle_emulator::sql::parse_ddl(statements).unwrap()).unwrap();
    }

    pub fn on(spanner: Emulator) -> World {
        raise_limit_of_files();
        World { spanner, lines: Mutex::default(), runtime: Handle::current() }
    }

    /// A world in real time, on a runtime of its own, which nothing in the test blocks.
    pub fn elsewhere(ddl: &str) -> (Runtime, World) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let world = runtime.block_on(World::with_table(ddl));
        (runtime, world)
    }

    /// The lock table by a connection of its own: each call is another process, so to speak.
    pub fn table(&self) -> LockTable {
        LockTable::new(Database::at(self.line().endpoint(), DATABASE).side_by_side(), "locktable")
    }

    /// The line of a process of its own.
    pub fn line(&self) -> Line {
        let line = Line::to(&self.spanner, &self.runtime);
        self.lines.lock().unwrap().push(line.clone());
        line
    }

    pub fn lock(&self, id: &str) -> LockBuilder {
        lock_of(&self.table(), LOCK).id(id)
    }

    pub fn member(&self, id: &str) -> Builder<Member> {
        Member::new(&self.table(), "orders").id(id).lease(LEASE).clock(Clock::runtime())
    }

    pub fn rw_lock(&self, id: &str) -> Builder<RwLock> {
        RwLock::new(&self.table(), "catalogue").id(id).lease(LEASE).clock(Clock::runtime())
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

    /// Starts a process, and finds the session by which Spanner knows it.
    pub async fn known<T>(&self, start: impl FnOnce() -> T) -> (T, String) {
        let requests = self.spanner.requests();
        let before = requests.sessions();
        let started = start();
        let session = until("its process is heard of", || {
            requests.sessions().into_iter().find(|session| !before.contains(session))
        });
        (started, session.await)
    }

    /// The session of whoever heartbeats now.
    pub async fn holders_session(&self) -> String {
        let rows = || self.rows("locktable").iter().map(RawRow::of).collect::<Vec<_>>();
        let heartbeat = || rows().into_iter().filter_map(|row| row.heartbeat).max();
        let finding = async {
            loop {
                let last = heartbeat();
                self.spanner.requests().reset();
                while heartbeat() == last {
                    sleep(Duration::from_millis(10)).await;
                }
                let mut sessions = self.committing();
                // Others may have committed a place in line meanwhile: the next heartbeat tells, then.
                if let (Some(session), true) = (sessions.pop(), sessions.is_empty()) {
                    return session;
                }
            }
        };
        timeout(EVENTUALLY, finding).await.expect("the holder sends a heartbeat alone")
    }

    /// The sessions that have committed since the requests were counted anew.
    pub fn committing(&self) -> Vec<String> {
        let requests = self.spanner.requests();
        let sessions = requests.sessions().into_iter();
        sessions.filter(|session| requests.of_session(session, Rpc::Commit) > 0).collect()
    }

    /// From here on Spanner hears nothing of the process with this session any more, as after a
    /// SIGKILL, until its line is restored.
    pub fn cut_off(&self, session: &str) -> Line {
        let line = self.line_of(session).expect("a process has it");
        line.cut();
        line
    }

    /// The line of the process with this session; none where it is of a client of the test's own.
    pub fn line_of(&self, session: &str) -> Option<Line> {
        let lines = self.lines.lock().unwrap();
        lines.iter().find(|line| line.has_made(session)).cloned()
    }

    /// Cuts the holder off.
    pub async fn crash(&self, holder: &Contender) {
        assert!(holder.lock.has_lock().is_some(), "only a holder is known by its commits");
        self.cut_off(&self.holders_session().await);
    }

    /// The reads of one who waits beside a holder, and of fifty, in three leases.
    pub async fn reads_of_waiters<F>(&self, waits: impl Fn() -> F) -> [u64; 2]
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let requests = self.spanner.requests();
        let mut reads = [0, 0];
        for (waiters, reads) in [1, 50].into_iter().zip(&mut reads) {
            let _waiting: JoinSet<()> = (0..waiters).map(|_| waits()).collect();
            // The connection and the first poll are over then.
            sleep(LEASE).await;
            requests.reset();
            sleep(LEASE * 3).await;
            *reads = requests.get(Rpc::StreamingRead);
        }
        reads
    }

    /// A client of the test's own, to write past the library.
    pub async fn client(&self) -> DatabaseClient {
        let spanner = Spanner::builder().with_endpoint(self.spanner.endpoint());
        let spanner = spanner.build().await.unwrap();
        spanner.database_client(DATABASE).build().await.unwrap()
    }

    /// The rows as they stand there, for no request.
    fn rows(&self, table: &str) -> Vec<BTreeMap<String, Value>> {
        self.spanner.database(DATABASE).unwrap().rows(table).unwrap()
    }

    pub fn row(&self, name: &str) -> Option<RawRow> {
        let mut rows = self.rows("locktable").into_iter();
        rows.find(|row| text(&row["name"]).as_deref() == Some(name)).as_ref().map(RawRow::of)
    }

    /// The names of all rows, takeover rows included.
    pub fn names(&self) -> Vec<String> {
        self.rows("locktable").iter().filter_map(|row| text(&row["name"])).collect()
    }

    pub fn orders(&self) -> Vec<String> {
        self.rows("orders").iter().filter_map(|row| text(&row["id"])).collect()
    }

    /// Returns true if nobody has or had the lock, or it was released.
    pub fn is_released(&self) -> bool {
        self.row(LOCK).is_none_or(|row| row.heartbeat == Some(0))
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
        self.write(Mutation::delete("locktable", keys(name))).await;
    }
}

impl RawRow {
    fn of(row: &BTreeMap<String, Value>) -> RawRow {
        let time = |column: &str| match row[column] {
            Value::Timestamp(time) => Some(time.nanos()),
            _ => None,
        };
        let lease_ms = match row.get("lease_ms") {
            Some(Value::Int64(lease_ms)) => Some(*lease_ms),
            _ => None,
        };
        let (heartbeat, token) = (time("heartbeat"), time("token"));
        let next = row.get("next").and_then(text);
        RawRow { heartbeat, token, writer: text(&row["writer"]), lease_ms, next }
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        _ => None,
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
        until("it holds no more", || self.is_standby().then_some(())).await;
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

/// An instance that contends for the lock of the test.
pub fn spindle(world: &World, id: &str) -> Spindle {
    world.lock(id).build().unwrap()
}

/// A lock of this table, by the test's lease and the virtual clock.
pub fn lock_of(table: &LockTable, name: impl Into<String>) -> LockBuilder {
    table.lock(name).lease(LEASE).clock(Clock::runtime())
}

/// A holder, and one that stands by.
pub async fn pair() -> (World, Contender, Contender) {
    let world = World::start().await;
    let (a, b) = (world.elect("a").await, world.contend("b"));
    sleep(LEASE).await;
    (world, a, b)
}

/// A leader with its fence, and a client to write with.
pub async fn leader() -> (World, Contender, Fence, DatabaseClient) {
    let world = World::start().await;
    let a = world.elect("a").await;
    let fence = a.lock.term().unwrap().fence();
    let client = world.client().await;
    (world, a, fence, client)
}

/// The fence as another process has it: without the term, so that Spanner alone judges it.
pub fn travelled(fence: &Fence) -> Fence {
    let arrived = serde_json::from_str(&serde_json::to_string(fence).unwrap()).unwrap();
    assert_eq!(*fence, arrived);
    arrived
}

/// Cells of a row, as a peer or a manual edit may write them.
pub fn cells(name: &str, cells: &[(&str, &str)]) -> Mutation {
    let row = Mutation::new_insert_or_update_builder("locktable").set("name").to(name);
    cells.iter().fold(row, |row, (column, value)| row.set(*column).to(*value)).build()
}

pub const NOW: &str = "spanner.commit_timestamp()";
pub const PAST: &str = "2020-01-01T00:00:05Z";

pub fn order(id: &str) -> Mutation {
    Mutation::new_insert_builder("orders").set("id").to(id).build()
}

pub fn keys(name: &str) -> KeySet {
    KeySet::builder().add_key(key![name.to_string()]).build()
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

/// A runtime in real time, on which nothing happens but by `block_on`.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A runtime that is driven by a thread of its own.
pub fn driven_runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
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
