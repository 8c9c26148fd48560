//! Those who hold a lock by the library's own ways: `acquire`, `try_acquire`, `lead`, `run_once`.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use google_cloud_spanner::client::DatabaseClient;
use rand::RngExt as _;
use spindle::job::{JobOutcome, JobRun, Slot};
use spindle::{CancellationToken, Guard, LockTable, Spindle, Term, simulation};
use spindle_judge::Outcome;
use tokio::time::sleep;

use crate::coverage::CoverageGoal;
use crate::machine::Clocks;
use crate::plan::{CallerPlan, NIGHTLY};
use crate::told;
use crate::world::World;

/// So many times a slot is started.
const ATTEMPTS: u32 = 3;

/// One process of them; its clones are others in the same process, with the same handle.
#[derive(Clone)]
pub(crate) struct Caller {
    world: Arc<World>,
    plan: CallerPlan,
    table: LockTable,
    client: DatabaseClient,
    clocks: Arc<Clocks>,
    lock: Spindle,
}

impl Caller {
    pub(crate) fn new(world: &Arc<World>, index: usize) -> Caller {
        let plan = world.plan.callers[index].clone();
        let server = world.server.as_ref().expect("only where there is a server");
        let table = server.table(world.callers_line(index)).clone();
        let clocks = Arc::new(Clocks::new(plan.member.rate));
        let timing = &plan.member.timing;
        let lock = (table.lock(world.plan.locks[plan.lock].name.as_str()))
            .id(plan.member.id.as_str())
            .lease(timing.lease)
            .poll_interval(timing.poll_interval)
            .clock(simulation::clock(Arc::clone(&clocks) as _))
            .build()
            .expect("the plan is valid");
        let client = server.client().clone();
        Caller { world: Arc::clone(world), plan, table, client, clocks, lock }
    }

    /// Goes on for as long as the fault phase lasts, and lets go of everything then.
    pub(crate) async fn live(self) {
        while self.world.is_fault_phase() {
            let way = self.world.random(|random| random.random_range(0..5));
            match way {
                0 => self.acquire().await,
                1 => self.try_acquire().await,
                2 | 3 => self.lead().await,
                _ => self.run_once().await,
            }
            self.world.wait_in_fault_phase(self.some_time(1.0)).await;
        }
    }

    /// Up to so many leases.
    fn some_time(&self, leases: f64) -> Duration {
        let share = self.world.random(|random| random.random_range(0.0..leases));
        self.plan.member.timing.lease.mul_f64(share) + Duration::from_millis(1)
    }

    async fn acquire(&self) {
        if let Ok(guard) = self.lock.acquire().within(self.some_time(3.0)).await {
            self.world.saw(CoverageGoal::Acquired);
            self.hold(guard).await;
        }
    }

    async fn try_acquire(&self) {
        if let Ok(Some(guard)) = self.lock.try_acquire().await {
            self.world.saw(CoverageGoal::Tried);
            self.hold(guard).await;
        }
    }

    /// Works under the guard until it is done or the term ends, then lets go in one way or another.
    async fn hold(&self, guard: Guard) {
        let (time, releases) = (self.some_time(2.0), self.world.random(|random| random.random()));
        {
            let _work = go_to_work(&self.world, &guard);
            let work = work(&self.world, &self.client, &guard, time);
            tokio::select! {
                biased;
                () = guard.cancelled() => {}
                () = work => {}
            }
        }
        if releases {
            guard.release().await;
        }
    }

