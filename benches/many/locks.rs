//! Many locks of one process, and processes that have them.

use std::collections::BTreeMap;
use std::time::Duration;

use spindle::{CancellationToken, Database, FencingToken, LockTable, RunHandle, Spindle};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::time::{Instant, sleep};

use crate::TIME_LIMIT;
use crate::parts::{DATABASE, Failure, Part};

/// How often each lock is looked at, where terms that end are counted.
pub const LOOK: Duration = Duration::from_millis(100);

/// All the locks, of one table in this process.
pub struct Locks {
    pub locks: Vec<(Spindle, RunHandle)>,
    cancel: CancellationToken,
    tokens: Vec<Option<FencingToken>>,
    /// Terms that have ended, as far as somebody has looked.
    pub lost: usize,
}

impl Locks {
    pub fn start(
        endpoint: &str,
        name: &str,
        count: usize,
        lease: Duration,
    ) -> Result<Locks, Failure> {
        let table = LockTable::new(Database::at(endpoint, DATABASE).side_by_side(), "locktable");
        let cancel = CancellationToken::new();
        let start = |n| {
            let lock = table.lock(format!("{name}-{n:05}")).lease(lease).build()?;
            let running = lock.run(cancel.clone());
            Ok((lock, running))
        };
        let locks = (0..count).map(start).collect::<Result<_, Failure>>()?;
        Ok(Locks { locks, cancel, tokens: vec![None; count], lost: 0 })
    }

    /// Looks at each lock, and returns how many are held.
    pub fn look(&mut self) -> usize {
        for ((lock, _), before) in self.locks.iter().zip(&mut self.tokens) {
            let now = lock.has_lock();
            self.lost += usize::from(before.is_some() && now != *before);
            *before = now;
        }
        self.tokens.iter().flatten().count()
    }

    pub async fn until_held(&mut self, count: usize) -> Result<(), Failure> {
        let start = Instant::now();
        let mut most = 0;
        loop {
            let held = self.look();
            if held >= count {
                return Ok(());
            }
            if start.elapsed() > TIME_LIMIT {
                let error = format!("{held} of {count} held after {TIME_LIMIT:?}, {most} at most");
                return Err(error.into());
            }
            most = most.max(held);
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Says, to whoever sets `TROUBLES`, what is in the way of how many.
    pub fn say_troubles(&self) {
        if std::env::var_os("TROUBLES").is_none() {
            return;
        }
        let mut troubles = BTreeMap::<String, usize>::new();
        for (lock, _) in &self.locks {
            if let Some(trouble) = lock.health().trouble {
                let error: &dyn std::error::Error = &trouble.error;
                let causes = std::iter::successors(Some(error), |error| error.source());
                let text: Vec<_> = causes.map(ToString::to_string).collect();
                *troubles.entry(text.join(": ").replace(lock.name(), "many")).or_default() += 1;
            }
        }
        troubles.iter().for_each(|(trouble, count)| eprintln!("    {count} x {trouble}"));
    }

    pub async fn stop(self) -> Result<(), Failure> {
        self.cancel.cancel();
        for (_, running) in self.locks {
            running.await?;
        }
        Ok(())
    }
}

/// A process that wants all the locks; each line it reads asks how many it holds and has lost.
pub async fn hold(
    endpoint: &str,
    name: &str,
    count: usize,
    lease: Duration,
) -> Result<(), Failure> {
    let mut locks = Locks::start(endpoint, name, count, lease)?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    loop {
        tokio::select! {
            line = lines.next_line() => {
                if line?.is_none() {
                    return Ok(());
                }
                println!("held={} lost={}", locks.look(), locks.lost);
                locks.say_troubles();
            }
            () = sleep(LOOK) => { locks.look(); }
        }
    }
}

/// Adds up a count of such processes.
pub fn sum(holders: &mut [Part], what: &str) -> Result<usize, Failure> {
    let mut sum = 0;
    for holder in holders {
        sum += usize::try_from(*holder.counts()?.get(what).ok_or("no count")?)?;
    }
    Ok(sum)
}

pub fn held(holders: &mut [Part]) -> Result<usize, Failure> {
    sum(holders, "held")
}

pub async fn until_held(
    holders: &mut [Part],
    locks: usize,
    time_limit: Duration,
) -> Result<(), Failure> {
    let start = Instant::now();
    loop {
        let held = held(holders)?;
        if held == locks {
            return Ok(());
        }
        if start.elapsed() > time_limit {
            return Err(format!("{held} of {locks} held after {time_limit:?}").into());
        }
        sleep(LOOK).await;
    }
}
