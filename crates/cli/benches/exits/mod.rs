//! The cost of having the agent release for this process should it die: 10,000 locks with and without.

use std::path::{Path, PathBuf};
use std::time::Duration;

use spindle::{CancellationToken, Database, LockTable};
use spindle_emulator::Rpc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};

use crate::world::{DATABASE, Running, World, until};

const LOCKS: usize = 10_000;

/// How long all of them are held.
const HELD: Duration = Duration::from_secs(30);

pub async fn measure() {
    let world = World::start().await;
    let socket = std::env::temp_dir().join(format!("spindle-bench-{}.sock", std::process::id()));
    let mut command = world.program(&["agent", "--socket"]);
    command.arg(&socket);
    let mut agent = Running::start(command);
    agent.line().await;
    hold(&world, "alone", None).await;
    hold(&world, "watched", Some((&socket, agent.child.id().unwrap()))).await;
    drop(agent);
    // A killed agent leaves it.
    let _ = std::fs::remove_file(&socket);
}

async fn hold(world: &World, prefix: &str, agent: Option<(&PathBuf, u32)>) {
    let mut table = LockTable::new(Database::at(world.emulator.endpoint(), DATABASE), "locktable");
    if let Some((socket, _)) = agent {
        table = table.release_on_exit(socket);
    }
    let (began, cancel) = (Instant::now(), CancellationToken::new());
    let mut locks = Vec::new();
    for n in 0..LOCKS {
        let lock = table.lock(format!("{prefix}-{n:05}")).build().unwrap();
        drop(lock.run(cancel.clone()));
        locks.push(lock);
    }
    until("all are held", async || locks.iter().all(|lock| lock.has_lock().is_some())).await;
    let all_held = began.elapsed();
    if let Some((socket, _)) = agent {
        let all = format!("spindle_agent_watched {LOCKS}");
        until("all are registered", async || metrics(socket).await.contains(&all)).await;
    }
    let registered = agent.map(|(_, process)| (super::cpu_time(process), thread_time()));
    sleep(Duration::from_secs(10)).await;
    let costs = || agent.map(|(_, process)| (super::cpu_time(process), thread_time()));
    let (before, requests) = (costs(), requests(world));
    sleep(HELD).await;
    let a_second = (self::requests(world) - requests) as f64 / HELD.as_secs_f64();
    let begun = Instant::now();
    for _ in 0..100 {
        for lock in &locks[..1_000] {
            std::hint::black_box(lock.has_lock());
        }
    }
    let asked = begun.elapsed().as_nanos() / 100_000;
    print!(
        "exits-{prefix}: ok locks={LOCKS} held_after_s={:.2} requests_a_second={a_second:.1} \
         has_lock_ns={asked}",
        all_held.as_secs_f64()
    );
    if let (Some(registered), Some(before), Some(after)) = (registered, before, costs()) {
        let share = |of: Duration| of.as_secs_f64() / HELD.as_secs_f64() * 100.0;
        print!(
            " registering: agent_s={:.2} thread_s={:.2} then: agent_cpu_percent={:.2} \
             thread_cpu_percent={:.2}",
            registered.0.as_secs_f64(),
            registered.1.as_secs_f64(),
            share(after.0 - before.0),
            share(after.1 - before.1)
        );
    }
    println!();
    cancel.cancel();
    table.all_released().await;
}

fn requests(world: &World) -> u64 {
    let requests = world.emulator.requests();
    requests.get(Rpc::StreamingRead) + requests.get(Rpc::Read) + requests.get(Rpc::Commit)
}

/// The time of the library's thread that speaks to the agent.
fn thread_time() -> Duration {
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let path = task.unwrap().path();
        if std::fs::read_to_string(path.join("comm")).unwrap().trim() == "spindle-witness" {
            return super::time_in(&path.join("stat"));
        }
    }
    Duration::ZERO
}

async fn metrics(socket: &Path) -> String {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}