    async fn lead(&self) {
        let cancel = CancellationToken::new();
        let (time, limit) = (self.some_time(2.0), self.some_time(6.0));
        let resigns = self.world.random(|random| random.random_bool(0.3));
        let (world, client) = (Arc::clone(&self.world), self.client.clone());
        let leading = self.lock.lead(cancel.clone(), move |term| {
            let (world, client) = (Arc::clone(&world), client.clone());
            async move {
                world.saw(CoverageGoal::Led);
                let _work = go_to_work(&world, &term);
                // Some stop when they are told to, some have to be aborted.
                if world.random(|random| random.random()) {
                    work(&world, &client, &term, time).await;
                } else {
                    tokio::select! {
                        () = term.cancelled() => {}
                        () = work(&world, &client, &term, time) => {}
                    }
                }
            }
        });
        let orders = async {
            sleep(limit / 2).await;
            if resigns {
                // It names nobody, so that nothing is refused.
                let _ = self.lock.resign().await;
            }
            sleep(limit / 2).await;
            cancel.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = leading => {}
            () = orders => {}
            // Dropping it stops the task, too.
            () = self.world.wait_in_fault_phase(limit * 2) => {}
        }
    }

    async fn run_once(&self) {
        let (world, client) = (Arc::clone(&self.world), self.client.clone());
        let period = (self.world.plan.longest_lease() * 2).max(Duration::from_secs(1));
        let (time, limit) = (self.some_time(1.5), self.some_time(6.0));
        let clock = simulation::clock(Arc::clone(&self.clocks) as _);
        let job = (self.table.lock(NIGHTLY).id(self.plan.member.id.as_str()).clock(clock))
            .lease(self.plan.member.timing.lease)
            .job()
            .attempts(ATTEMPTS)
            .retry_pause(time);
        let started = Arc::new(AtomicI64::default());
        let slot = Arc::clone(&started);
        let task = move |run: JobRun| {
            let (world, client, slot) = (Arc::clone(&world), client.clone(), Arc::clone(&slot));
            async move {
                world.checks().run_began(&run, ATTEMPTS);
                slot.store(run.slot().timestamp_nanos_opt().unwrap_or_default(), Ordering::SeqCst);
                if run.start() > 1 {
                    world.saw(CoverageGoal::RanAgain);
                }
                let fails = world.random(|random| random.random_bool(0.3));
                let _work = go_to_work(&world, &run);
                work(&world, &client, &run, time).await;
                if fails { Err("no ink") } else { Ok(()) }
            }
        };
        let slot = Slot::every(period);
        tokio::select! {
            ran = job.run_once(slot, task) => match ran {
                Ok(JobOutcome::Ran(())) => {
                    self.world.checks().run_is_done(started.load(Ordering::SeqCst));
                    self.world.saw(CoverageGoal::RanOnce);
                }
                Ok(JobOutcome::Skipped { .. }) => self.world.saw(CoverageGoal::SkippedRun),
                Ok(JobOutcome::Failed { .. }) => self.world.saw(CoverageGoal::RanInVain),
                Ok(_) | Err(_) => {}
            },
            // Dropping it stops the task, too.
            () = self.world.wait_in_fault_phase(limit) => {}
        }
    }
}

/// Fenced writes now and then, for so long.
async fn work(world: &Arc<World>, client: &DatabaseClient, term: &Term, time: Duration) {
    for _ in 0..4 {
        sleep(time / 4).await;
        write(world, client, term).await;
    }
}

async fn write(world: &Arc<World>, client: &DatabaseClient, term: &Term) {
    let serial = world.random(|random| random.random::<i64>());
    let (told, at) = told::write(client, term, serial, world.plan.longest_lease()).await;
    world.told(serial, told);
    if told == Outcome::Fenced {
        world.saw(CoverageGoal::FencedOff);
    }
    if let Some(at) = at {
        world.checks().wrote_fenced(term, at);
    }
}

/// Work under a term, for as long as it goes on.
struct WorkSpan {
    world: Arc<World>,
    number: u64,
}

impl Drop for WorkSpan {
    fn drop(&mut self) {
        self.world.checks().work_ended(self.number);
    }
}

/// Work begins under a term; it is over when what is given back is dropped.
fn go_to_work(world: &Arc<World>, term: &Term) -> WorkSpan {
    let number = world.checks().work_began(term, world.instances());
    WorkSpan { world: Arc::clone(world), number }
}
