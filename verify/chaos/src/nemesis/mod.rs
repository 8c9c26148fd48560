//! The faults of the fleet, by a seed. The seed decides what is done and when; whom it meets in
//! which state is up to real time.

mod deploys;
mod phases;

pub use deploys::{FIFTH, LIFE, LOOP};

use std::iter::repeat_n;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use rand::{RngExt as _, SeedableRng as _};
use rustix::process::Signal;
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Emulator, FaultHandle, Restart, Rpc};
use tokio::time::{Instant, sleep, sleep_until};

use crate::fleet::Fleet;
use crate::history::{Event, Failure, Fault, Journal, Phase};
use crate::proxy::LinkFault;
use crate::setup::Target;
use crate::tables::Outside;

/// So many workers come and go beside the crew.
const RESERVE: usize = 2;

/// The faults of a round by name, each with how often it comes. A leader is met three times out of four.
const ROUND: [(&str, usize, Plan); 11] = [
    ("kill", 2, Plan::Worker(WorkerFault::Kill)),
    ("stop-long", 3, Plan::Worker(WorkerFault::StopLong)),
    ("stop-short", 1, Plan::Worker(WorkerFault::StopShort)),
    ("cut", 1, Plan::Worker(WorkerFault::Cut)),
    ("silence", 1, Plan::Worker(WorkerFault::Silence)),
    ("slow", 1, Plan::Worker(WorkerFault::Slow)),
    ("restart", 1, Plan::Server(ServerFault::Restart)),
    ("outage", 1, Plan::Server(ServerFault::Outage)),
    ("lossy", 1, Plan::Server(ServerFault::Lossy)),
    ("resign", 1, Plan::Worker(WorkerFault::Resign)),
    ("join", 1, Plan::Join),
];

/// The faults that each round has, in an order of its own.
pub struct Faults(Vec<Plan>);

impl Faults {
    pub const NONE: Faults = Faults(Vec::new());

    /// Returns the names by which faults are chosen.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ROUND.iter().map(|(name, ..)| *name)
    }

    /// Returns those of these names; all, if there is no name.
    pub fn of(names: &[String]) -> Faults {
        let is_meant = |name: &str| names.is_empty() || names.iter().any(|it| it == name);
        let meant = ROUND.into_iter().filter(|(name, ..)| is_meant(name));
        Faults(meant.flat_map(|(_, times, plan)| repeat_n(plan, times)).collect())
    }
}

#[derive(Clone, Copy, Debug)]
enum Plan {
    Worker(WorkerFault),
    Server(ServerFault),
    /// A worker of the reserve comes, and goes again.
    Join,
}

/// Done to a worker, or to its agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkerFault {
    Kill,
    /// Longer than the lease.
    StopLong,
    StopShort,
    Cut,
    Silence,
    Slow,
    Resign,
}

#[derive(Clone, Copy, Debug)]
enum ServerFault {
    Restart,
    Outage,
    Lossy,
}

/// How a fault ends.
enum Repair {
    Start(String),
    Continue(String),
    Clear(String, Fault),
    Resume,
    Reliable(FaultHandle),
    Leave(String),
}

pub struct Nemesis<'a> {
    server: SocketAddr,
    /// The same, if faults can be done to it.
    spanner: Option<&'a Emulator>,
    target: Target,
    members: usize,
    outside: Outside,
    fleet: Fleet,
    journal: Journal,
    random: SmallRng,
    faults: Faults,
    /// The faults of this round that are still to come.
    round: Vec<Plan>,
    is_first_round: bool,
    next_fault: Instant,
    repairs: Vec<(Instant, Repair)>,
    /// Workers that suffer from something: one thing at a time.
    faulty: Vec<String>,
    is_server_faulty: bool,
}

