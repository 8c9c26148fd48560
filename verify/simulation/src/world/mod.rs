//! One simulated world: a fleet, a database, a network between them, and those who watch.

mod ending;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use spindle::simulation;
use spindle::{CancellationToken, FencingToken, Term};
use spindle_emulator::engine::{Database, TimestampBound};
use spindle_protocol::{Act, Answer, Rejection, Timing, Writer};

use crate::checks::{CANARIES, Checks, Committed, Invariant, Sent, canary_row};
use crate::coverage::CoverageGoal;
use crate::format::Format;
use crate::machine::{Clocks, TrueTime, lock};
use crate::network_faults::{NetworkFaults, Outage};
use crate::plan::{MemberPlan, NIGHTLY, Plan};
use crate::process::Process;
use crate::report::Report;
use crate::rows::{OLD_SCHEMA, SCHEMA, timestamp};
use crate::server::{self, Server};
use crate::timeline::Timeline;

/// Commits are judged this much later, when none with an earlier timestamp can come any more.
const SETTLING: Duration = Duration::from_secs(1);

/// The slots of the fleet, each with the house that it is in and that house's clocks.
fn processes(plan: &Plan) -> Vec<Arc<Process>> {
    let mut clocks: BTreeMap<usize, Arc<Clocks>> = BTreeMap::new();
    let mut processes = Vec::new();
    for (lock, of) in plan.locks.iter().enumerate() {
        for (index, member) in of.members.iter().enumerate() {
            let who = processes.len();
            let house = if plan.together { index } else { who };
            let clocks = clocks.entry(house).or_insert_with(|| Arc::new(Clocks::new(member.rate)));
            let is_previous = plan.mixed && house % 2 == 1;
            let format = if is_previous { Format::Previous } else { Format::Present };
            let (at_house, of_house) =
                ((house, lock % plan.batchers()), (Arc::clone(clocks), format));
            let at = (lock, of.name.clone());
            processes.push(Arc::new(Process::new(who, at, at_house, of_house, member.clone())));
        }
    }
    processes
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) database: Database,
    pub(crate) server: Option<Server>,
    timeline: Timeline,
    processes: Vec<Arc<Process>>,
    /// The slot of a house at each lock.
    slots: BTreeMap<(usize, String), usize>,
    network_faults: Mutex<NetworkFaults>,
    checks: Mutex<Checks>,
    /// The begin of each slot whose outcome is not known yet.
    unknown: Mutex<Vec<Option<Writer>>>,
    /// The takeover rows that peers of another implementation left.
    peers: Mutex<BTreeSet<String>>,
    /// True if lives that begin now may have leases of their own.
    leases_differ: CancellationToken,
    history: Mutex<Result<BTreeMap<&'static str, u64>, String>>,
}

impl Deref for World {
    type Target = Timeline;

    fn deref(&self) -> &Timeline {
        &self.timeline
    }
}

impl World {
    pub(crate) async fn new(plan: &Plan, prints: bool) -> World {
        let members: usize = plan.locks.iter().map(|lock| lock.members.len()).sum();
        let schema = if plan.old_table.is_some() { OLD_SCHEMA } else { SCHEMA };
        let lines = plan.through_client.then_some((members, plan.callers.len()));
        let (server, database) = server::start(plan.uncertainty, schema, lines).await;
        let canaries: Vec<_> = CANARIES.into_iter().map(canary_row).collect();
        database.apply(&canaries).await.expect("the database is empty");
        let processes = processes(plan);
        let slots = processes.iter();
        let slots = slots.map(|slot| ((slot.house, slot.lock_name.clone()), slot.who)).collect();
        let network_faults = NetworkFaults { loss: plan.loss / 20.0, outage: None };
        World {
            plan: plan.clone(),
            database,
            server,
            timeline: Timeline::new(plan.seed, prints),
            unknown: Mutex::new(vec![None; processes.len()]),
            checks: Mutex::new(Checks::new(plan, &processes)),
            processes,
            slots,
            network_faults: Mutex::new(network_faults),
            peers: Mutex::default(),
            leases_differ: CancellationToken::new(),
            history: Mutex::new(Ok(BTreeMap::new())),
        }
    }

