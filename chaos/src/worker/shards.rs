//! A member of a group that shares shards out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spindle::fleet::{Shard, Shards};
use spindle::{CancellationToken, FencingToken, Term};
use tokio::time::timeout;

use super::claims::{Held, say_who_holds};
use super::{FAREWELL, Order, Worker};
use crate::clerk::Clerk;
use crate::history::{Event, Failure, Journal, must};
use crate::setup::{GROUP, SHARDS};

impl Worker {
    /// Takes part until it is told to leave. A member that resigns takes part no more, and at once
    /// again.
    pub(super) async fn share(mut self, count: usize) -> Result<(), Failure> {
        let member = self.table.member(GROUP).id(&*self.id).lease(self.target.lease()).build()?;
        let floor = Floor { count, at_work: Arc::default(), journal: Arc::clone(&self.journal) };
        say_who_holds(floor.clone(), Arc::clone(&self.journal));
        let cancel = CancellationToken::new();
        let running = member.run(cancel.clone());
        let shards = member.shards(SHARDS, count);
        let mut goes_on = true;
        while goes_on {
            let stop = CancellationToken::new();
            let toil = Toil { clerk: Arc::clone(&self.clerk), floor: floor.clone() };
            let mut sharing = tokio::spawn(share(shards.clone(), stop.clone(), toil));
            tokio::select! {
                // It ends before it is told to only if it can't go on.
                ended = &mut sharing => return ended?,
                order = self.orders.recv() => goes_on = matches!(order, Some(Order::Resign)),
            }
            stop.cancel();
            // A shard that is not released by then is left to its lease.
            let _ = timeout(FAREWELL, sharing).await;
        }
        cancel.cancel();
        let _ = timeout(FAREWELL, running).await;
        Ok(())
    }
}

async fn share(shards: Shards, stop: CancellationToken, toil: Toil) -> Result<(), Failure> {
    Ok(shards.run(stop, move |shard| toil.clone().work(shard)).await?)
}

/// The task of each shard.
#[derive(Clone)]
struct Toil {
    clerk: Arc<Clerk>,
    floor: Floor,
}

impl Toil {
    async fn work(self, shard: Shard) {
        let _at_work = self.floor.enter(&shard);
        loop {
            tokio::select! {
                biased;
                () = shard.cancelled() => return,
                () = self.clerk.pause() => {}
            }
            // It takes its time even if it is told to stop meanwhile.
            self.clerk.write(shard.number(), shard.fence()).await;
        }
    }
}

/// The shards whose tasks are at work in this process.
#[derive(Clone)]
struct Floor {
    count: usize,
    at_work: Arc<Mutex<BTreeMap<usize, Term>>>,
    journal: Arc<Journal>,
}

/// A task at work, until this is dropped.
struct AtWork {
    floor: Floor,
    shard: Shard,
}

impl Floor {
    fn enter(&self, shard: &Shard) -> AtWork {
        let before = self.lock().insert(shard.number(), (**shard).clone());
        if let Some(before) = before {
            let (token, other) = (shard.token(), before.token());
            let (token, other) = (token.as_nanoseconds(), other.as_nanoseconds());
            self.write(shard, Event::Beside { token, other });
        }
        AtWork { floor: self.clone(), shard: shard.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Term>> {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, shard: &Shard, event: Event) {
        must(self.journal.write_of(shard.number(), event));
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let AtWork { floor, shard } = self;
        let mut at_work = floor.lock();
        if at_work.get(&shard.number()).is_some_and(|term| term.token() == shard.token()) {
            at_work.remove(&shard.number());
        }
        drop(at_work);
        let token = shard.token().as_nanoseconds();
        let end = match shard.loss() {
            Some(loss) => Event::Lost { token, why: format!("{loss:?}") },
            None => Event::LetsGo,
        };
        floor.write(shard, end);
    }
}

impl Held for Floor {
    fn count(&self) -> usize {
        self.count
    }

    /// The task is at work, and its writes pass the fence: so nobody else may be at work.
    fn token(&self, lock: usize) -> Option<FencingToken> {
        let term = self.term(lock)?;
        (!term.remaining().is_zero()).then(|| term.token())
    }

    fn term(&self, lock: usize) -> Option<Term> {
        self.lock().get(&lock).cloned()
    }
}
