//! Many locks, and transactions that dead processes left, on Google's own Spanner emulator.
//!
//! `cargo bench --bench google -- held 2 1000 10 180`: two processes contend for 1,000 locks at a
//! lease of 10 s and are watched for 180 s. `cargo bench --bench google -- abandoned 20`: twenty
//! times, a process dies between the read and the commit of a transaction, and a contender of a free
//! lock comes. Real time. The programs are those of the Google Cloud SDK.

#[path = "parts/counts.rs"]
mod counts;
#[path = "parts/google.rs"]
mod google;
mod parts;
#[path = "parts/relay.rs"]
mod relay;

use std::collections::BTreeMap;
use std::time::Duration;

use spindle::google_cloud_spanner::client::Spanner;
use spindle::google_cloud_spanner::key;
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::transaction::ReadWriteTransaction;
use spindle::{CancellationToken, FencingToken, LockTable, Spindle};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::time::{Instant, sleep};

use crate::counts::counts;
use crate::google::Google;
use crate::parts::{Failure, Part, load};
use crate::relay::{Counts, Kind, Relay};

/// The requests of each process, by kind, until then.
type Counted = (Instant, Vec<Counts>);

const DATABASE: &str = "projects/test/instances/test/databases/test";
/// How often each lock is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// When a measurement is given up.
const TIME_LIMIT: Duration = Duration::from_secs(120);

fn main() -> Result<(), Failure> {
    // The harness of `cargo bench` adds an option of its own.
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let runtime = tokio::runtime::Runtime::new()?;
    let seconds = |text: &str| text.parse().map(Duration::from_secs);
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["holder", endpoint, locks, lease] => {
            runtime.block_on(hold(endpoint, locks.parse()?, seconds(lease)?))
        }
        ["abandon", endpoint] => runtime.block_on(abandon(endpoint)),
        ["abandoned", trials] => runtime.block_on(abandoned(trials.parse()?)),
        ["held", processes, locks, lease, watched] => runtime.block_on(held(
            processes.parse()?,
            locks.parse()?,
            seconds(lease)?,
            seconds(watched)?,
        )),
        _ => runtime.block_on(held(2, 100, Duration::from_secs(10), Duration::from_secs(20))),
    }
}

/// A process that wants all the locks; each line it reads asks how many it holds and has lost.
async fn hold(endpoint: &str, locks: usize, lease: Duration) -> Result<(), Failure> {
    let table = LockTable::connect_to(endpoint, DATABASE, "locktable");
    let cancel = CancellationToken::new();
    let start = |n| {
        let lock = table.lock(format!("many-{n:05}")).lease(lease).build()?;
        drop(lock.run(cancel.clone()));
        Ok(lock)
    };
    let locks = (0..locks).map(start).collect::<Result<Vec<Spindle>, Failure>>()?;
    println!("runs");
    let (mut tokens, mut lost) = (vec![None::<FencingToken>; locks.len()], 0);
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    loop {
        tokio::select! {
            line = lines.next_line() => {
                if line?.is_none() {
                    return Ok(());
                }
                println!("held={} lost={lost}", tokens.iter().flatten().count());
                troubles(&locks);
            }
            () = sleep(LOOK) => for (lock, before) in locks.iter().zip(&mut tokens) {
                let now = lock.has_lock();
                lost += usize::from(before.is_some() && now != *before);
                *before = now;
            }
        }
    }
}

/// Says, to whoever watches, what is in the way of how many.
fn troubles(locks: &[Spindle]) {
    if std::env::var_os("TROUBLES").is_none() {
        return;
    }
    let mut troubles = BTreeMap::<String, usize>::new();
    for lock in locks {
        if let Some(trouble) = lock.health().trouble {
            let error: &dyn std::error::Error = &trouble.error;
            let causes = std::iter::successors(Some(error), |error| error.source());
            let text: Vec<_> = causes.map(ToString::to_string).collect();
            let text = text.join(": ").replace(lock.name(), "many");
            *troubles.entry(text).or_default() += 1;
        }
    }
    troubles.iter().for_each(|(trouble, count)| eprintln!("    {count} x {trouble}"));
}

