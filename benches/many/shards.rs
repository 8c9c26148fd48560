//! A member that joins many others, and what they cost while nothing happens.

use tokio::time::{Instant, sleep};

use crate::LEASE;
use crate::parts::{Failure, Server, Times};
use crate::sharing::{Book, Sharer};

/// For so many leases nothing happens.
const STEADY: u32 = 3;

/// So many members, of which the last one joins when the others share all shards.
pub async fn join(server: &mut Server, members: usize, shards: usize) -> Result<(), Failure> {
    let book = Book::default();
    let mut sharers = Vec::new();
    let start = Instant::now();
    for number in 1..members {
        sharers.push(Sharer::start(&server.table(), &id(number), shards, &book)?);
    }
    book.until_even(members - 1, shards).await?;
    println!(
        "fleets-start: ok members={} shards={shards} balanced_after_s={:.1}",
        members - 1,
        start.elapsed().as_secs_f64()
    );
    // Until the heartbeats are in step.
    sleep(LEASE * 2).await;
    steady(server, members - 1, shards, &book).await?;

    book.begun();
    let start = Instant::now();
    sharers.push(Sharer::start(&server.table(), &id(members), shards, &book)?);
    book.until_even(members, shards).await?;
    let balanced = start.elapsed();
    sleep(LEASE).await;
    let begun = book.begun();
    let gaps: Times = begun.iter().filter_map(|begun| begun.gap).collect();
    println!(
        "fleets-join: ok members={members} shards={shards} balanced_after_s={:.2} moves={} \
         optimum={} {}",
        balanced.as_secs_f64(),
        begun.len(),
        shards / members,
        gaps.told("gap_", 1),
    );
    sleep(LEASE * 2).await;
    steady(server, members, shards, &book).await?;

    let start = Instant::now();
    sharers.iter().for_each(Sharer::stop);
    for sharer in sharers {
        sharer.left().await?;
    }
    println!(
        "fleets-end: ok members={members} shards={shards} left_after_s={:.1}",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

async fn steady(
    server: &mut Server,
    members: usize,
    shards: usize,
    book: &Book,
) -> Result<(), Failure> {
    book.begun();
    let (before, start) = (server.requests()?, Instant::now());
    sleep(LEASE * STEADY).await;
    let leases = start.elapsed().as_secs_f64() / LEASE.as_secs_f64();
    let requests = (server.requests()? - before) as f64;
    println!(
        "fleets-steady-{members}: ok members={members} shards={shards} \
         requests_a_lease_each={:.1} moves={}",
        requests / leases / members as f64,
        book.begun().len()
    );
    Ok(())
}

fn id(number: usize) -> String {
    format!("member-{number}")
}
