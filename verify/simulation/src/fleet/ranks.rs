//! Contenders with ranks for one lock, and who has to lead once it is settled.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use spindle::{LockTable, Term, simulation};
use tokio::time::sleep;

use super::checks::What;
use super::plan::CHIEF;
use super::settled::{all_at_work, invite, nothing_moves};
use super::slot::{Life, Slot};
use super::world::{Entry, FleetWorld};
use crate::checks::Invariant;
use crate::coverage::CoverageGoal;
use crate::timeline::Judged;

/// Higher than those of the others.
const GUESTS_RANK: u32 = 9;

impl Slot {
    fn rank(&self) -> u32 {
        self.world.plan.ranks.get(self.index).copied().unwrap_or(GUESTS_RANK)
    }

    /// Contends by its rank, and leads, again and again.
    pub(super) async fn contend(self: &Arc<Slot>, life: &Life, table: &LockTable) {
        let plan = &self.world.plan;
        let lock = (table.lock(CHIEF).id(&*self.id).lease(plan.lease))
            .poll_interval(plan.poll)
            .stop_limit(plan.stop_limit())
            .clock(simulation::clock(Arc::clone(&self.process.clocks) as _))
            .by_rank(self.rank());
        let lock = if plan.preempts { lock.preempt() } else { lock };
        let lock = lock.build().expect("the plan is valid");
        while !life.cancel.is_cancelled() {
            let (slot, of) = (Arc::clone(self), life.clone());
            let task = move |term: Term| {
                let (slot, of) = (Arc::clone(&slot), of.clone());
                let begins = || slot.world.begins(of.number, What::Shard(0), &term);
                // The dead begin nothing.
                let entry = (!of.is_dead()).then(begins);
                async move {
                    if let Some(entry) = entry {
                        slot.lead(term, entry).await;
                    }
                }
            };
            if let Err(error) = lock.lead(life.cancel.clone(), task).await {
                self.world.fail(Invariant::I5, format!("{} leads no more: {error}", self.id));
            }
        }
        self.world.saw(CoverageGoal::MemberLeft);
    }

    /// Leads until it is told to stop. Some stop late, and some end by themselves.
    async fn lead(&self, term: Term, _entry: Entry) {
        let world = &self.world;
        let manner = world.random(|random| random.random_range(0..100));
        if manner % 5 == 0 {
            self.write_late(&term);
            self.write(&term).await;
        }
        if manner > 85 && world.is_fault_phase() {
            let time = world.some_leases(1.0);
            tokio::select! {
                biased;
                () = term.cancelled() => {}
                () = sleep(time) => world.saw(CoverageGoal::ShardTaskFailed),
            }
            return;
        }
        term.cancelled().await;
        if manner > 60 {
            let slow = world.random(|random| random.random_range(0.0..0.9));
            sleep(world.plan.stop_limit().mul_f64(slow)).await;
        }
    }
}

/// Sees that somebody leads and goes on, and that with `preempt` it is a living one of the highest
/// rank, whoever comes and goes.
pub(super) async fn judge(
    world: &Arc<FleetWorld>,
    slots: &[Arc<Slot>],
    newcomer: &Arc<Slot>,
) -> Judged {
    all_at_work(world).await?;
    // Rows of the dead, and late requests of theirs.
    sleep(world.plan.lease * 5).await;
    let highest = slots.iter().max_by_key(|slot| slot.rank()).expect("there are slots");
    is_led(world, slots, highest.rank(), "once it is settled").await?;
    nothing_moves(world, "among settled contenders", 0, async {
        sleep(world.plan.lease * 3).await;
        Ok(())
    })
    .await?;
    let living = invite(newcomer).await;
    let mut all = slots.to_vec();
    all.push(Arc::clone(newcomer));
    is_led(world, &all, newcomer.rank(), "after a higher rank came").await?;
    newcomer.leave(Duration::ZERO);
    let _ = living.await;
    is_led(world, slots, highest.rank(), "after the highest rank left").await
}

/// Waits until one of this rank leads; any, if nobody hands over.
async fn is_led(world: &FleetWorld, slots: &[Arc<Slot>], rank: u32, when: &str) -> Judged {
    // A term that is younger goes on beside a higher rank.
    let limit = world.plan.limit() + world.plan.lease * 10;
    let leads = || {
        let leader = world.checks().owners().get(&0).copied()?;
        let is_leader = |slot: &&Arc<Slot>| slot.life().is_some_and(|life| life.number == leader);
        slots.iter().find(is_leader).map(|slot| slot.rank())
    };
    let is_so = || leads().is_some_and(|leads| leads == rank || !world.plan.preempts);
    let instead = || format!("rank {:?} leads {when}, not rank {rank}", leads());
    world.until(limit, world.plan.lease / 20, is_so, instead).await?;
    if world.plan.preempts {
        world.saw(CoverageGoal::HighestRankLed);
    }
    Ok(())
}
