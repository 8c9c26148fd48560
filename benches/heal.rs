//! A measurement of how many locks heal by themselves: after a lack of CPU on either side, and
//! after an outage.
//!
//! ```text
//! cargo bench --bench heal -- 10000 600
//! ```
//!
//! The first number is how many locks each process has, the second for how many seconds the server
//! is away. Real time, release build, lease 10 s, two processes with locks of their own, and the
//! embedded Spanner in a third. A process is starved by stopping it for most of each second.

#[path = "parts/counts.rs"]
mod counts;
mod parts;
#[path = "parts/serve.rs"]
mod serve;

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use spindle::{CancellationToken, LockTable, Spindle};
use tokio::time::{Instant, sleep};

use crate::counts::counts;
use crate::parts::{Failure, Part, load};
use crate::serve::{DATABASE, serve};

const LEASE: Duration = Duration::from_secs(10);
/// Of each second, a starved process has so much.
const SHARE: Duration = Duration::from_millis(10);
/// When a measurement is given up.
const TIME_LIMIT: Duration = Duration::from_secs(300);

fn main() -> Result<(), Failure> {
    // The harness of `cargo bench` adds an option of its own.
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let runtime = tokio::runtime::Runtime::new()?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server"] => runtime.block_on(serve(LockTable::DDL)),
        ["holder", endpoint, name, locks] => runtime.block_on(hold(endpoint, name, locks.parse()?)),
        [locks, seconds] => {
            runtime.block_on(measure(locks.parse()?, Duration::from_secs(seconds.parse()?)))
        }
        _ => runtime.block_on(measure(100, Duration::from_secs(20))),
    }
}

/// A process of many locks, which says how many it holds for each line that it reads.
async fn hold(endpoint: &str, name: &str, count: usize) -> Result<(), Failure> {
    let table = LockTable::connect_to(endpoint, DATABASE, "locktable");
    let cancel = CancellationToken::new();
    let start = |n| {
        let lock = table.lock(format!("{name}-{n}")).lease(LEASE).build()?;
        // Dropping what `run` returned lets it run on.
        drop(lock.run(cancel.clone()));
        Ok(lock)
    };
    let locks = (0..count).map(start).collect::<Result<Vec<Spindle>, Failure>>()?;
    let told = tokio::task::spawn_blocking(move || {
        for _ in std::io::stdin().lines() {
            println!("held={}", locks.iter().filter(|lock| lock.has_lock().is_some()).count());
        }
    });
    Ok(told.await?)
}

async fn measure(locks: usize, outage: Duration) -> Result<(), Failure> {
    let mut server = Part::start(&["server"])?;
    let endpoint = server.line()?;
    let holder = |name| Part::start(&["holder", &endpoint, name, &locks.to_string()]);
    let mut holders = [holder("left")?, holder("right")?];
    println!("two processes with {locks} locks each, lease {LEASE:?}, {}", load());
    let both = 2 * locks;
    let start = Instant::now();
    until_held(&mut holders, both).await?;
    println!("heal-start: ok locks={both} all_held_after_s={:.1}", start.elapsed().as_secs_f64());

    let pid = pid(&holders[0])?;
    starve(&mut holders, pid, |held| held <= locks, "process").await?;
    report("heal-starved-process", &mut holders, both).await?;
    starve(&mut holders, self::pid(&server)?, |held| held == 0, "server").await?;
    report("heal-starved-server", &mut holders, both).await?;

    kill_process(self::pid(&server)?, Signal::STOP)?;
    sleep(outage).await;
    let held = held(&mut holders)?;
    kill_process(self::pid(&server)?, Signal::CONT)?;
    println!("the server was away for {outage:?}; held at its end: {held}");
    report("heal-outage", &mut holders, both).await?;
    println!("{}", load());
    Ok(())
}

/// Lets a process run for a small part of each second, until so few locks are held.
async fn starve(
    holders: &mut [Part],
    pid: Pid,
    is_enough: impl Fn(usize) -> bool,
    who: &str,
) -> Result<(), Failure> {
    let start = Instant::now();
    loop {
        kill_process(pid, Signal::STOP)?;
        sleep(Duration::from_secs(1) - SHARE).await;
        kill_process(pid, Signal::CONT)?;
        // A starved process is asked while it runs; its answer takes part of its share.
        let held = held(holders)?;
        if is_enough(held) {
            let took = start.elapsed();
            println!("the {who} was starved for {took:?}; held at the end of it: {held}");
            return Ok(());
        }
        if start.elapsed() > TIME_LIMIT {
            return Err(format!("{held} still held after {took:?}", took = start.elapsed()).into());
        }
        sleep(SHARE).await;
    }
}

async fn report(name: &str, holders: &mut [Part], locks: usize) -> Result<(), Failure> {
    let start = Instant::now();
    until_held(holders, locks).await?;
    println!("{name}: ok locks={locks} all_held_after_s={:.1}", start.elapsed().as_secs_f64());
    // Until everybody is in step again.
    sleep(LEASE * 2).await;
    Ok(())
}

async fn until_held(holders: &mut [Part], locks: usize) -> Result<(), Failure> {
    let start = Instant::now();
    loop {
        let held = held(holders)?;
        if held == locks {
            return Ok(());
        }
        if start.elapsed() > TIME_LIMIT {
            return Err(format!("{held} of {locks} held after {TIME_LIMIT:?}").into());
        }
        sleep(Duration::from_millis(100)).await;
    }
}

fn held(holders: &mut [Part]) -> Result<usize, Failure> {
    let mut all = 0;
    for holder in holders {
        let counts = counts(holder)?;
        all += usize::try_from(*counts.get("held").ok_or("no count")?)?;
    }
    Ok(all)
}

fn pid(part: &Part) -> Result<Pid, Failure> {
    Ok(Pid::from_raw(part.child.id().cast_signed()).ok_or("no process")?)
}
