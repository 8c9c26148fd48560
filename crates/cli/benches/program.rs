//! The cost of the program: on many locks, on a long past, and with many viewers.
//!
//! The names of parts as arguments choose: `cargo bench -p spindle-cli -- watch`.

#![allow(clippy::unwrap_used, reason = "a bench that panics has failed, which is what it is for")]

mod agent;
mod exits;
#[path = "../tests/program/http.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod http;
#[path = "../tests/program/world.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod world;

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use spindle_emulator::Rpc;
use tokio::time::{Instant, interval, sleep};

use http::Server;
use world::{Cells, DATABASE, PROGRAM, World, row};

/// How long `serve` is watched.
const WATCHED: Duration = Duration::from_secs(20);

const VIEWERS: usize = 20;

const PARTS: [&str; 7] = ["ls", "history", "commands", "watch", "serve", "agent", "exits"];

#[tokio::main]
async fn main() {
    if let Ok(endpoint) = std::env::var("HOLD_ALONE") {
        return agent::hold_alone(&endpoint).await;
    }
    let mut parts: Vec<String> =
        std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    if parts.is_empty() {
        parts = PARTS.map(String::from).to_vec();
    }
    for part in parts {
        match &*part {
            "ls" => ls().await,
            "history" => history().await,
            "commands" => commands().await,
            "watch" => watch().await,
            "serve" => serve().await,
            "agent" => agent::measure().await,
            "exits" => exits::measure().await,
            _ => panic!("no part is called `{part}`: there are {PARTS:?}"),
        }
    }
}

async fn ls() {
    let world = with_locks(10_000).await;
    let began = Instant::now();
    let listed = world.ok(&["ls"]).await;
    let took = began.elapsed();
    assert_eq!(listed.lines().count(), 10_001);
    // Of the children that have ended, and this is the first.
    let peak_kib = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss();
    println!("ls: ok locks=10000 seconds={:.2} peak_mib={}", took.as_secs_f64(), peak_kib / 1024);
}

async fn history() {
    let world = World::start().await;
    for term in 0..100 {
        write(&world, &["billing".to_string()], &format!("node-{}", term % 3)).await;
        world.emulator.advance(Duration::from_secs(30));
    }
    let before = reads(&world);
    let began = Instant::now();
    let told = world.ok(&["history", "billing"]).await;
    let took = began.elapsed();
    assert_eq!(told.lines().count(), 101);
    let reads = reads(&world) - before;
    println!("history: ok terms=100 seconds={:.2} reads={reads}", took.as_secs_f64());
}

fn reads(world: &World) -> u64 {
    world.emulator.requests().get(Rpc::StreamingRead)
}

/// The other commands that look at all rows, those that look at one, and a scrape.
async fn commands() {
    let world = with_locks(10_000).await;
    let rest = world.emulator.rest_endpoint();
    let all: [&[&str]; 9] = [
        &["ls", "--output", "json"],
        &["ls", "--output", "jsonl"],
        &["doctor"],
        &["init", "--admin-endpoint", &rest],
        &["show", "lock-04242"],
        &["who", "lock-04242"],
        &["history", "lock-04242"],
        &["evict", "lock-04242", "--yes"],
        &["seize", "lock-04242", "--yes"],
    ];
    for arguments in all {
        let began = Instant::now();
        world.ok(arguments).await;
        let seconds = began.elapsed().as_secs_f64();
        println!("{}: ok locks=10000 seconds={seconds:.2}", arguments.join(" "));
    }
    let server = Server::start(&world, &[]).await;
    let began = Instant::now();
    let scraped = server.get("/metrics").await.body;
    let took = began.elapsed();
    assert!(scraped.contains("spindle_table_up 1"), "{scraped:.200}");
    println!("scrape: ok locks=10000 seconds={:.2}", took.as_secs_f64());
}

/// In a terminal of its own, while nothing changes but the ages.
async fn watch() {
    let world = with_locks(10_000).await;
    let size = PtySize { rows: 50, cols: 160, pixel_width: 0, pixel_height: 0 };
    let pair = native_pty_system().openpty(size).unwrap();
    let mut command = CommandBuilder::new(PROGRAM);
    command.arg("watch");
    command.env("TERM", "xterm-256color");
    command.env("SPANNER_EMULATOR_HOST", world.emulator.address().to_string());
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
    let before = (cpu_time(pid), reads(&world), drawn.load(Ordering::Relaxed));
    let began = Instant::now();
    sleep(WATCHED).await;
    let seconds = began.elapsed().as_secs_f64();
    let busy = (cpu_time(pid) - before.0).as_secs_f64() / seconds * 100.0;
    let reads = (reads(&world) - before.1) as f64 / seconds;
    let bytes = (drawn.load(Ordering::Relaxed) - before.2) as f64 / seconds;
    println!(
        "watch: ok locks=10000 cpu_percent={busy:.1} reads_a_second={reads:.2} \
         bytes_a_second={bytes:.0}"
    );
    child.kill().unwrap();
}

async fn serve() {
    let world = with_locks(1_000).await;
    let server = Arc::new(Server::start(&world, &[]).await);
    let view = async |server: Arc<Server>| {
        let mut events = server.events().await;
        while events.next().await.is_some() {}
    };
    let viewers: Vec<_> = (0..VIEWERS).map(|_| tokio::spawn(view(Arc::clone(&server)))).collect();
    let names = names(1_000);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let heart = async {
        // A little oftener than each half of the lease.
        let mut beats = interval(Duration::from_secs(3));
        loop {
            beats.tick().await;
            world.beat(&names).await;
        }
    };
    let measured = async {
        sleep(Duration::from_secs(3)).await;
        let pid = server.running.child.id().unwrap();
        let (cpu, before) = (cpu_time(pid), reads(&world));
        let began = Instant::now();
        sleep(WATCHED).await;
        let seconds = began.elapsed().as_secs_f64();
        let busy = (cpu_time(pid) - cpu).as_secs_f64() / seconds * 100.0;
        let reads = (reads(&world) - before) as f64 / seconds;
        println!(
            "serve: ok locks=1000 viewers={VIEWERS} cpu_percent={busy:.1} reads_a_second={reads:.2}"
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
}

fn cpu_time(pid: u32) -> Duration {
    time_in(Path::new(&format!("/proc/{pid}/stat")))
}

/// The processor's time that such a file of the kernel tells.
fn time_in(stat: &Path) -> Duration {
    let stat = std::fs::read_to_string(stat).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks: Vec<u64> = fields.split(' ').skip(11).take(2).map(|n| n.parse().unwrap()).collect();
    // A hundred ticks a second, on every Linux.
    Duration::from_millis(ticks.iter().sum::<u64>() * 10)
}

/// A database with so many locks, all of them held.
async fn with_locks(count: usize) -> World {
    let world = World::start().await;
    for names in names(count).chunks(1_000) {
        write(&world, names, "node-1").await;
    }
    world
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("lock-{n:05}")).collect()
}

/// Writes terms with a lease of ten seconds.
async fn write(world: &World, names: &[String], id: &str) {
    let now = world.emulator.clock().now();
    let rows = names.iter().map(|name| row(name, Cells::term(now, id, 10_000)));
    world.apply(&rows.collect::<Vec<_>>()).await;
}
