//! A contender for each of some locks.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use spindle::{CancellationToken, FencingToken, Spindle, TermChange};
use tokio::time::{Instant, timeout_at};

use super::claims::{Held, say_who_holds};
use super::{LEAVE_LIMIT, Order, Worker};
use crate::history::{Event, Failure, Journal};

impl Worker {
    pub(super) async fn contend(mut self) -> Result<(), Failure> {
        let build = |lock| {
            let lock = self.table.lock(self.target.key(lock));
            lock.lease(self.target.lease()).id(&*self.id).build()
        };
        let locks = (0..self.target.count()).map(build).collect::<Result<Vec<Spindle>, _>>()?;
        let cancel = CancellationToken::new();
        let running: Vec<_> = locks.iter().map(|lock| lock.run(cancel.clone())).collect();
        say_who_holds(Locks(locks.clone()), Arc::clone(&self.journal));
        for (number, lock) in locks.iter().enumerate() {
            tokio::spawn(report(number, lock.clone(), Arc::clone(&self.journal)));
            let (counters, held) = (Arc::clone(&self.counters), lock.clone());
            let fence = move || held.term().map(|term| term.fence());
            tokio::spawn(async move { counters.write_while_held(number, fence).await });
        }
        while let Some(Order::Resign) = self.orders.recv().await {
            self.journal.write(Event::LetsGo)?;
            for lock in locks.clone() {
                tokio::spawn(lock.resign());
            }
        }
        self.journal.write(Event::LetsGo)?;
        cancel.cancel();
        let limit = Instant::now() + LEAVE_LIMIT;
        for running in running {
            // A lock that is not released is left to its lease.
            let _ = timeout_at(limit, running).await;
        }
        Ok(())
    }
}

struct Locks(Vec<Spindle>);

impl Held for Locks {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn token(&self, lock: usize) -> Option<FencingToken> {
        self.0[lock].has_lock()
    }

    fn remaining(&self, lock: usize, token: FencingToken) -> Option<Duration> {
        let term = self.0[lock].term().filter(|term| term.token() == token);
        term.map(|term| term.remaining())
    }
}

/// Tells the parent who holds, so that it knows whom to hit.
async fn report(number: usize, lock: Spindle, journal: Arc<Journal>) -> Result<(), Failure> {
    let mut watch = lock.watch();
    while let Some(change) = watch.next().await {
        match change {
            TermChange::Gained(_) => writeln!(std::io::stdout(), "holds")?,
            TermChange::Lost(term) => {
                let token = term.token().as_nanoseconds();
                let why = format!("{:?}", term.ended());
                journal.write_of(number, Event::Lost { token, why })?;
                writeln!(std::io::stdout(), "lost")?;
            }
            _ => {}
        }
    }
    Ok(())
}
