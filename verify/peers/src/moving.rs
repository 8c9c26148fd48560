//! Moving over: from a peer to ours and back, carried out and timed, and what a crash leaves on
//! the way. The page `docs/moving.md` says what each step is for.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::Failure;
use crate::participant::{Library, Participant};
use crate::report::{median, worst};
use crate::server::{Row, Server};
use crate::single::seconds;

/// Adds the columns that a peer's table lacks.
const UPGRADE: &str = include_str!("../../../ddl/googlesql-upgrade.sql");

/// Leases after which a step has failed.
const LIMIT_LEASES: u32 = 60;

/// Leases for which a lock that is locked up is watched.
const WATCHED_LEASES: u32 = 6;

/// Long enough to kill a process between its two commits.
const COMMIT_DELAY: Duration = Duration::from_millis(1_500);

struct Move<'a> {
    server: Server,
    ours: &'a Library,
    peer: &'a Library,
    locks: usize,
    lease: Duration,
}

/// Two processes of one library, on the same locks.
struct Pair {
    both: Vec<Participant>,
    ids: [String; 2],
}

pub async fn carry_out(
    program: &Path,
    ours: &Library,
    peer: &Library,
    locks: usize,
    lease: Duration,
) -> Result<(), Failure> {
    let server = Server::with_table(program, "tests/four_columns.sql").await?;
    let moving = Move { server, ours, peer, locks, lease };
    let name = peer.name;
    let over = moving.there().await?;
    let back = moving.back_after_release().await?;
    let crash = moving.back_after_a_crash().await?;
    let (left, healed) = moving.half_a_takeover().await?;
    println!(
        "moving: ok from={name} locks={locks} lease={}s there={}s back={}s back_after_crash={}s \
         locked_up_by_half_a_takeover={left} healed_after={}s",
        lease.as_secs_f64(),
        summary(&over),
        summary(&back),
        summary(&crash),
        summary(&healed),
    );
    Ok(())
}