impl<'a> Nemesis<'a> {
    pub async fn new(
        fleet: Fleet,
        spanner: Option<&'a Emulator>,
        (target, members, faults): (Target, usize, Faults),
        out: &Path,
        seed: u64,
    ) -> Result<Nemesis<'a>, Failure> {
        Ok(Nemesis {
            server: fleet.server(),
            spanner,
            target,
            members,
            outside: Outside::connect(fleet.server()).await?,
            fleet,
            journal: Journal::open(out, "nemesis")?,
            random: SmallRng::seed_from_u64(seed),
            faults,
            round: Vec::new(),
            is_first_round: true,
            next_fault: Instant::now(),
            repairs: Vec::new(),
            faulty: Vec::new(),
            is_server_faulty: false,
        })
    }

    /// Runs the whole of it, and leaves no worker behind.
    pub async fn run(&mut self, length: Duration) -> Result<(), Failure> {
        let edits = (length / 8).clamp(Duration::from_secs(6), Duration::from_secs(60));
        self.journal.write(Event::Run(self.target))?;
        if self.fleet.has_witness() {
            self.journal.write(Event::Witnessed)?;
        }
        let time = match self.spanner {
            Some(spanner) => u64::try_from(spanner.clock().now().nanos())?,
            None => self.outside.now().await?,
        };
        self.journal.write(Event::Spanner(time))?;
        self.journal.write(Event::Phase(Phase::Faults))?;
        for id in ids(1, self.members) {
            self.fleet.start(&id).await?;
        }
        // So that there is somebody to be hit.
        sleep(Duration::from_secs(3)).await;
        let recovery = Duration::from_secs(6);
        if matches!(self.target, Target::Deploys { .. }) {
            self.deploy().await?;
        } else {
            self.inject_faults(length.saturating_sub(edits + recovery + Duration::from_secs(3)))
                .await?;
            self.repair_all().await?;
            self.journal.write(Event::Phase(Phase::Edits))?;
            self.edit(edits).await?;
        }
        self.journal.write(Event::Phase(Phase::Recovery))?;
        self.recovery(recovery).await?;
        self.journal.write(Event::Phase(Phase::End))?;
        self.fleet.stop_all().await
    }

    /// Returns true if workers come and go, and nothing else befalls them.
    fn is_bare(&self) -> bool {
        self.faults.0.is_empty()
    }

    async fn inject_faults(&mut self, length: Duration) -> Result<(), Failure> {
        let end = Instant::now() + length;
        loop {
            let repair = self.repairs.iter().map(|(due, _)| *due).min();
            let due = repair.map_or(self.next_fault, |repair| repair.min(self.next_fault));
            if due >= end || self.is_bare() {
                sleep_until(end).await;
                return Ok(());
            }
            sleep_until(due).await;
            self.repair(due).await?;
            if due == self.next_fault {
                self.inject().await?;
                self.next_fault = Instant::now() + self.between(700, 3_300);
            }
        }
    }

    async fn inject(&mut self) -> Result<(), Failure> {
        self.fleet.restart_agents()?;
        if self.round.is_empty() {
            if !self.is_first_round {
                self.repair_all().await?;
            }
            self.is_first_round = false;
            self.round.clone_from(&self.faults.0);
            self.round.shuffle(&mut self.random);
        }
        let Some(plan) = self.round.pop() else { return Ok(()) };
        match plan {
            Plan::Server(fault) => match self.spanner {
                Some(spanner) if !self.is_server_faulty => {
                    self.inject_into_server(fault, spanner).await
                }
                _ => Ok(()),
            },
            // They come and go without it.
            Plan::Join if matches!(self.target, Target::Deploys { .. }) => Ok(()),
            Plan::Join => {
                let running = self.fleet.running();
                let mut reserve = ids(self.members + 1, RESERVE);
                let Some(id) = reserve.find(|id| !running.contains(id)) else { return Ok(()) };
                self.say(Fault::Join, Some(&id))?;
                self.fleet.start(&id).await?;
                self.later(5_000, 15_000, Repair::Leave(id));
                Ok(())
            }
            Plan::Worker(fault) => match self.choose() {
                Some(id) => {
                    let id = self.or_its_agent(fault, id);
                    self.inject_into_worker(fault, id).await
                }
                None => Ok(()),
            },
        }
    }

    async fn inject_into_server(
        &mut self,
        fault: ServerFault,
        spanner: &Emulator,
    ) -> Result<(), Failure> {
        match fault {
            ServerFault::Restart => self.restart(spanner).await,
            ServerFault::Outage => {
                self.say(Fault::Outage, None)?;
                spanner.pause().await;
                self.is_server_faulty = true;
                self.later(300, 3_000, Repair::Resume);
                Ok(())
            }
            ServerFault::Lossy => self.lose_replies(spanner),
        }
    }

    async fn inject_into_worker(&mut self, fault: WorkerFault, id: String) -> Result<(), Failure> {
        match fault {
            WorkerFault::Kill => {
                self.say(Fault::Kill, Some(&id))?;
                self.fleet.kill(&id).await?;
                self.becomes_faulty(&id);
                self.later(500, 3_000, Repair::Start(id));
            }
            WorkerFault::StopLong | WorkerFault::StopShort => {
                self.say(Fault::Stop, Some(&id))?;
                self.fleet.signal(&id, Signal::STOP)?;
                self.becomes_faulty(&id);
                let lease = u64::try_from(self.target.lease().as_millis())?;
                let (least, most) = if fault == WorkerFault::StopLong {
                    (lease + 300, lease * 3)
                } else {
                    (100, lease / 2)
                };
                self.later(least, most, Repair::Continue(id));
            }
            WorkerFault::Resign => {
                self.say(Fault::Resign, Some(&id))?;
                self.fleet.resign(&id).await?;
            }
            WorkerFault::Cut => self.impair(id, Fault::Cut, LinkFault::Cut)?,
            WorkerFault::Silence => self.impair(id, Fault::Silence, LinkFault::Silent)?,
            WorkerFault::Slow => {
                let delay = self.between(50, 400);
                self.impair(id, Fault::Slow, LinkFault::Slow(delay))?;
            }
        }
        Ok(())
    }

    /// Has the line of a worker or an agent go wrong for a while.
    fn impair(&mut self, id: String, fault: Fault, link_fault: LinkFault) -> Result<(), Failure> {
        self.say(fault, Some(&id))?;
        self.fleet.set(&id, link_fault)?;
        self.becomes_faulty(&id);
        self.later(300, 4_500, Repair::Clear(id, fault));
        Ok(())
    }

    async fn restart(&mut self, spanner: &Emulator) -> Result<(), Failure> {
        let restart = Restart::keep();
        let restart = if self.random.random() { restart.lose_sessions() } else { restart };
        self.say(Fault::Restart, None)?;
        spanner.restart(restart).await?;
        if restart != Restart::keep() {
            // This one's session is lost as well.
            self.outside = Outside::connect(self.server).await?;
        }
        self.over(Fault::Restart, None)
    }

    fn lose_replies(&mut self, spanner: &Emulator) -> Result<(), Failure> {
        let effects = [
            Effect::LoseReply,
            Effect::FailAfterApplying(Code::Unavailable),
            Effect::ApplyLate { after: self.between(100, 3_000) },
            Effect::DelayReply(self.between(100, 1_500)),
        ];
        let effect = effects[self.random.random_range(0..effects.len())];
        let lossy = spindle_emulator::Fault::on(Rpc::Commit);
        let lossy = lossy.probability(0.5, self.random.random()).effect(effect);
        self.say(Fault::Lossy, None)?;
        self.is_server_faulty = true;
        let handle = spanner.inject(lossy);
        self.later(1_000, 3_500, Repair::Reliable(handle));
        Ok(())
    }

    async fn repair(&mut self, until: Instant) -> Result<(), Failure> {
        let (due, repairs) = std::mem::take(&mut self.repairs)
            .into_iter()
            .partition(|(due, _): &(Instant, Repair)| *due <= until);
        self.repairs = repairs;
        let due: Vec<(Instant, Repair)> = due;
        for (_, repair) in due {
            match repair {
                Repair::Start(id) => {
                    self.fleet.start(&id).await?;
                    self.recovered(&id);
                    self.over(Fault::Kill, Some(&id))?;
                }
                Repair::Continue(id) => {
                    self.over(Fault::Stop, Some(&id))?;
                    self.fleet.signal(&id, Signal::CONT)?;
                    self.recovered(&id);
                }
                Repair::Clear(id, fault) => {
                    self.fleet.set(&id, LinkFault::Clear)?;
                    self.recovered(&id);
                    self.over(fault, Some(&id))?;
                }
                Repair::Resume => {
                    if let Some(spanner) = self.spanner {
                        spanner.resume().await?;
                    }
                    self.is_server_faulty = false;
                    self.over(Fault::Outage, None)?;
                }
                Repair::Reliable(handle) => {
                    handle.remove();
                    self.is_server_faulty = false;
                    self.over(Fault::Lossy, None)?;
                }
                Repair::Leave(id) => self.leave(id).await?,
            }
        }
        Ok(())
    }

    /// Sends a worker of the reserve away, once nothing else ails it.
    async fn leave(&mut self, id: String) -> Result<(), Failure> {
        if self.faulty.contains(&id) {
            self.repairs.push((Instant::now() + Duration::from_secs(1), Repair::Leave(id)));
            return Ok(());
        }
        self.say(Fault::Leave, Some(&id))?;
        self.fleet.leave(&[id]).await
    }

    async fn repair_all(&mut self) -> Result<(), Failure> {
        while let Some(last) = self.repairs.iter().map(|(due, _)| *due).max() {
            self.repair(last.min(Instant::now() + Duration::from_secs(60))).await?;
        }
        self.fleet.restart_agents()
    }

    fn choose(&mut self) -> Option<String> {
        let well = |id: &String| !self.faulty.contains(id);
        let holder = self.fleet.holder().filter(well);
        let mut running = self.fleet.running();
        running.retain(well);
        let at_random = running.choose(&mut self.random);
        let leader = self.random.random_bool(0.75);
        holder.filter(|holder| leader && running.contains(holder)).or(at_random.cloned())
    }

    /// Returns the worker's agent in half of the cases, where it has one that is well.
    fn or_its_agent(&mut self, fault: WorkerFault, id: String) -> String {
        let agent = self.fleet.agent(&id).filter(|agent| !self.faulty.contains(agent));
        agent.filter(|_| fault != WorkerFault::Resign && self.random.random()).unwrap_or(id)
    }

    fn becomes_faulty(&mut self, id: &str) {
        self.faulty.push(id.to_string());
    }

    fn recovered(&mut self, id: &str) {
        self.faulty.retain(|other| other != id);
    }

    fn later(&mut self, least_ms: u64, most_ms: u64, repair: Repair) {
        let due = Instant::now() + self.between(least_ms, most_ms);
        self.repairs.push((due, repair));
    }

    fn between(&mut self, least_ms: u64, most_ms: u64) -> Duration {
        Duration::from_millis(self.random.random_range(least_ms..most_ms))
    }

    fn say(&self, fault: Fault, on: Option<&str>) -> Result<(), Failure> {
        self.journal.write(Event::Fault { fault, on: on.map(str::to_string) })
    }

    fn over(&self, fault: Fault, on: Option<&str>) -> Result<(), Failure> {
        self.journal.write(Event::Over { fault, on: on.map(str::to_string) })
    }
}

/// The ids of so many workers from a number on.
fn ids(from: usize, count: usize) -> impl Iterator<Item = String> {
    (from..from + count).map(|number| format!("w{number}"))
}
