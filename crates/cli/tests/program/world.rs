//! A database of a test's own, and the program on it.

use std::net::SocketAddr;
use std::process::{Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use spindle::{CancellationToken, Database, Ddl, LockTable, RunHandle, Spindle, TermChange};
use spindle_emulator::engine::{Mutation, Timestamp, WriteKind};
use spindle_emulator::{Effect, Emulator, Fault, Rpc};
use spindle_protocol::{Nonce, Writer};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpSocket;
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{Instant, timeout};

pub const DATABASE: &str = "projects/p/instances/i/databases/d";
/// A lock table as other implementations make it.
pub const FOUR_COLUMNS: &str = include_str!("../../../../tests/four_columns.sql");
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_spindle");

/// More than anything here takes on the slowest machine.
pub const TIME_LIMIT: Duration = Duration::from_secs(60);

pub struct World {
    pub emulator: Emulator,
    pub table: LockTable,
}

/// A contender of this process that holds its lock.
pub struct Held {
    pub lock: Spindle,
    cancel: CancellationToken,
    running: RunHandle,
}

impl World {
    pub async fn start() -> World {
        World::with(LockTable::ddl(Ddl::GoogleSql)).await
    }

    pub async fn with(ddl: &str) -> World {
        let emulator = Emulator::start().await.unwrap();
        emulator.create_database(DATABASE, ddl).await.unwrap();
        let table = LockTable::new(Database::at(emulator.endpoint(), DATABASE), "locktable");
        World { emulator, table }
    }

    /// Writes rows as of now: a term of somebody's, with a lease of five minutes, or what a release
    /// leaves.
    pub async fn write(&self, rows: &[(&str, Option<&str>)]) {
        let now = self.emulator.clock().now();
        let term = |(name, id): &(&str, Option<&str>)| {
            let epoch = Timestamp::from_micros(0);
            let cells = match id {
                Some(id) => Cells::term(now, id, 300_000),
                None => Cells { writer: Writer::nobody(), ..Cells::term(epoch, "", 300_000) },
            };
            row(name, Cells { token: now, ..cells })
        };
        self.apply(&rows.iter().map(term).collect::<Vec<_>>()).await;
    }

    /// Writes heartbeats as of now.
    pub async fn beat(&self, names: &[&str]) {
        let now = self.emulator.clock().now();
        let row = |name: &&str| {
            let cells = [("name", (*name).into()), ("heartbeat", now.into())];
            Mutation::write(WriteKind::Update, "locktable", cells)
        };
        self.apply(&names.iter().map(row).collect::<Vec<_>>()).await;
    }

    pub async fn apply(&self, rows: &[Mutation]) {
        self.emulator.database(DATABASE).unwrap().apply(rows).await.unwrap();
    }

    /// The program with its environment, not started yet.
    pub fn program(&self, arguments: &[&str]) -> Command {
        let mut command = bare(arguments);
        command
            .env("SPANNER_EMULATOR_HOST", self.emulator.address().to_string())
            .env("SPINDLE_DATABASE", DATABASE);
        command
    }

    /// Starts the program.
    pub fn spawn(&self, arguments: &[&str]) -> Running {
        Running::start(self.program(arguments))
    }

    /// Runs the program to its end.
    pub async fn run(&self, arguments: &[&str]) -> Ran {
        finish(self.program(arguments)).await
    }

    /// Runs the program, which succeeds, and gives its output.
    pub async fn ok(&self, arguments: &[&str]) -> String {
        self.run(arguments).await.ends(0).out
    }

    /// The same, in JSON.
    pub async fn json(&self, arguments: &[&str]) -> Value {
        let out = self.ok(&[arguments, &["-o", "json"]].concat()).await;
        serde_json::from_str(&out).unwrap()
    }

    pub async fn is_held(&self, name: &str) -> bool {
        self.table.inspect(name).await.unwrap().is_held()
    }

    pub async fn hold(&self, name: &str, id: &str, lease: Duration) -> Held {
        let lock = self.table.lock(name).id(id).lease(lease).info("10.0.0.7").build().unwrap();
        let cancel = CancellationToken::new();
        let running = lock.run(cancel.clone());
        let gained = timeout(TIME_LIMIT, lock.watch().next()).await.unwrap();
        assert!(matches!(gained, Some(TermChange::Gained(_))));
        Held { lock, cancel, running }
    }
}

impl Held {
    pub async fn release(self) {
        self.cancel.cancel();
        self.running.await.unwrap();
    }
}

/// The cells of a lock row besides its name.
pub struct Cells {
    pub heartbeat: Option<Timestamp>,
    pub token: Timestamp,
    pub writer: Writer,
    pub lease_ms: Option<i64>,
    pub info: Option<String>,
}

impl Cells {
    /// A term that has begun now.
    pub fn term(now: Timestamp, id: &str, lease_ms: i64) -> Cells {
        Cells {
            heartbeat: Some(now),
            token: now,
            writer: Writer::term(id, Nonce { instance: 1, attempt: 1 }),
            lease_ms: Some(lease_ms),
            info: Some("10.0.0.7".to_string()),
        }
    }
}

pub fn row(name: &str, cells: Cells) -> Mutation {
    let mut all = vec![
        ("name", name.into()),
        ("token", cells.token.into()),
        ("writer", cells.writer.to_string().into()),
    ];
    all.extend(cells.heartbeat.map(|heartbeat| ("heartbeat", heartbeat.into())));
    all.extend(cells.lease_ms.map(|lease_ms| ("lease_ms", lease_ms.into())));
    all.extend(cells.info.map(|info| ("info", info.as_str().into())));
    Mutation::write(WriteKind::InsertOrUpdate, "locktable", all)
}

/// A port that refuses connections. It is bound without listening, so that Linux gives it to nobody else, and
/// lets a program that names it listen there.
pub fn reserved() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// The program without any environment of its own.
pub fn bare(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .args(arguments)
        .env_remove("SPANNER_EMULATOR_HOST")
        .env_remove("SPINDLE_DATABASE")
        .env_remove("SPINDLE_TABLE")
        .env_remove("SPINDLE_ID")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// The program with its environment, started by another one that gets it as its last arguments.
pub fn under(starter: &str, arguments: &[&str], program: Command) -> Command {
    let program = program.as_std();
    let mut command = Command::new(starter);
    command.args(arguments).arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// The program at work.
pub struct Running {
    pub child: Child,
    out: BufReader<ChildStdout>,
}

impl Running {
    pub fn start(mut command: Command) -> Running {
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Running { child, out }
    }

    /// The next line that it says.
    pub async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = timeout(TIME_LIMIT, self.out.read_line(&mut line)).await;
        assert!(read.expect("it says nothing").unwrap() > 0, "it has ended");
        line.trim_end_matches('\n').to_string()
    }

    /// The next line of its complaints.
    pub async fn complaint(&mut self) -> String {
        let complaints = self.child.stderr.as_mut().unwrap();
        let mut line = Vec::new();
        loop {
            let read = timeout(TIME_LIMIT, complaints.read_u8()).await;
            match read.expect("it complains of nothing").unwrap() {
                b'\n' => return String::from_utf8(line).unwrap(),
                byte => line.push(byte),
            }
        }
    }

    /// The next line that contains this.
    pub async fn says(&mut self, text: &str) -> String {
        loop {
            let line = self.line().await;
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Writes a line to it.
    pub async fn told(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().unwrap().cast_signed()), signal).unwrap();
    }

    /// Waits until it ends, and gives its exit code.
    pub async fn code(&mut self) -> Option<i32> {
        timeout(TIME_LIMIT, self.child.wait()).await.expect("it never ended").unwrap().code()
    }

    /// Waits until it ends, and gives what it has said since.
    pub async fn end(self) -> Ran {
        let Running { child, mut out } = self;
        let mut said = String::new();
        let ending =
            async { tokio::join!(out.read_to_string(&mut said), child.wait_with_output()) };
        let (read, ended) = timeout(TIME_LIMIT, ending).await.expect("it never ended");
        read.unwrap();
        let Output { status, stderr, .. } = ended.unwrap();
        Ran { code: status.code(), out: said, err: String::from_utf8(stderr).unwrap() }
    }
}

pub async fn finish(command: Command) -> Ran {
    Running::start(command).end().await
}

/// The result of a run of the program.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// Expects this exit code.
    #[track_caller]
    pub fn ends(self, code: i32) -> Ran {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// Expects this text in the output.
    #[track_caller]
    pub fn says(self, text: &str) -> Ran {
        assert!(self.out.contains(text), "{text}: {self:?}");
        self
    }

    /// Expects nothing else in the output.
    #[track_caller]
    pub fn says_only(self, text: &str) -> Ran {
        assert_eq!(self.out, text, "{self:?}");
        self
    }

    /// Expects this text beside the output.
    #[track_caller]
    pub fn complains(self, text: &str) -> Ran {
        assert!(self.err.contains(text), "{text}: {self:?}");
        self
    }
}

/// Waits until a poll is under way that is never answered.
pub async fn stall_a_poll(emulator: &Emulator) {
    emulator.inject(Fault::on(Rpc::StreamingRead).effect(Effect::Stall));
    let reads = || emulator.requests().get(Rpc::StreamingRead);
    let before = reads();
    until("a poll is under way", async || reads() > before).await;
}

/// Does this until it takes no longer than it may. A machine that stood still meanwhile says nothing of the
/// program.
pub async fn takes_less_than(limit: Duration, mut act: impl AsyncFnMut()) {
    for _ in 0..5 {
        let began = Instant::now();
        act().await;
        if began.elapsed() < limit {
            return;
        }
    }
    panic!("it takes longer than {limit:?} each time");
}

/// Waits until something is so.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(TIME_LIMIT, waiting).await.unwrap_or_else(|_| panic!("never so: {what}"));
}
