//! One member of a fleet, its tasks and its callers, life after life; and the process that it is in.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::RngExt as _;
use spindle::{CancellationToken, LockTable, Term, simulation};
use spindle_fleet::{Builder, Member, Semaphore, Shard};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::checks::What;
use super::plan::Subject;
use super::world::{Entry, FleetWorld, LINES};
use crate::checks::Invariant;
use crate::coverage::CoverageGoal;
use crate::load::Load;
use crate::machine::{Clocks, lock};
use crate::network_faults::Cut;
use crate::told;

/// A process and its machine. Its members share a clock, a connection and a batcher, and die together.
#[derive(Debug)]
pub(crate) struct Process {
    index: usize,
    pub(super) clocks: Arc<Clocks>,
    /// The number of the connection that the next lives use.
    line: Mutex<usize>,
}

impl Process {
    fn new(world: &FleetWorld, index: usize) -> Process {
        let rate = world.plan.rates.get(index).copied().unwrap_or(1.0);
        Process { index, clocks: Arc::new(Clocks::new(rate)), line: Mutex::default() }
    }

    /// Returns the number of the connection that it uses.
    pub(super) fn line(&self) -> usize {
        self.index * LINES + *lock(&self.line)
    }
}

/// A member.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) index: usize,
    pub(crate) id: String,
    pub(super) world: Arc<FleetWorld>,
    pub(super) process: Arc<Process>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    life: Option<Life>,
    down_for: Duration,
}

#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) number: u64,
    /// Asks it to leave.
    pub(crate) cancel: CancellationToken,
    dies: CancellationToken,
}

impl Life {
    pub(super) fn is_dead(&self) -> bool {
        self.dies.is_cancelled()
    }
}

impl Slot {
    /// Returns all the members of the plan, and a newcomer in a process of its own.
    pub(super) fn all(world: &Arc<FleetWorld>) -> (Vec<Arc<Slot>>, Arc<Slot>) {
        let count = world.plan.rates.len();
        let processes: Vec<_> =
            (0..=count).map(|index| Arc::new(Process::new(world, index))).collect();
        let slot = |index: usize, process: usize| {
            let (world, process) = (Arc::clone(world), Arc::clone(&processes[process]));
            let id = format!("node-{index}");
            Arc::new(Slot { index, id, world, process, state: Mutex::default() })
        };
        let members = world.plan.members;
        ((0..members).map(|index| slot(index, index % count)).collect(), slot(members, count))
    }

    /// Returns its life, if it lives.
    pub(crate) fn life(&self) -> Option<Life> {
        lock(&self.state).life.clone()
    }

    /// Returns the number of the connection that it uses.
    pub(crate) fn line(&self) -> usize {
        self.process.line()
    }

    /// Lives for as long as the world does.
    pub(crate) async fn live(self: Arc<Slot>) {
        // Not all at once, as real ones don't start either.
        let late = self.world.some_leases(1.0);
        self.world.wait_in_fault_phase(late).await;
        while !self.world.closing().is_cancelled() {
            self.live_once().await;
            let down_for = std::mem::take(&mut lock(&self.state).down_for);
            self.world.wait_in_fault_phase(down_for.max(Duration::from_millis(1))).await;
        }
    }

    /// Lives once: until it is told to leave, or dies.
    pub(crate) async fn live_once(self: &Arc<Slot>) {
        let world = &self.world;
        let life = Life {
            number: world.new_life(),
            cancel: CancellationToken::new(),
            dies: CancellationToken::new(),
        };
        let line = self.line();
        world.tell(&format!("{} begins life {} on line {line}", self.id, life.number));
        world.change_faults(|faults| faults.lines[line].cut = None);
        world.loads.of(line, Load::begins);
        lock(&self.state).life = Some(life.clone());
        let table = world.table(line).clone();
        tokio::select! {
            biased;
            () = life.dies.cancelled() => {}
            () = self.take_part(&life, &table) => {}
        }
        world.tell(&format!("{} ends life {}", self.id, life.number));
        world.loads.of(line, Load::ends);
        lock(&self.state).life = None;
    }

