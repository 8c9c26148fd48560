//! A participant that uses this library: contends for locks, says what is announced, obeys its
//! input.
//!
//! Usage: `contend-ours ID PREFIX COUNT LEASE_MS`, with `DATABASE` and `SPANNER_EMULATOR_HOST` in the
//! environment; with the agent's socket in `WITNESS`, and the poll interval in `POLL_MS`, if need be.

#![allow(
    clippy::disallowed_methods,
    reason = "one machine: its wall clock is the one that all participants and the server share"
)]

use std::error::Error;
use std::io::BufRead as _;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use spindle::{CancellationToken, LockTable, RunHandle, Spindle, TermChange};
use tokio::sync::mpsc;
use tokio::time::sleep;

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [id, prefix, count, lease_ms] = arguments.as_slice() else {
        return Err("usage: contend-ours ID PREFIX COUNT LEASE_MS".into());
    };
    let lease = Duration::from_millis(lease_ms.parse()?);
    let mut table = LockTable::new(std::env::var("DATABASE")?, "locktable");
    if let Some(agent) = std::env::var_os("WITNESS") {
        table = table.release_on_exit(agent);
    }
    let poll = std::env::var("POLL_MS").ok().map(|poll| poll.parse()).transpose()?;
    let cancel = CancellationToken::new();
    let (mut locks, mut running) = (Vec::new(), Vec::new());
    for number in 0..count.parse::<usize>()? {
        let mut lock = table.lock(format!("{prefix}-{number:05}")).id(id).lease(lease);
        if let Some(poll) = poll {
            lock = lock.poll_interval(Duration::from_millis(poll));
        }
        let lock = lock.build()?;
        running.push(lock.run(cancel.clone()));
        tokio::spawn(announce(lock.clone()));
        locks.push(lock);
    }
    println!("ready");
    obey(&locks, running, cancel).await
}

async fn announce(lock: Spindle) {
    let mut watch = lock.watch();
    while let Some(change) = watch.next().await {
        match change {
            TermChange::Gained(_) => println!("gained {} {}", lock.name(), now()),
            TermChange::Lost(_) => println!("lost {} {}", lock.name(), now()),
            _ => {}
        }
    }
}

/// Answers what the parent asks, until it is gone.
async fn obey(
    locks: &[Spindle],
    running: Vec<RunHandle>,
    cancel: CancellationToken,
) -> Result<(), Failure> {
    let mut orders = orders(locks[0].clone());
    while let Some(order) = orders.recv().await {
        match order.as_slice() {
            [word, had, at] if word == "ask" => {
                println!("answer {had} {} {at}", locks[0].verify().await.is_ok());
            }
            [word] if word == "count" => {
                let held = locks.iter().filter(|lock| lock.has_lock().is_some()).count();
                println!("held {held}");
            }
            [word, rounds] if word == "cost" => {
                let rounds: u32 = rounds.parse()?;
                let begun = Instant::now();
                for _ in 0..rounds {
                    std::hint::black_box(locks[0].has_lock());
                }
                println!("cost {}", (begun.elapsed() / rounds).as_nanos());
            }
            [word] if word == "go" => {
                cancel.cancel();
                while locks.iter().any(|lock| lock.has_lock().is_some()) {
                    sleep(Duration::from_micros(100)).await;
                }
                println!("gone {}", now());
                break;
            }
            other => return Err(format!("unknown order {other:?}").into()),
        }
    }
    for ended in running {
        ended.await?;
    }
    Ok(())
}

/// Reads orders on a thread of its own, which is the first to run after a pause, and asks the
/// lock right there.
fn orders(lock: Spindle) -> mpsc::UnboundedReceiver<Vec<String>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let mut words: Vec<String> = line.split(' ').map(str::to_string).collect();
            if line == "ask" {
                words.extend([lock.has_lock().is_some().to_string(), now().to_string()]);
            }
            if sender.send(words).is_err() {
                break;
            }
        }
    });
    receiver
}

fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}