async fn held(
    processes: usize,
    locks: usize,
    lease: Duration,
    watched: Duration,
) -> Result<(), Failure> {
    let google = Google::start(DATABASE)?;
    let about = format!("processes={processes} locks={locks} lease_s={}", lease.as_secs());
    println!("{about}, {}", load());
    let start = Instant::now();
    let (mut relays, mut parts) = (Vec::new(), Vec::new());
    for _ in 0..processes {
        let relay = Relay::start(&google.endpoint).await?;
        let arguments = [locks.to_string(), lease.as_secs().to_string()];
        let mut part = Part::start(&["holder", &relay.endpoint, &arguments[0], &arguments[1]])?;
        part.line()?;
        relays.push(relay);
        parts.push(part);
    }
    let requests = || relays.iter().map(Relay::requests).collect::<Vec<_>>();
    let mut sum = |what: &str| -> Result<u64, Failure> {
        let each = parts.iter_mut().map(counts).collect::<Result<Vec<_>, _>>()?;
        Ok(each.iter().filter_map(|counts| counts.get(what)).sum())
    };
    while sum("held")? < locks as u64 {
        if start.elapsed() > TIME_LIMIT {
            return Err(format!("{} of {locks} held after {TIME_LIMIT:?}", sum("held")?).into());
        }
        sleep(LOOK).await;
    }
    let held_after = start.elapsed().as_secs_f64();
    let lost_before = sum("lost")?;
    let start = Instant::now();
    let mut least = locks as u64;
    let mut counted = vec![(start, requests())];
    while start.elapsed() < watched {
        sleep(Duration::from_secs(1)).await;
        least = least.min(sum("held")?);
        counted.push((Instant::now(), requests()));
    }
    println!(
        "google-held: ok {about} held_after_s={held_after:.1} lost_before={lost_before} watched_s={} lost={} held_least={least}",
        watched.as_secs(),
        sum("lost")? - lost_before,
    );
    for part in 0..processes {
        for kind in Kind::ALL {
            let rate = |from: &Counted, to: &Counted| {
                let requests = to.1[part][kind as usize] - from.1[part][kind as usize];
                requests as f64 / (to.0 - from.0).as_secs_f64()
            };
            let worst = counted.windows(11).map(|these| rate(&these[0], &these[10]));
            println!(
                "google-held: process={part} kind={kind:?} requests_a_second={:.1} in_the_busiest_10_s={:.1}",
                rate(&counted[0], &counted[counted.len() - 1]),
                worst.fold(0.0, f64::max),
            );
        }
    }
    println!("{}", load());
    Ok(())
}

/// Reads in a transaction, says so, and waits to be killed.
async fn abandon(endpoint: &str) -> Result<(), Failure> {
    let spanner = Spanner::builder().with_endpoint(endpoint).build().await?;
    let client = spanner.database_client(DATABASE).build().await?;
    let keys = KeySet::builder().add_key(key!["abandoned"]).build();
    let read = ReadRequest::builder("locktable", vec!["token", "writer"]).with_keys(keys).build();
    let transaction = client.read_write_transaction().build();
    let done = transaction.run(move |transaction: ReadWriteTransaction| {
        let read = read.clone();
        async move {
            transaction.execute_read(read).await?.next().await.transpose()?;
            println!("read");
            std::future::pending::<()>().await;
            Ok(())
        }
    });
    done.await?;
    Ok(())
}

async fn abandoned(trials: usize) -> Result<(), Failure> {
    const LEASE: Duration = Duration::from_secs(5);
    let google = Google::start(DATABASE)?;
    println!("abandoned, lease {LEASE:?}, {}", load());
    let mut healthy = Part::start(&["holder", &google.endpoint, "1", "5"])?;
    healthy.line()?;
    while counts(&mut healthy)?.get("held") != Some(&1) {
        sleep(LOOK).await;
    }
    let mut delays = Vec::new();
    for n in 0..trials {
        let table = LockTable::connect_to(&*google.endpoint, DATABASE, "locktable");
        // By now it is connected.
        table.inspect("abandoned").await?;
        let mut dying = Part::start(&["abandon", &google.endpoint])?;
        dying.line()?;
        dying.child.kill()?;
        let start = Instant::now();
        let lock = table.lock(format!("free-{n}")).lease(LEASE).build()?;
        let cancel = CancellationToken::new();
        let running = lock.run(cancel.clone());
        while lock.has_lock().is_none() {
            if start.elapsed() > TIME_LIMIT {
                return Err(format!("trial {n}: not held after {TIME_LIMIT:?}").into());
            }
            sleep(Duration::from_millis(1)).await;
        }
        delays.push(start.elapsed());
        cancel.cancel();
        running.await?;
    }
    delays.sort_unstable();
    let seconds = |delay: Option<&Duration>| delay.map_or(0.0, Duration::as_secs_f64);
    println!(
        "google-abandoned: ok trials={trials} median_s={:.2} worst_s={:.2} lost_by_others={}",
        seconds(delays.get(trials / 2)),
        seconds(delays.last()),
        counts(&mut healthy)?.get("lost").copied().unwrap_or_default(),
    );
    println!("{}", load());
    Ok(())
}