    async fn take_part(self: &Arc<Slot>, life: &Life, table: &LockTable) {
        match self.world.plan.subject {
            Subject::Shards => self.share_and_call(life, table).await,
            Subject::Ranks => self.contend(life, table).await,
            Subject::ReadersWriters => self.read_and_write(life, table).await,
        }
    }

    /// Builds this by the settings that all of the process go by.
    pub(super) fn build<T>(&self, builder: Builder<T>) -> T {
        let plan = &self.world.plan;
        let clock = simulation::clock(Arc::clone(&self.process.clocks) as _);
        let builder = builder.id(&*self.id).lease(plan.lease).poll_interval(plan.poll);
        builder.clock(clock).build().expect("the plan is valid")
    }

    async fn share_and_call(self: &Arc<Slot>, life: &Life, table: &LockTable) {
        let plan = &self.world.plan;
        let member = Member::new(table, "fleet").info("its address").stop_limit(plan.stop_limit());
        let member = self.build(member);
        let semaphore = self.build(Semaphore::new(table, "permits", plan.permits));
        let mut callers = JoinSet::new();
        for _ in 0..plan.callers {
            let (slot, life, semaphore) = (Arc::clone(self), life.clone(), semaphore.clone());
            callers.spawn(async move { slot.call(&life, &semaphore).await });
        }
        let called = async { while callers.join_next().await.is_some() {} };
        let ((), ()) = tokio::join!(self.share(life, &member), called);
    }

    /// Is a member, and works its share.
    async fn share(self: &Arc<Slot>, life: &Life, member: &Member) {
        let in_group = member.run(life.cancel.clone());
        let (slot, of) = (Arc::clone(self), life.clone());
        let task = move |shard: Shard| {
            let (slot, of) = (Arc::clone(&slot), of.clone());
            // The dead begin nothing; what is left of them here is aborted.
            let entry = (!of.is_dead()).then(|| slot.begins(&of, &shard));
            async move {
                let Some(entry) = entry else { return };
                slot.work(shard, entry).await;
            }
        };
        loop {
            let shards = member.shards("work", self.world.count().await);
            let shards = match self.world.plan.restart {
                Some(limit) => shards.restart_within(limit),
                None => shards,
            };
            match shards.run(life.cancel.clone(), task.clone()).await {
                Ok(()) => break,
                // It was moved twice since.
                Err(error) if spindle_fleet::is_other_count(&error) => {
                    sleep(self.world.plan.poll).await
                }
                Err(error) => {
                    self.world.fail(Invariant::I5, format!("{} shares no more: {error}", self.id));
                    break;
                }
            }
        }
        self.world.saw(CoverageGoal::MemberLeft);
        let _ = in_group.await;
    }

    fn begins(&self, life: &Life, shard: &Shard) -> Entry {
        let entry = self.world.begins(life.number, What::Shard(shard.number()), shard);
        self.world.checks().is_one_of(shard.number(), shard.count());
        let (world, id) = (Arc::clone(&self.world), self.id.clone());
        let (number, token) = (shard.number(), shard.token().as_nanoseconds());
        tokio::spawn(async move { world.look_back(number, &id, token).await });
        entry
    }

    /// Works until it is told to stop; some stop late, some not at all, and some end by themselves.
    async fn work(&self, shard: Shard, entry: Entry) {
        let world = &self.world;
        let _entry = entry;
        let (manner, writes) =
            world.random(|random| (random.random_range(0..100), random.random_bool(0.2)));
        if writes {
            self.write(&shard).await;
            self.write_late(&shard);
        }
        match manner {
            0..70 => shard.cancelled().await,
            70..85 => {
                shard.cancelled().await;
                let slow = world.random(|random| random.random_range(0.0..0.9));
                sleep(world.plan.stop_limit().mul_f64(slow)).await;
            }
            85..95 => {
                let _aborted = Aborted(Arc::clone(world));
                std::future::pending::<()>().await;
            }
            _ => {
                let time = world.some_leases(1.0);
                tokio::select! {
                    biased;
                    () = shard.cancelled() => return,
                    () = sleep(time) => {}
                }
                if !world.is_fault_phase() {
                    return shard.cancelled().await;
                }
                world.saw(CoverageGoal::ShardTaskFailed);
                if manner % 2 == 0 {
                    // Without a message on the terminal.
                    std::panic::resume_unwind(Box::new("a task that fails"));
                }
            }
        }
    }

