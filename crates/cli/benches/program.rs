//! The cost of the program: on many locks, on a long past, and with many viewers.
//!
//! The names of parts as arguments choose: `cargo bench -p spindle-cli -- watch`.

#![allow(clippy::unwrap_used, reason = "a bench that panics has failed, which is what it is for")]

mod agent;

use std::io::Read as _;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use spindle::LockTable;
use spindle_emulator::engine::{Mutation, Timestamp, WriteKind};
use spindle_emulator::{Emulator, Rpc};
use spindle_protocol::{Nonce, Writer};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, interval, sleep};

const DATABASE: &str = "projects/p/instances/i/databases/d";

/// How long `serve` is watched.
const WATCHED: Duration = Duration::from_secs(20);

const VIEWERS: usize = 20;

#[tokio::main]
async fn main() {
    if let Ok(endpoint) = std::env::var("HOLD_ALONE") {
        return agent::hold_alone(&endpoint).await;
    }
    let names: Vec<String> =
        std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    if is_wanted("ls") {
        ls().await;
    }
    if is_wanted("history") {
        history().await;
    }
    if is_wanted("commands") {
        commands().await;
    }
    if is_wanted("watch") {
        watch().await;
    }
    if is_wanted("serve") {
        serve().await;
    }
    if is_wanted("agent") {
        agent::measure().await;
    }
}

async fn ls() {
    let emulator = emulator(10_000).await;
    let mut command = program(&emulator, &["ls"]);
    let began = Instant::now();
    let output = command.output().await.unwrap();
    let took = began.elapsed();
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 10_001);
    // Of the children that have ended, and this is the first.
    let peak_kib = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss();
    println!("ls of 10,000 locks: {took:.2?}, at most {} MiB", peak_kib / 1024);
}

async fn history() {
    let emulator = emulator(0).await;
    for term in 0..100 {
        write(&emulator, &["billing".to_string()], &format!("node-{}", term % 3)).await;
        emulator.advance(Duration::from_secs(30));
    }
    let reads = emulator.requests().get(Rpc::StreamingRead);
    let began = Instant::now();
    let output = program(&emulator, &["history", "billing"]).output().await.unwrap();
    let took = began.elapsed();
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 101);
    let reads = emulator.requests().get(Rpc::StreamingRead) - reads;
    println!("history of 100 terms: {took:.2?}, {reads} reads");
}

/// The other commands that look at all rows, those that look at one, and a scrape.
async fn commands() {
    let emulator = emulator(10_000).await;
    let rest = emulator.rest_endpoint();
    let all: [&[&str]; 10] = [
        &["ls", "--output", "json"],
        &["ls", "--output", "jsonl"],
        &["doctor"],
        &["init", "--admin-endpoint", &rest],
        &["show", "lock-04242"],
        &["who", "lock-04242"],
        &["history", "lock-04242"],
        &["evict", "lock-04242", "--yes"],
        &["seize", "lock-04242", "--yes"],
        &["sweep", "--yes"],
    ];
    for arguments in all {
        let began = Instant::now();
        let output = program(&emulator, arguments).output().await.unwrap();
        let took = began.elapsed();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        println!("{} with 10,000 locks: {took:.2?}", arguments.join(" "));
    }
    let (mut server, address) = server(&emulator).await;
    let began = Instant::now();
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut scraped = String::new();
    stream.read_to_string(&mut scraped).await.unwrap();
    let took = began.elapsed();
    assert!(scraped.contains("spindle_table_up 1"), "{scraped:.200}");
    println!("a scrape of serve with 10,000 locks: {took:.2?}");
    server.kill().await.unwrap();
}

/// Starts `serve`, and returns it with its address.
async fn server(emulator: &Emulator) -> (Child, String) {
    let mut server = program(emulator, &["serve", "--listen", "127.0.0.1:0"]).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    (server, line.split('/').nth(2).unwrap().to_string())
}