    pub(crate) fn processes(&self) -> &[Arc<Process>] {
        &self.processes
    }

    pub(crate) fn process(&self, who: usize) -> &Arc<Process> {
        &self.processes[who]
    }

    /// The slot at this lock in the house of `who`.
    pub(crate) fn slot_of(&self, who: usize, lock: &str) -> usize {
        let slot = self.slots.get(&(self.process(who).house, lock.to_string()));
        slot.copied().unwrap_or(who)
    }

    /// All that live and die with a process, itself included.
    pub(crate) fn housemates(&self, process: &Process) -> Vec<Arc<Process>> {
        let mates = self.processes.iter().filter(|other| other.house == process.house);
        mates.cloned().collect()
    }

    pub(crate) fn network_faults(&self) -> NetworkFaults {
        *lock(&self.network_faults)
    }

    pub(crate) fn set_outage(&self, outage: Option<Outage>) {
        lock(&self.network_faults).outage = outage;
    }

    pub(crate) fn set_loss(&self, loss: f64) {
        lock(&self.network_faults).loss = loss;
    }

    /// Something goes wrong with a process, its network or the server.
    pub(crate) fn fault(&self, who: usize, what: &(impl std::hash::Hash + std::fmt::Debug)) {
        self.goes_wrong();
        self.note(who, what);
    }

    pub(crate) fn fail(&self, invariant: Invariant, what: String) {
        let now = self.now();
        self.check(|checks| {
            checks.finding.fail(invariant, now, what);
            Vec::new()
        });
    }

    /// Lets the checks look, counts what they have seen, and ends the world on a violation.
    pub(crate) fn check(&self, look: impl FnOnce(&mut Checks) -> Vec<CoverageGoal>) {
        let (seen, has_failed) = {
            let mut checks = lock(&self.checks);
            if let Some(rule) = simulation::broken_rule() {
                checks.finding.fail(Invariant::Contract, self.now(), rule.into());
            }
            (look(&mut checks), checks.finding.first().is_some())
        };
        seen.into_iter().for_each(|goal| self.saw(goal));
        if has_failed {
            self.failed.cancel();
        }
    }

    /// A process sends a request that is no heartbeat.
    pub(crate) fn sent(&self, who: usize) -> Option<Sent> {
        let (now, process) = (self.now(), self.process(who));
        let mut sent = None;
        self.check(|checks| {
            // The number of requests of a healthy process of many locks depends on how they fall
            // into step. So there only those count that come to nothing.
            if self.plan.together {
                sent = Some(checks.sent_together(process, now));
            } else {
                checks.sent(process, now);
            }
            Vec::new()
        });
        sent
    }

    /// Requests brought answers.
    pub(crate) fn came_to_something(&self, who: usize, sent: impl IntoIterator<Item = Sent>) {
        let process = self.process(who);
        self.check(|checks| {
            sent.into_iter().for_each(|sent| checks.came_to_something(process, sent));
            Vec::new()
        });
    }

    /// A peer of another implementation leaves the takeover row of this key.
    pub(crate) fn peer_leaves(&self, key: String) {
        lock(&self.peers).insert(key);
    }

    /// By which a life that begins now goes: in an old table all leases have to be the same.
    pub(crate) fn timing(&self, member: &MemberPlan) -> Timing {
        match &self.plan.old_table {
            Some(timing) if !self.leases_differ.is_cancelled() => timing.clone(),
            _ => member.timing.clone(),
        }
    }

    /// Every instance has learnt of `lease_ms` by now.
    pub(crate) fn let_leases_differ(&self) {
        self.leases_differ.cancel();
    }

    /// An instance has a term: the attempt whose outcome was unknown may be the one that began it.
    pub(crate) fn resolves(&self, who: usize, term: &Term) {
        let unknown = lock(&self.unknown)[who].take();
        if unknown.is_some_and(|writer| writer.as_str() == simulation::writer(term)) {
            self.saw(CoverageGoal::UnknownApplied);
        }
    }

    /// Asks what a process believes.
    pub(crate) fn look_at(&self, process: &Process) {
        let now = self.now();
        self.check(|checks| checks.look(process, &self.processes, now));
    }

