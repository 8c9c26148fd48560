//! The time in which many locks heal by themselves: after a lack of CPU on either side, and after an
//! outage. A process is starved by stopping it for most of each second.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use crate::LEASE;
use crate::locks::{held, until_held};
use crate::parts::{Failure, Part, Server, load};

/// Of each second, a starved process has so much.
const SHARE: Duration = Duration::from_millis(10);

/// When a measurement is given up.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// Two processes with so many locks each, and a server that is away for so long.
pub async fn measure(locks: usize, outage: Duration) -> Result<(), Failure> {
    let server = Server::start()?;
    let (count, lease) = (locks.to_string(), LEASE.as_secs().to_string());
    let holder = |name| Part::start(&["holder", &server.endpoint, name, &count, &lease]);
    let mut holders = [holder("left")?, holder("right")?];
    println!("two processes with {locks} locks each, lease {LEASE:?}, {}", load());
    let both = 2 * locks;
    let start = Instant::now();
    until_held(&mut holders, both, TIME_LIMIT).await?;
    println!("heal-start: ok locks={both} all_held_after_s={:.1}", start.elapsed().as_secs_f64());

    let (process, of_server) = (pid(&holders[0])?, pid(&server.part)?);
    starve(&mut holders, process, |held| held <= locks, "process").await?;
    report("heal-starved-process", &mut holders, both).await?;
    starve(&mut holders, of_server, |held| held == 0, "server").await?;
    report("heal-starved-server", &mut holders, both).await?;

    kill_process(of_server, Signal::STOP)?;
    sleep(outage).await;
    let held = held(&mut holders)?;
    kill_process(of_server, Signal::CONT)?;
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
    until_held(holders, locks, TIME_LIMIT).await?;
    println!("{name}: ok locks={locks} all_held_after_s={:.1}", start.elapsed().as_secs_f64());
    // Until everybody is in step again.
    sleep(LEASE * 2).await;
    Ok(())
}

fn pid(part: &Part) -> Result<Pid, Failure> {
    Ok(Pid::from_raw(part.child.id().cast_signed()).ok_or("no process")?)
}
