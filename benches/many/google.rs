//! Many locks, and transactions that dead processes left, on Google's own Spanner emulator.

use std::time::Duration;

use spindle::google_cloud_spanner::client::Spanner;
use spindle::google_cloud_spanner::key;
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::transaction::ReadWriteTransaction;
use spindle::{CancellationToken, Database, LockTable};
use tokio::time::{Instant, sleep};

use crate::TIME_LIMIT;
use crate::locks::{held, sum, until_held};
use crate::parts::{DATABASE, Failure, Part, Times, connect, load};
use crate::relay::{Counts, Kind, Relay};

/// The requests of each process, by kind, until then.
type Counted = (Instant, Vec<Counts>);

/// Makes the lock table on the emulator that the environment names.
async fn endpoint() -> Result<String, Failure> {
    let admin = LockTable::admin(&Spanner::builder().build().await?).await?;
    LockTable::new(DATABASE, "locktable").create(&admin, DATABASE).await?;
    Ok(format!("http://{}", std::env::var("SPANNER_EMULATOR_HOST")?))
}

pub async fn contended(
    processes: usize,
    locks: usize,
    lease: Duration,
    watched: Duration,
) -> Result<(), Failure> {
    let endpoint = endpoint().await?;
    let about = format!("processes={processes} locks={locks} lease_s={}", lease.as_secs());
    println!("{about}, {}", load());
    let start = Instant::now();
    let (mut relays, mut parts) = (Vec::new(), Vec::new());
    for _ in 0..processes {
        let relay = Relay::start(&endpoint).await?;
        let (count, lease) = (locks.to_string(), lease.as_secs().to_string());
        let part = Part::start(&["holder", &relay.endpoint, "many", &count, &lease])?;
        relays.push(relay);
        parts.push(part);
    }
    let requests = || relays.iter().map(Relay::requests).collect::<Vec<_>>();
    until_held(&mut parts, locks, TIME_LIMIT).await?;
    let held_after = start.elapsed().as_secs_f64();
    let lost_before = sum(&mut parts, "lost")?;
    let start = Instant::now();
    let mut least = locks;
    let mut counted = vec![(start, requests())];
    while start.elapsed() < watched {
        sleep(Duration::from_secs(1)).await;
        least = least.min(held(&mut parts)?);
        counted.push((Instant::now(), requests()));
    }
    println!(
        "google-held: ok {about} held_after_s={held_after:.1} lost_before={lost_before} watched_s={} lost={} held_least={least}",
        watched.as_secs(),
        sum(&mut parts, "lost")? - lost_before,
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
pub async fn abandon(endpoint: &str) -> Result<(), Failure> {
    let client = connect(endpoint).await?;
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

pub async fn abandoned(trials: usize) -> Result<(), Failure> {
    const LEASE: Duration = Duration::from_secs(5);
    let endpoint = endpoint().await?;
    println!("abandoned, lease {LEASE:?}, {}", load());
    let mut healthy = [Part::start(&["holder", &endpoint, "many", "1", "5"])?];
    until_held(&mut healthy, 1, TIME_LIMIT).await?;
    let mut delays = Vec::new();
    for n in 0..trials {
        let table = LockTable::new(Database::at(&*endpoint, DATABASE), "locktable");
        // By now it is connected.
        table.inspect("abandoned").await?;
        let mut dying = Part::start(&["abandon", &endpoint])?;
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
    let delays = Times::from_iter(delays);
    println!(
        "google-abandoned: ok trials={} median_s={:.2} worst_s={:.2} lost_by_others={}",
        delays.count(),
        delays.at(50).as_secs_f64(),
        delays.at(100).as_secs_f64(),
        sum(&mut healthy, "lost")?,
    );
    println!("{}", load());
    Ok(())
}
