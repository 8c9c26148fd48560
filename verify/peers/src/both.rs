//! Two libraries on the same locks all the same: what goes wrong, and how often.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::Failure;
use crate::participant::{Library, Participant, Told};
use crate::report::load;
use crate::server::Server;
use crate::single::seconds;

/// Each round one of the two processes is killed and started again.
const ROUND_LEASES: u32 = 8;

const PREFIX: &str = "both";

/// A stretch of time in which a program took a lock for its own; nanoseconds since the epoch.
struct Belief {
    from: i128,
    to: i128,
}

/// Runs both on one set of locks while `spinners` threads keep the machine busy.
pub async fn measure(
    program: &Path,
    (ours, other): (&Library, &Library),
    (locks, lease): (usize, Duration),
    (rounds, spinners): (usize, usize),
) -> Result<(), Failure> {
    let server = Server::start(program).await?;
    let stop = Arc::new(AtomicBool::new(false));
    for _ in 0..spinners {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
    }
    let mut thefts = 0;
    let mut overlaps = Vec::new();
    for round in 0..rounds {
        let prefix = format!("{PREFIX}-{round}");
        // Each begins every other round, so that each is the holder that the other sees.
        let (first, second) = if round % 2 == 0 { (ours, other) } else { (other, ours) };
        let a = Participant::start(first, &server.address, "a", &prefix, locks, lease)?;
        a.ready().await?;
        let held = server.held_by(&prefix, "a", locks, lease * 6).await?;
        let b = Participant::start(second, &server.address, "b", &prefix, locks, lease)?;
        b.ready().await?;
        let stolen = watch(&server, &prefix, lease * ROUND_LEASES).await?;
        let end = crate::now();
        let double = doubles(&a.told(), &b.told(), end);
        println!(
            "round {round}: {} held {held} of {locks}, {} came after: {stolen} locks changed hands, \
             {} double beliefs, load {}",
            first.name,
            second.name,
            double.len(),
            load(),
        );
        thefts += stolen;
        overlaps.extend(double);
        drop((a, b));
    }
    stop.store(true, Ordering::Relaxed);
    overlaps.sort_by(f64::total_cmp);
    println!(
        "both-with-{}: ok locks={} lease_s={} round_s={} spinners={spinners} changed_hands={thefts} \
         both_believed={} longest_s={:.2}",
        other.name.to_lowercase().replace(' ', "-"),
        locks * rounds,
        lease.as_secs_f64(),
        (lease * ROUND_LEASES).as_secs_f64(),
        overlaps.len(),
        overlaps.last().unwrap_or(&0.0),
    );
    Ok(())
}

/// Counts how often a lock goes from one live process to the other.
async fn watch(server: &Server, prefix: &str, duration: Duration) -> Result<usize, Failure> {
    let deadline = Instant::now() + duration;
    let mut holders: BTreeMap<String, bool> = BTreeMap::new();
    let mut changes = 0;
    while Instant::now() < deadline {
        for (name, row) in server.locks(prefix).await? {
            if !row.is_of("a") && !row.is_of("b") {
                continue;
            }
            let first = row.is_of("a");
            let before = holders.insert(name, first);
            changes += usize::from(before.is_some_and(|before| before != first));
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(changes)
}

/// How long each of the stretches was in which both took a lock for theirs, in seconds.
fn doubles(a: &[Told], b: &[Told], end: i128) -> Vec<f64> {
    let (a, b) = (beliefs(a, end), beliefs(b, end));
    let mut found = Vec::new();
    for (lock, of_a) in &a {
        for belief in of_a {
            for other in b.get(lock).into_iter().flatten() {
                let overlap = belief.to.min(other.to) - belief.from.max(other.from);
                if overlap > 0 {
                    found.push(seconds(overlap));
                }
            }
        }
    }
    found
}

fn beliefs(told: &[Told], end: i128) -> BTreeMap<String, Vec<Belief>> {
    let mut beliefs: BTreeMap<String, Vec<Belief>> = BTreeMap::new();
    for change in told {
        let of_lock = beliefs.entry(change.lock.clone()).or_default();
        if change.gained {
            of_lock.push(Belief { from: change.at, to: end });
        } else if let Some(last) = of_lock.last_mut() {
            last.to = last.to.min(change.at);
        }
    }
    beliefs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(gained: bool, at: i128) -> Told {
        Told { gained, lock: "l".to_string(), at: at * 1_000_000_000 }
    }

    #[test]
    fn beliefs_that_overlap_are_found_and_those_that_touch_are_not() {
        let end = 100_000_000_000;
        let a = [told(true, 1), told(false, 5), told(true, 20), told(false, 30)];
        let b = [told(true, 5), told(false, 20), told(true, 29)];
        assert_eq!(doubles(&a, &b, end), [1.0]);
        assert_eq!(doubles(&a, &[told(true, 4)], end), [1.0, 10.0]);
        assert_eq!(doubles(&a, &[], end), Vec::<f64>::new());
    }

    #[test]
    fn a_lock_that_is_never_lost_is_believed_in_to_the_end() {
        let found = doubles(&[told(true, 1)], &[told(true, 90)], 100_000_000_000);
        assert_eq!(found, [10.0]);
    }
}
