//! A participant that uses `spindle_rs`, unmodified: contends for locks, says what its channel
//! says, obeys its input.
//!
//! Usage: `contend-spindle-rs ID PREFIX COUNT LEASE_MS`, with `DATABASE` and `SPANNER_EMULATOR_HOST`
//! in the environment.

#![allow(
    clippy::disallowed_methods,
    reason = "one machine: its wall clock is the one that all participants and the server share"
)]

use std::error::Error;
use std::io::BufRead as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use spindle_rs::{Lock, LockBuilder};

/// One lock of this process, and what its channel said last.
struct Contender {
    lock: Lock,
    told: Arc<AtomicBool>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [id, prefix, count, lease_ms] = arguments.as_slice() else {
        return Err("usage: contend-spindle-rs ID PREFIX COUNT LEASE_MS".into());
    };
    let (count, lease_ms): (usize, u64) = (count.parse()?, lease_ms.parse()?);
    let mut contenders = Vec::new();
    for number in 0..count {
        contenders.push(contend(id, format!("{prefix}-{number:05}"), lease_ms)?);
    }
    println!("ready");
    obey(&mut contenders)
}

fn contend(id: &str, name: String, lease_ms: u64) -> Result<Contender, Box<dyn Error>> {
    let (sender, states) = channel();
    let told = Arc::new(AtomicBool::new(false));
    let mut lock = LockBuilder::new()
        .db(std::env::var("DATABASE")?)
        .table("locktable".into())
        .name(name.clone())
        .id(id.into())
        .lease_ms(lease_ms)
        .leader_tx(Some(sender))
        .build();
    lock.run()?;
    let seen = Arc::clone(&told);
    std::thread::spawn(move || {
        for state in states {
            let leads = state == 1;
            if seen.swap(leads, Ordering::SeqCst) != leads {
                let change = if leads { "gained" } else { "lost" };
                println!("{change} {name} {}", now());
            }
        }
    });
    Ok(Contender { lock, told })
}

/// Answers what the parent asks, until it is gone.
fn obey(contenders: &mut [Contender]) -> Result<(), Box<dyn Error>> {
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["ask"] => {
                let (told, at) = (contenders[0].told.load(Ordering::SeqCst), now());
                let (called, ..) = contenders[0].lock.has_lock();
                println!("answer {told} {called} {at}");
            }
            ["count"] => {
                let held = contenders.iter().filter(|it| it.told.load(Ordering::SeqCst)).count();
                println!("held {held}");
            }
            ["cost", rounds] => {
                let rounds: u32 = rounds.parse()?;
                let begun = Instant::now();
                for _ in 0..rounds {
                    contenders[0].lock.has_lock();
                }
                println!("cost {}", (begun.elapsed() / rounds).as_nanos());
            }
            ["go"] => {
                // It releases nothing; the threads end with the process.
                for contender in contenders.iter_mut() {
                    contender.lock.close();
                }
                println!("gone {}", now());
                return Ok(());
            }
            other => return Err(format!("unknown order {other:?}").into()),
        }
    }
    Ok(())
}

fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}
