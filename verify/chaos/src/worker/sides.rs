//! A reader or a writer, which takes the lock again and again.

use std::io::Write as _;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use spindle::{CancellationToken, Term};
use spindle_fleet::{ReadGuard, RwLock, WriteGuard};
use tokio::time::sleep;

use super::Worker;
use super::claims::say_who_holds;
use super::holders::Holders;
use crate::counters::{Counters, random_between};
use crate::history::{Event, Failure, Journal};
use crate::setup::{GROUP, WRITERS};

/// At least and at most, in milliseconds.
const WORK: (u64, u64) = (200, 1_200);
/// From one turn of a reader to its next. A writer pauses for longer: one that followed the other at
/// once would keep the readers out.
const READERS_PAUSE: (u64, u64) = (0, 300);
const WRITERS_PAUSE: (u64, u64) = (500, 4_000);

impl Worker {
    /// Takes turns until it is told to leave. A worker that resigns ends its turn early.
    pub(super) async fn take_turns(mut self) -> Result<(), Failure> {
        let lock =
            RwLock::new(&self.table, GROUP).id(&*self.id).lease(self.target.lease()).build()?;
        let side = self.target.side(&self.id).ok_or("the worker is on no side")?;
        let holders = Holders::new(self.target.count(), &self.journal);
        say_who_holds(holders.clone(), Arc::clone(&self.journal));
        let (counters, journal) = (Arc::clone(&self.counters), Arc::clone(&self.journal));
        let player = Arc::new(Player { lock, side, holders, counters, journal });
        self.again_and_again(|stop| Arc::clone(&player).take_turn(stop)).await
    }
}

struct Player {
    lock: RwLock,
    side: usize,
    holders: Holders,
    counters: Arc<Counters>,
    journal: Arc<Journal>,
}

enum Guard {
    Read(ReadGuard),
    Write(WriteGuard),
}

impl Deref for Guard {
    type Target = Term;

    fn deref(&self) -> &Term {
        match self {
            Guard::Read(guard) => guard,
            Guard::Write(guard) => guard,
        }
    }
}

impl Player {
    async fn take_turn(self: Arc<Self>, stop: CancellationToken) -> Result<(), Failure> {
        let pause = if self.side == WRITERS { WRITERS_PAUSE } else { READERS_PAUSE };
        let begin = async {
            sleep(between(pause)).await;
            self.journal.write_of(self.side, Event::Asks)?;
            self.begin().await
        };
        let guard = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            guard = begin => guard?,
        };
        writeln!(std::io::stdout(), "holds")?;
        self.work(&guard, &stop).await;
        writeln!(std::io::stdout(), "lost")?;
        match guard {
            Guard::Read(guard) => guard.release().await,
            Guard::Write(guard) => guard.release().await,
        };
        Ok(())
    }

    async fn begin(&self) -> Result<Guard, Failure> {
        Ok(if self.side == WRITERS {
            Guard::Write(self.lock.write().await?)
        } else {
            Guard::Read(self.lock.read().await?)
        })
    }

    async fn work(&self, term: &Term, stop: &CancellationToken) {
        let _at_work = self.holders.enter(self.side, term);
        let enough = sleep(between(WORK));
        tokio::pin!(enough);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = term.cancelled() => return,
                () = &mut enough => return,
                () = self.counters.pause() => {}
            }
            // It takes its time even if the term is over meanwhile.
            self.counters.write(self.side, term.fence()).await;
        }
    }
}

fn between((least, most): (u64, u64)) -> Duration {
    random_between(Duration::from_millis(least), Duration::from_millis(most))
}