impl Move<'_> {
    /// Add the columns, stop, wait a lease, start.
    async fn there(&self) -> Result<Vec<f64>, Failure> {
        let prefix = "there";
        let mut old = self.start(self.peer, prefix, "old").await?;
        let before = self.held_by(prefix, &old).await?;
        self.say(&format!("{} holds {} locks with two processes", self.peer.name, before.len()));
        self.server.alter(UPGRADE).await?;
        sleep(self.lease * 3).await;
        let after = self.held_by(prefix, &old).await?;
        let goes_on = |(lock, row): (&String, &Row)| {
            before.get(lock).is_some_and(|before| row.heartbeat > before.heartbeat)
        };
        if !after.iter().all(goes_on) {
            return Err(format!("{} sends no heartbeat after the ALTER", self.peer.name).into());
        }
        self.say("the table has all columns, and the peer goes on");
        let gone = old.stop().await?;
        self.say("both are stopped");
        sleep(self.lease).await;
        let mut new = self.start(self.ours, prefix, "new").await?;
        let after = self.held_by(prefix, &new).await?;
        for (lock, row) in &after {
            let earlier = before.get(lock).ok_or("a lock that nobody had")?.token;
            if row.token <= earlier {
                return Err(format!("{lock}: token {} after {earlier}", row.token).into());
            }
        }
        let without: Vec<f64> = after.values().map(|row| seconds(row.token - gone)).collect();
        self.say(&format!("ours holds them all, {} s after, with later tokens", summary(&without)));
        new.stop().await?;
        Ok(without)
    }

    /// Ours releases when it stops, so the peer need not wait.
    async fn back_after_release(&self) -> Result<Vec<f64>, Failure> {
        let prefix = "back";
        let mut new = self.start(self.ours, prefix, "new").await?;
        self.held_by(prefix, &new).await?;
        let gone = new.stop().await?;
        let mut old = self.start(self.peer, prefix, "old").await?;
        let after = self.held_by(prefix, &old).await?;
        let without: Vec<f64> = after.values().map(|row| seconds(row.heartbeat - gone)).collect();
        self.say(&format!(
            "the way back: {} holds them again, {} s after",
            self.peer.name,
            summary(&without)
        ));
        old.stop().await?;
        Ok(without)
    }

    /// Nothing is released: the peer waits the lease out.
    async fn back_after_a_crash(&self) -> Result<Vec<f64>, Failure> {
        let prefix = "crash";
        let mut new = self.start(self.ours, prefix, "new").await?;
        let before = self.held_by(prefix, &new).await?;
        new.kill().await?;
        let mut old = self.start(self.peer, prefix, "old").await?;
        let after = self.held_by(prefix, &old).await?;
        let without: Vec<f64> = after
            .iter()
            .filter_map(|(lock, row)| Some(seconds(row.heartbeat - before.get(lock)?.heartbeat)))
            .collect();
        self.say(&format!(
            "ours killed instead: {} holds them {} s after",
            self.peer.name,
            summary(&without)
        ));
        old.stop().await?;
        Ok(without)
    }

    /// A peer dies between its two commits: the peer is locked up for good, ours is not.
    async fn half_a_takeover(&self) -> Result<(usize, Vec<f64>), Failure> {
        // A machine that stalls can let the second commit through before the kill.
        for prefix in ["half-a", "half-b", "half-c"] {
            let left = self.dies_halfway(prefix).await?;
            self.say(&format!(
                "{} dies between its two commits: {} locks are half taken over",
                self.peer.name,
                left.len()
            ));
            if !left.is_empty() {
                return self.heal(prefix, &left).await;
            }
        }
        Err("no takeover was left halfway, three times".into())
    }

    /// Kills a holder, and then the process that takes over, between its two commits. Returns the
    /// locks that are half taken over.
    async fn dies_halfway(&self, prefix: &str) -> Result<Vec<String>, Failure> {
        let (holder, contender) =
            (self.one(self.peer, prefix, "old-0")?, self.one(self.peer, prefix, "old-1")?);
        for participant in [&holder, &contender] {
            participant.ready().await?;
        }
        let mut old = Pair { both: vec![holder, contender], ids: ids("old") };
        // The holder is killed first, so that the other takes over; locks of both may be among
        // them.
        let rows = self.settled(prefix, &old).await?;
        self.server.delay_commits(COMMIT_DELAY).await?;
        let first = rows.values().filter(|row| row.is_of(&old.ids[0])).count();
        let (dies, takes) = if first * 2 >= rows.len() { (0, 1) } else { (1, 0) };
        old.both[dies].kill().await?;
        let deadline = Instant::now() + self.lease * LIMIT_LEASES;
        while self.server.takeover_rows(prefix).await?.is_empty() {
            if Instant::now() > deadline {
                return Err(format!("{} never began a takeover", self.peer.name).into());
            }
            sleep(Duration::from_millis(10)).await;
        }
        old.both[takes].kill().await?;
        self.server.clear_faults().await?;
        // Requests under way are either applied or not by now.
        sleep(COMMIT_DELAY + self.lease).await;
        self.begun(prefix, &rows).await
    }

    /// Waits until each lock is in the hands of one of the two and no takeover row is left.
    ///
    /// Two that start together may take over from each other at once. The row of such a takeover
    /// stays until the next heartbeat, and is in nobody's way: it is for an earlier token.
    async fn settled(&self, prefix: &str, pair: &Pair) -> Result<BTreeMap<String, Row>, Failure> {
        let deadline = Instant::now() + self.lease * LIMIT_LEASES;
        loop {
            let (rows, takeovers) = self.server.rows(prefix).await?;
            let held = rows.values().filter(|row| pair.has(row)).count();
            if held == self.locks && takeovers.is_empty() {
                return Ok(rows);
            }
            if Instant::now() > deadline {
                let takeovers = takeovers.len();
                return Err(format!("{held} locks held, {takeovers} takeover rows left").into());
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Starts the peer again, and then ours. Returns how many locks the peer left without a
    /// holder, and after how many seconds ours held each.
    async fn heal(&self, prefix: &str, left: &[String]) -> Result<(usize, Vec<f64>), Failure> {
        let mut again = self.start(self.peer, prefix, "again").await?;
        sleep(self.lease * WATCHED_LEASES).await;
        let rows = self.server.locks(prefix).await?;
        let free =
            left.iter().filter(|lock| rows.get(*lock).is_some_and(|row| again.has(row))).count();
        let locked_up = left.len() - free;
        self.say(&format!(
            "{} started again, {WATCHED_LEASES} leases long: {locked_up} of these locks have no holder",
            self.peer.name,
        ));
        again.stop().await?;
        if locked_up == 0 {
            return Err(
                "the peer healed its own half of a takeover: the documents say otherwise".into()
            );
        }
        sleep(self.lease).await;
        let started = crate::now();
        let mut new = self.start(self.ours, prefix, "new").await?;
        let after = self.held_by(prefix, &new).await?;
        let healed: Vec<f64> = left
            .iter()
            .filter_map(|lock| after.get(lock))
            .map(|row| seconds(row.token - started))
            .collect();
        self.say(&format!("ours holds them {} s after it was started", summary(&healed)));
        new.stop().await?;
        Ok((locked_up, healed))
    }

    /// The locks that have a takeover row and the same token as `before` anybody died: begun, and
    /// not finished.
    async fn begun(
        &self,
        prefix: &str,
        before: &BTreeMap<String, Row>,
    ) -> Result<Vec<String>, Failure> {
        let (rows, takeovers) = self.server.rows(prefix).await?;
        let begun = |lock: &str| takeovers.iter().any(|row| row.starts_with(&format!("{lock}_")));
        let same =
            |lock: &str, row: &Row| before.get(lock).is_some_and(|old| old.token == row.token);
        Ok(rows
            .into_iter()
            .filter(|(lock, row)| same(lock, row) && begun(lock))
            .map(|(lock, _)| lock)
            .collect())
    }

    async fn start(&self, library: &Library, prefix: &str, name: &str) -> Result<Pair, Failure> {
        let ids = ids(name);
        let both = vec![self.one(library, prefix, &ids[0])?, self.one(library, prefix, &ids[1])?];
        for participant in &both {
            participant.ready().await?;
        }
        Ok(Pair { both, ids })
    }

    fn one(&self, library: &Library, prefix: &str, id: &str) -> Result<Participant, Failure> {
        Participant::start(library, &self.server.address, id, prefix, self.locks, self.lease)
    }

    /// Waits until each lock is in the hands of one of the two.
    async fn held_by(&self, prefix: &str, pair: &Pair) -> Result<BTreeMap<String, Row>, Failure> {
        let deadline = Instant::now() + self.lease * LIMIT_LEASES;
        let mut held: BTreeMap<String, Row> = BTreeMap::new();
        loop {
            for (lock, row) in self.server.locks(prefix).await? {
                if pair.has(&row) {
                    // The first sight is the one nearest to when it was taken.
                    held.entry(lock).or_insert(row);
                }
            }
            if held.len() == self.locks {
                return Ok(held);
            }
            if Instant::now() > deadline {
                let held = held.len();
                return Err(
                    format!("{}: {held} of {} locks are held", pair.ids[0], self.locks).into()
                );
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    fn say(&self, what: &str) {
        println!("{}: {what}", self.peer.name);
    }
}

impl Pair {
    fn has(&self, row: &Row) -> bool {
        self.ids.iter().any(|id| row.is_of(id))
    }

    /// Asks both to go, and says when the last of them led no more.
    async fn stop(&mut self) -> Result<i128, Failure> {
        let mut last = 0;
        for participant in &mut self.both {
            last = participant.go().await?.max(last);
        }
        for participant in &mut self.both {
            participant.ended().await?;
        }
        Ok(last)
    }

    async fn kill(&mut self) -> Result<(), Failure> {
        for participant in &mut self.both {
            participant.kill().await?;
        }
        Ok(())
    }
}

fn ids(name: &str) -> [String; 2] {
    [format!("{name}-0"), format!("{name}-1")]
}

fn summary(values: &[f64]) -> String {
    match (median(values), worst(values)) {
        (Some(median), Some(worst)) => format!("{median:.2} (worst {worst:.2})"),
        _ => "-".to_string(),
    }
}
