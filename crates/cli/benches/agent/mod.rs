//! The cost of `spindle agent`: 1,000 locks of 100 connections, beside the library alone.

use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use spindle::{Database, LockTable};
use spindle_emulator::Emulator;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::http::{Events, Server};
use super::names;
use super::world::{DATABASE, Running, World};

const CONNECTIONS: usize = 100;
const LOCKS: usize = 1_000;

/// How long requests are counted: some heartbeats of each lock.
const COUNTED: Duration = Duration::from_secs(30);

pub async fn measure() {
    let world = World::start().await;
    let agent = Server::started(world.program(&["agent", "--listen", "127.0.0.1:0"])).await;
    let idle_kib = resident_kib(&agent.running.child);
    let mut streams = Vec::new();
    for names in names(LOCKS).chunks(LOCKS / CONNECTIONS) {
        streams.push(lead(&agent, names).await);
    }
    for stream in &mut streams {
        for _ in 0..LOCKS / CONNECTIONS {
            stream.named("gained").await;
        }
    }
    sleep(Duration::from_secs(10)).await;
    let requests = counted(&world.emulator).await;
    let kib = resident_kib(&agent.running.child);
    println!(
        "agent: ok locks={LOCKS} connections={CONNECTIONS} requests_per_second={requests:.2} \
         idle_kib={idle_kib} resident_kib={kib}"
    );
    drop(streams);
    losses(&agent).await;
    drop(agent);
    alone().await;
}

/// The library in a program that does nothing else.
async fn alone() {
    let world = World::start().await;
    let mut alone = Command::new(std::env::current_exe().unwrap());
    alone.env("HOLD_ALONE", world.emulator.endpoint()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut alone = Running::start(alone);
    assert_eq!(alone.line().await, "starts");
    let idle_kib = resident_kib(&alone.child);
    assert_eq!(alone.line().await, "holds");
    sleep(Duration::from_secs(10)).await;
    let requests = counted(&world.emulator).await;
    let kib = resident_kib(&alone.child);
    println!(
        "library-alone: ok locks={LOCKS} requests_per_second={requests:.2} idle_kib={idle_kib} \
         resident_kib={kib}"
    );
}

pub async fn hold_alone(endpoint: &str) {
    let table = LockTable::new(Database::at(endpoint, DATABASE).side_by_side(), "locktable");
    table.list().next().await.unwrap();
    println!("starts");
    let acquire = |name: String| {
        let lock = table.lock(name).build().unwrap();
        tokio::spawn(async move { lock.acquire().await.unwrap() })
    };
    let acquiring: Vec<_> = names(LOCKS).into_iter().map(acquire).collect();
    let mut guards = Vec::new();
    for acquired in acquiring {
        guards.push(acquired.await.unwrap());
    }
    println!("holds");
    std::future::pending::<()>().await;
}

/// From a request to resign, which ends the term before anything is sent to Spanner, to `lost`.
async fn losses(agent: &Server) {
    let mut times = Vec::new();
    for n in 0..100 {
        let mut stream = lead(agent, &[format!("lost-{n}")]).await;
        let gained = stream.named("gained").await;
        let path = format!("/v1/claims/{}/resign", gained["claim"].as_str().unwrap());
        let (nobody, began) = (json!({}), Instant::now());
        let lost = async {
            stream.named("lost").await;
            times.push(began.elapsed());
        };
        tokio::join!(agent.send("POST", &path, &nobody), lost);
    }
    times.sort();
    println!(
        "agent-loss: ok count={} median_us={} p99_us={}",
        times.len(),
        times[times.len() / 2].as_micros(),
        times[times.len() * 99 / 100].as_micros()
    );
}

async fn lead(agent: &Server, names: &[String]) -> Events {
    agent.stream("/v1/lead", &json!({ "locks": names, "heartbeat_timeout": "1h" })).await
}

async fn counted(spanner: &Emulator) -> f64 {
    spanner.requests().reset();
    sleep(COUNTED).await;
    spanner.requests().total() as f64 / COUNTED.as_secs_f64()
}

fn resident_kib(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id().unwrap())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