    pub(super) async fn write(&self, term: &Term) {
        let world = &self.world;
        let serial = world.random(|random| random.random::<i64>());
        let Some(server) = &world.server else {
            let writing = world.write(self.line(), term, serial);
            if let Ok(told) = timeout(world.plan.lease * 2, writing).await {
                world.told(serial, told);
            }
            return;
        };
        let (told, at) = told::write(server.client(), term, serial, world.plan.lease).await;
        world.told(serial, told);
        if let Some(at) = at {
            world.saw(CoverageGoal::FencedWrite);
            world.checks().wrote(term, at);
        }
    }

    /// Decides about a write now, and sends it after its task may have been stopped.
    pub(super) fn write_late(&self, term: &Term) {
        let (world, term) = (Arc::clone(&self.world), term.clone());
        let late = world.some_leases(3.0);
        let serial = world.random(|random| random.random::<i64>());
        tokio::spawn(async move {
            sleep(late).await;
            // Nobody is there to be told.
            let _ = world.write(world.tools_line(), &term, serial).await;
        });
    }

    /// Takes permits and gives them back, for as long as the fault phase lasts.
    async fn call(&self, life: &Life, semaphore: &Semaphore) {
        let world = &self.world;
        while world.is_fault_phase() && !life.cancel.is_cancelled() {
            world.caller_asks(self.line());
            let limit = world.some_leases(3.0);
            let taken = if world.random(|random| random.random_bool(0.3)) {
                semaphore.try_acquire().await
            } else {
                tokio::select! {
                    biased;
                    taken = semaphore.acquire().within(limit) => taken.map(Some),
                    () = life.cancel.cancelled() => return,
                }
            };
            if let Ok(Some(permit)) = taken {
                world.saw(CoverageGoal::PermitTaken);
                let entry = world.begins(life.number, What::Permit(permit.number()), &permit);
                self.look_back_at(&permit);
                let hold = world.some_leases(1.5);
                tokio::select! {
                    biased;
                    () = permit.cancelled() => {}
                    () = life.cancel.cancelled() => {}
                    () = sleep(hold) => {}
                }
                drop(entry);
                if world.random(|random| random.random()) {
                    permit.release().await;
                }
            }
            world.wait_in_fault_phase(world.some_leases(0.5)).await;
        }
    }

    fn look_back_at(&self, permit: &Term) {
        let (world, id, key) =
            (Arc::clone(&self.world), self.id.clone(), permit.lock().to_string());
        let token = permit.token().as_nanoseconds();
        tokio::spawn(async move { world.look_back_at_permit(&key, &id, token).await });
    }

    /// Asks it to leave; another life begins after `down_for`.
    pub(crate) fn leave(&self, down_for: Duration) {
        let mut state = lock(&self.state);
        state.down_for = down_for;
        if let Some(life) = &state.life {
            life.cancel.cancel();
        }
    }

    fn dies(&self, down_for: Duration) {
        let Some(life) = self.life() else { return };
        self.world.checks().died(life.number);
        lock(&self.state).down_for = down_for;
        life.dies.cancel();
    }
}

/// Kills the process of this member, and all of its `mates` with it: nothing that they send from here
/// on has an effect that they hear of.
pub(super) fn crash(slot: &Slot, mates: &[Arc<Slot>], cut: Cut, down_for: Duration) {
    let (world, line) = (&slot.world, slot.line());
    if slot.life().is_none() {
        return;
    }
    world.change_faults(|faults| faults.lines[line].cut = Some(cut));
    let process = &slot.process;
    let next = (line + 1) % LINES;
    *lock(&process.line) = next;
    let of_process = |mate: &&Arc<Slot>| Arc::ptr_eq(&mate.process, process);
    mates.iter().filter(of_process).for_each(|mate| mate.dies(down_for));
    slot.dies(down_for);
}

/// Sees that a task was aborted.
struct Aborted(Arc<FleetWorld>);

impl Drop for Aborted {
    fn drop(&mut self) {
        self.0.saw(CoverageGoal::ShardTaskAborted);
    }
}