/// In a terminal of its own, while nothing changes but the ages.
async fn watch() {
    let emulator = emulator(10_000).await;
    let size = PtySize { rows: 50, cols: 160, pixel_width: 0, pixel_height: 0 };
    let pair = native_pty_system().openpty(size).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_spindle"));
    command.arg("watch");
    command.env("TERM", "xterm-256color");
    command.env("SPANNER_EMULATOR_HOST", emulator.address().to_string());
    command.env("SPINDLE_DATABASE", DATABASE);
    let mut child = pair.slave.spawn_command(command).unwrap();
    let mut reader = pair.master.try_clone_reader().unwrap();
    let drawn = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&drawn);
    std::thread::spawn(move || {
        let mut bytes = [0; 65_536];
        while let Ok(read @ 1..) = reader.read(&mut bytes) {
            count.fetch_add(read as u64, Ordering::Relaxed);
        }
    });
    sleep(Duration::from_secs(3)).await;
    let pid = child.process_id().unwrap();
    let reads = || emulator.requests().get(Rpc::StreamingRead);
    let before = (cpu_time(pid), reads(), drawn.load(Ordering::Relaxed));
    let began = Instant::now();
    sleep(WATCHED).await;
    let seconds = began.elapsed().as_secs_f64();
    let busy = (cpu_time(pid) - before.0).as_secs_f64() / seconds * 100.0;
    let reads = (reads() - before.1) as f64 / seconds;
    let bytes = (drawn.load(Ordering::Relaxed) - before.2) as f64 / seconds;
    println!(
        "watch of 10,000 locks: {busy:.1} % of a core, {reads:.2} reads and {bytes:.0} bytes to the \
         terminal a second"
    );
    child.kill().unwrap();
}

async fn serve() {
    let emulator = emulator(1_000).await;
    let (mut server, address) = server(&emulator).await;
    let viewers: Vec<_> = (0..VIEWERS).map(|_| tokio::spawn(view(address.clone()))).collect();
    let heart = async {
        // Each holder's heartbeat comes every third of its lease.
        let mut beats = interval(Duration::from_secs(3));
        loop {
            beats.tick().await;
            beat(&emulator, &names(1_000)).await;
        }
    };
    let measured = async {
        sleep(Duration::from_secs(3)).await;
        let pid = server.id().unwrap();
        let (cpu, reads) = (cpu_time(pid), emulator.requests().get(Rpc::StreamingRead));
        let began = Instant::now();
        sleep(WATCHED).await;
        let seconds = began.elapsed().as_secs_f64();
        let busy = (cpu_time(pid) - cpu).as_secs_f64() / seconds * 100.0;
        let reads = (emulator.requests().get(Rpc::StreamingRead) - reads) as f64 / seconds;
        println!(
            "serve, 1,000 locks, {VIEWERS} viewers: {busy:.1} % of a core, {reads:.2} reads a second"
        );
    };
    tokio::select! {
        () = measured => {}
        () = heart => {}
    }
    assert!(viewers.iter().all(|viewer| !viewer.is_finished()), "each was served to the end");
    for viewer in viewers {
        viewer.abort();
    }
    server.kill().await.unwrap();
}

async fn view(address: String) {
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let request = format!("GET /events HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = [0; 65_536];
    while stream.read(&mut bytes).await.unwrap() > 0 {}
}

fn cpu_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks: Vec<u64> = fields.split(' ').skip(11).take(2).map(|n| n.parse().unwrap()).collect();
    // A hundred ticks a second, on every Linux.
    Duration::from_millis(ticks.iter().sum::<u64>() * 10)
}

fn program(emulator: &Emulator, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command
        .args(arguments)
        .env("SPANNER_EMULATOR_HOST", emulator.address().to_string())
        .env("SPINDLE_DATABASE", DATABASE)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// A database with so many locks, all of them held.
async fn emulator(locks: usize) -> Emulator {
    let emulator = Emulator::start().await.unwrap();
    emulator.create_database(DATABASE, LockTable::DDL).await.unwrap();
    for names in names(locks).chunks(1_000) {
        write(&emulator, names, "node-1").await;
    }
    emulator
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("lock-{n:05}")).collect()
}

async fn write(emulator: &Emulator, names: &[String], id: &str) {
    let now = emulator.clock().now();
    let writer = Writer::term(id, Nonce { instance: 1, attempt: 1 }).to_string();
    let row = |name: &String| {
        let cells = [
            ("name", name.as_str().into()),
            ("heartbeat", now.into()),
            ("token", now.into()),
            ("writer", writer.as_str().into()),
            ("lease_ms", 10_000_i64.into()),
            ("info", "10.0.0.7".into()),
        ];
        Mutation::write(WriteKind::InsertOrUpdate, "locktable", cells)
    };
    apply(emulator, names.iter().map(row).collect()).await;
}

async fn beat(emulator: &Emulator, names: &[String]) {
    let now: Timestamp = emulator.clock().now();
    let row = |name: &String| {
        let cells = [("name", name.as_str().into()), ("heartbeat", now.into())];
        Mutation::write(WriteKind::Update, "locktable", cells)
    };
    apply(emulator, names.iter().map(row).collect()).await;
}

async fn apply(emulator: &Emulator, rows: Vec<Mutation>) {
    emulator.database(DATABASE).unwrap().apply(&rows).await.unwrap();
}