    pub(crate) fn before_act(&self, who: usize, act: &Act) {
        self.note(who, act);
        let (now, process) = (self.now(), self.process(who));
        self.check(|checks| {
            checks.before_act(process, act, now);
            Vec::new()
        });
        if matches!(act, Act::Insert { .. } | Act::Takeover { .. })
            && lock(&self.unknown)[who].take().is_some()
        {
            // It would not try again if the last attempt were its term.
            self.saw(CoverageGoal::UnknownNotApplied);
        }
    }

    pub(crate) fn after_act(&self, who: usize, act: &Act, answer: &Answer) {
        self.note(who, answer);
        let process = self.process(who);
        self.check(|checks| {
            checks.after_act(process, act, answer);
            Vec::new()
        });
        let mut unknown = lock(&self.unknown);
        match (act, answer) {
            (Act::Insert { writer } | Act::Takeover { writer, .. }, Answer::Unknown) => {
                unknown[who] = Some(writer.clone());
            }
            (Act::Takeover { .. }, Answer::Rejected(_))
            | (Act::Insert { .. }, Answer::Rejected(Rejection::Changed(_))) => {
                self.saw(CoverageGoal::LostRace);
            }
            (Act::Heartbeat { .. } | Act::Release { .. }, Answer::Rejected(_)) => {
                self.saw(CoverageGoal::RefusedInTerm);
            }
            (Act::Observe, Answer::Observed(observation)) => {
                let Some(row) = &observation.row else { return };
                let own = self.process(who).timing().lease;
                let waits = |lease| row.heartbeat + lease > observation.read_at;
                if !row.is_released() && !waits(own) && row.lease.is_some_and(waits) {
                    self.saw(CoverageGoal::LongerLease);
                }
            }
            _ => {}
        }
    }

    /// A process has ended.
    pub(crate) fn gone(&self, who: usize, crashed: bool) {
        self.note(who, &crashed);
        lock(&self.unknown)[who] = None;
        let process = self.process(who);
        self.check(|checks| {
            checks.gone(process);
            Vec::new()
        });
    }

    /// The server has applied a commit.
    pub(crate) fn committed(&self, who: usize, committed: Committed) {
        self.note(who, &(committed.at, &committed.purpose));
        let now = self.now();
        self.check(|checks| {
            checks.committed(committed, now);
            if checks.history.unsettled() < 256 {
                return Vec::new();
            }
            checks.settle(TrueTime::at(now.saturating_sub(SETTLING)), now)
        });
    }

    /// All rows are gone, as after the loss of a disk.
    pub(crate) fn lose_rows(&self) {
        let at = self.database.read_timestamp(TimestampBound::Strong);
        self.database.lose_rows();
        if let Ok(at) = at {
            lock(&self.checks).history.lost_rows(timestamp(at));
        }
    }

    /// Returns true if a lock of this name is known to anybody here.
    pub(crate) fn is_name_of_a_lock(&self, name: &str) -> bool {
        let planned = self.plan.locks.iter().map(|lock| lock.name.as_str());
        planned.chain(CANARIES).chain([NIGHTLY]).any(|known| known == name)
    }

    /// The token under which an instance holds the lock of this name.
    pub(crate) fn holder_of(&self, name: &str) -> Option<u64> {
        let holders = self.processes.iter().filter(|process| process.lock_name == name);
        holders.filter_map(|process| process.has_lock()).map(FencingToken::as_nanoseconds).next()
    }

    /// Returns the holders: who holds which lock, under which token.
    pub(crate) fn holders(&self) -> Vec<(usize, usize, u64)> {
        let holders = self.processes.iter().filter_map(|process| {
            Some((process.lock, process.who, process.has_lock()?.as_nanoseconds()))
        });
        let mut holders: Vec<_> = holders.collect();
        holders.sort_unstable();
        holders
    }

    /// Returns how it went so far.
    pub(crate) fn report(&self) -> Report {
        let violation = lock(&self.checks).finding.first().cloned();
        let report =
            self.timeline.report(violation, self.processes.len(), !self.plan.through_client);
        Report { history: lock(&self.history).clone(), ..report }
    }
}
