//! A member that is killed, and the one that takes its shards.

use std::time::Duration;

use spindle::{Database, LockTable};
use tokio::time::{Instant, sleep};

use crate::LEASE;
use crate::parts::{DATABASE, Failure, Part, Server};
use crate::sharing::{Book, GROUP, SHARDS, Sharer};

/// The member that is there to be killed: it says when it has half of the shards, for good.
pub async fn member(endpoint: &str, shards: usize) -> Result<(), Failure> {
    let table = LockTable::new(Database::at(endpoint, DATABASE).side_by_side(), "locktable");
    let book = Book::default();
    let _sharer = Sharer::start(&table, "killed", shards, &book)?;
    book.until(|book| book.at_work() == shards).await?;
    println!("has all");
    book.until(|book| book.at_work() == shards / 2).await?;
    println!("has half");
    std::future::pending().await
}

/// Two members with so many shards each, of which one is killed.
pub async fn measure(server: &Server, each: usize) -> Result<(), Failure> {
    let shards = each * 2;
    let mut killed = Part::start(&["member", &server.endpoint, &shards.to_string()])?;
    killed.line()?;
    let (table, book) = (server.table(), Book::default());
    let sharer = Sharer::start(&table, "survivor", shards, &book)?;
    book.until(|book| book.at_work() == each).await?;
    killed.line()?;
    // Until the heartbeats are in step.
    sleep(LEASE * 2).await;
    book.begun();

    // SIGKILL, on Unix.
    killed.child.kill()?;
    let death = Instant::now();
    let (first_due, last_due) = due(&table).await?;
    book.until(|book| book.begun_so_far() > 0).await?;
    book.until(|book| book.at_work() == shards).await?;
    let begun = book.begun();
    let first = begun.iter().map(|begun| begun.at).min().ok_or("nothing began")?;
    let last = begun.iter().map(|begun| begun.at).max().ok_or("nothing began")?;
    println!(
        "fleets-killed: ok shards={each} first_after_kill_s={:.2} last_after_kill_s={:.2} \
         first_after_its_lease_s={:.3} last_after_its_lease_s={:.3}",
        (first - death).as_secs_f64(),
        (last - death).as_secs_f64(),
        seconds(first, first_due),
        seconds(last, last_due),
    );
    sharer.stop();
    sharer.left().await
}

/// Returns when the first and the last lease of the killed member run out.
async fn due(table: &LockTable) -> Result<(Instant, Instant), Failure> {
    let mut list = table.list().prefix(format!("spindle:shard:{GROUP}/{SHARDS}/"));
    let mut ages: Vec<Duration> = Vec::new();
    while let Some(lock) = list.next().await? {
        if lock.holder() == Some("killed") {
            ages.extend(lock.heartbeat_age);
        }
    }
    let now = Instant::now();
    let oldest = ages.iter().max().ok_or("the killed member held nothing")?;
    let youngest = ages.iter().min().ok_or("the killed member held nothing")?;
    Ok((now + LEASE - *oldest, now + LEASE - *youngest))
}

/// From one moment to another, which may be earlier.
fn seconds(at: Instant, since: Instant) -> f64 {
    (at - since).as_secs_f64() - (since - at).as_secs_f64()
}
