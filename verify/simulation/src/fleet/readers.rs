//! Callers that read and write under one lock, and what it owes them.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use spindle::testing::Clock;
use spindle::{LockTable, Term};
use spindle_fleet::{ReadGuard, RwLock, WriteGuard};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::checks::What;
use super::slot::{Life, Slot};
use super::world::{FleetWorld, LINES};
use crate::checks::Invariant;
use crate::coverage::CoverageGoal;
use crate::timeline::Judged;

/// The lock's name.
const NAME: &str = "catalogue";

enum Got {
    Read(ReadGuard),
    Write(WriteGuard),
}

impl Got {
    fn term(&self) -> &Term {
        match self {
            Got::Read(guard) => guard,
            Got::Write(guard) => guard,
        }
    }

    fn what(&self) -> What {
        match self {
            Got::Read(_) => What::Read,
            Got::Write(_) => What::Write,
        }
    }

    async fn release(self) {
        match self {
            Got::Read(guard) => guard.release().await,
            Got::Write(guard) => guard.release().await,
        };
    }
}

impl Slot {
    /// Reads and writes for as long as the fault phase lasts. A caller that waits then waits on.
    pub(super) async fn read_and_write(self: &Arc<Slot>, life: &Life, table: &LockTable) {
        let lock = self.build(RwLock::new(table, NAME));
        let mut callers = JoinSet::new();
        for _ in 0..=self.world.plan.callers {
            let (slot, life, lock) = (Arc::clone(self), life.clone(), lock.clone());
            callers.spawn(async move { slot.use_shared(&life, &lock).await });
        }
        while callers.join_next().await.is_some() {}
        life.cancel.cancelled().await;
        self.world.saw(CoverageGoal::MemberLeft);
    }

    async fn use_shared(&self, life: &Life, lock: &RwLock) {
        let world = &self.world;
        while world.is_fault_phase() && !life.cancel.is_cancelled() {
            let ask = world.checks().asks(life.number);
            world.caller_asks(self.line());
            let got = tokio::select! {
                biased;
                () = life.cancel.cancelled() => None,
                got = self.get(lock) => got,
            };
            world.checks().is_answered(ask);
            if let Some(got) = got {
                self.hold(life, got).await;
            }
            world.wait_in_fault_phase(world.some_leases(0.5)).await;
        }
    }

    async fn get(&self, lock: &RwLock) -> Option<Got> {
        let world = &self.world;
        let (writes, manner) =
            world.random(|random| (random.random_bool(0.3), random.random_range(0..10)));
        let limit = world.some_leases(3.0);
        let got = match (writes, manner) {
            (false, 0..2) => lock.try_read().await.map(|guard| guard.map(Got::Read)),
            (false, 2..4) => lock.read().within(limit).await.map(|guard| Some(Got::Read(guard))),
            (false, _) => lock.read().await.map(|guard| Some(Got::Read(guard))),
            (true, 0..2) => lock.try_write().await.map(|guard| guard.map(Got::Write)),
            (true, 2..4) => lock.write().within(limit).await.map(|guard| Some(Got::Write(guard))),
            (true, _) => lock.write().await.map(|guard| Some(Got::Write(guard))),
        };
        got.unwrap_or_default()
    }

    async fn hold(&self, life: &Life, got: Got) {
        let world = &self.world;
        let entry = world.begins(life.number, got.what(), got.term());
        if matches!(got, Got::Read(_)) {
            let (world, token) = (Arc::clone(world), got.term().token().as_nanoseconds());
            tokio::spawn(async move { world.look_back_at_writers(token).await });
        }
        if world.random(|random| random.random_bool(0.3)) {
            self.write_late(got.term());
            tokio::select! {
                biased;
                () = got.term().cancelled() => {}
                () = self.write(got.term()) => {}
            }
        }
        let hold = world.some_leases(1.5);
        tokio::select! {
            biased;
            () = got.term().cancelled() => {}
            () = life.cancel.cancelled() => {}
            () = world.wait_in_fault_phase(hold) => {}
        }
        drop(entry);
        if world.random(|random| random.random()) {
            got.release().await;
        }
    }
}

/// Sees that nobody waits for ever, and that a writer that waits stops new readers.
pub(super) async fn judge(world: &Arc<FleetWorld>, slots: &[Arc<Slot>]) -> Judged {
    all_served(world).await?;
    if world.checks().together() > 1 {
        world.saw(CoverageGoal::ReadersTogether);
    }
    // Rows of the dead, and begins of theirs that arrive late.
    sleep(world.plan.lease * 5).await;
    a_waiting_writer_stops_readers(world, slots).await
}

async fn all_served(world: &FleetWorld) -> Judged {
    let asks = u32::try_from(world.checks().asked_since().len()).unwrap_or(u32::MAX);
    // One after the other, at the worst.
    let limit = world.plan.limit() + (world.plan.poll * 2 + Duration::from_secs(2)) * asks;
    let nobody = || world.checks().asked_since().is_empty();
    let instead = || format!("they wait since {:?}", world.checks().asked_since());
    world.until(limit, world.plan.lease / 20, nobody, instead).await
}

async fn a_waiting_writer_stops_readers(world: &Arc<FleetWorld>, slots: &[Arc<Slot>]) -> Judged {
    let handle = |line: usize| {
        let lock = RwLock::new(world.table(line), NAME).id(format!("late-{line}"));
        let lock = lock.lease(world.plan.lease).poll_interval(world.plan.poll);
        let lock = lock.clock(Clock::runtime()).build();
        lock.expect("the plan is valid")
    };
    let newcomer = world.plan.rates.len() * LINES;
    let (writer, late) = (handle(newcomer), handle(newcomer + 1));
    let mut reading = Vec::new();
    for slot in &slots[..2] {
        let guard = served(world, "a reader", handle(slot.line()).read()).await?;
        let entry = world.begins(0, What::Read, &guard);
        reading.push((entry, guard));
    }
    let writing = tokio::spawn(async move { writer.write().await });
    sleep(soon(world)).await;
    match late.try_read().await {
        Ok(None) => world.saw(CoverageGoal::WriterStoppedReaders),
        found => {
            let what = format!("a writer waits, and a reader gets {found:?}");
            return Err((Invariant::I1, what));
        }
    }
    for (entry, guard) in reading {
        drop(entry);
        guard.release().await;
    }
    let guard = served(world, "the writer", async { writing.await.expect("no panic") }).await?;
    let entry = world.begins(0, What::Write, &guard);
    drop(entry);
    guard.release().await;
    let guard = served(world, "a reader after the writer", late.read()).await?;
    guard.release().await;
    Ok(())
}

async fn served<T>(
    world: &FleetWorld,
    who: &str,
    asking: impl Future<Output = spindle::Result<T>>,
) -> Result<T, (Invariant, String)> {
    let limit = soon(world);
    match timeout(limit, asking).await {
        Ok(Ok(guard)) => Ok(guard),
        Ok(Err(error)) => Err((Invariant::I5, format!("{who} gets {error}"))),
        Err(_) => Err((Invariant::I5, format!("{who} gets nothing within {limit:?}"))),
    }
}

/// Two polls, and a request or two.
fn soon(world: &FleetWorld) -> Duration {
    world.plan.poll * 2 + Duration::from_secs(3)
}
