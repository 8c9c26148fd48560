//! One simulated world of locks: their contenders, a database, a network between them, and those who
//! watch.

mod ending;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};

use spindle::{FencingToken, LockTable, simulation};

use crate::checks::{BYSTANDERS, Checks, bystander_row};
use crate::instance::Instance;
use crate::load::Bounds;
use crate::machine::{Clocks, lock};
use crate::network::{Conditions, Network};
use crate::plan::{NIGHTLY, Plan};
use crate::reach::Reach;
use crate::report::Report;
use crate::rows::{SCHEMA, timestamp};
use crate::server;
use crate::timeline::Timeline;

/// The contenders, each with the process that it is in and that process's clocks.
fn instances(plan: &Plan) -> Vec<Arc<Instance>> {
    let mut clocks: BTreeMap<usize, Arc<Clocks>> = BTreeMap::new();
    let mut instances = Vec::new();
    for (lock, of) in plan.locks.iter().enumerate() {
        for (index, member) in of.members.iter().enumerate() {
            let who = instances.len();
            let process = if plan.together { index } else { who };
            let clocks = clocks.entry(process).or_insert_with(|| Clocks::new(member.rate).into());
            instances.push(Arc::new(Instance {
                who,
                lock,
                lock_name: of.name.clone(),
                process,
                batcher: lock % plan.batchers(),
                plan: member.clone(),
                clocks: Arc::clone(clocks),
                state: Mutex::default(),
            }));
        }
    }
    instances
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) network: Arc<Network>,
    instances: Vec<Arc<Instance>>,
    /// By process, one for each of its batchers.
    tables: Vec<Vec<LockTable>>,
    checks: Arc<Mutex<Checks>>,
}

impl Deref for World {
    type Target = Network;

    fn deref(&self) -> &Network {
        &self.network
    }
}

impl World {
    pub(crate) async fn new(plan: &Plan, prints: bool) -> World {
        let timeline = Arc::new(Timeline::new(plan.seed, prints));
        let instances = instances(plan);
        let checks = Arc::new(Mutex::new(Checks::new(plan, &instances, &timeline)));
        // Each process has a connection, and so has each caller. The last is the tool's.
        let processes = instances.iter().map(|it| it.process + 1).max().unwrap_or_default();
        let bounds = (0..processes).map(|process| match instances.get(process) {
            Some(only) if !plan.together => Bounds::of_one(&only.plan.timing),
            _ => Bounds::OF_MANY,
        });
        let bounds: Vec<_> = bounds.chain(vec![Bounds::NONE; plan.callers.len() + 1]).collect();
        let lines = plan.through_client.then_some(bounds.len());
        let (server, database) = server::start(plan.uncertainty, SCHEMA, lines).await;
        let bystanders: Vec<_> = BYSTANDERS.into_iter().map(bystander_row).collect();
        database.apply(&bystanders).await.expect("the database is empty");
        let conditions = Conditions {
            longest_lease: plan.longest_lease(),
            delay_max: plan.delay_max,
            loss: plan.loss,
            reconnects: plan.reconnects,
            overload: plan.overload,
        };
        let network = Network::new(
            &timeline,
            conditions,
            (server, database),
            bounds,
            Some(Arc::clone(&checks)),
        );
        let network = Arc::new(network);
        let tables = |process: usize| match &network.server {
            Some(server) => vec![server.table(process).clone()],
            None => simulation::tables(|| Reach::new(&network, process), plan.batchers()),
        };
        let tables = (0..processes).map(tables).collect();
        World { plan: plan.clone(), tables, network, checks, instances }
    }

    pub(crate) fn instances(&self) -> &[Arc<Instance>] {
        &self.instances
    }

    /// All that live and die with an instance, itself included.
    pub(crate) fn of_process(&self, process: usize) -> Vec<Arc<Instance>> {
        self.instances.iter().filter(|other| other.process == process).cloned().collect()
    }

    /// The table by which an instance contends.
    pub(crate) fn table(&self, instance: &Instance) -> &LockTable {
        let tables = &self.tables[instance.process];
        &tables[instance.batcher % tables.len()]
    }

    /// The number of a caller's connection; that after the last caller's is the tool's.
    pub(crate) fn callers_line(&self, index: usize) -> usize {
        self.tables.len() + index
    }

    pub(crate) fn checks(&self) -> MutexGuard<'_, Checks> {
        lock(&self.checks)
    }

    /// The observer of the acts of instances.
    pub(crate) fn shared_checks(&self) -> &Arc<Mutex<Checks>> {
        &self.checks
    }

    /// Asks what an instance believes.
    pub(crate) fn look_at(&self, instance: &Instance) {
        self.checks().look(instance, &self.instances);
    }

    /// All rows are gone, as after the loss of a disk.
    pub(crate) fn lose_rows(&self) {
        let at = timestamp(self.read_timestamp());
        self.database.lose_rows();
        self.checks().history.lost_rows(at);
    }

    /// Returns true if a lock of this name is known to anybody here.
    pub(crate) fn is_name_of_a_lock(&self, name: &str) -> bool {
        let planned = self.plan.locks.iter().map(|lock| lock.name.as_str());
        planned.chain(BYSTANDERS).chain([NIGHTLY]).any(|known| known == name)
    }

    /// The token under which an instance holds the lock of this name.
    pub(crate) fn holder_of(&self, name: &str) -> Option<u64> {
        let contenders = self.instances.iter().filter(|instance| instance.lock_name == name);
        contenders
            .filter_map(|instance| instance.has_lock())
            .map(FencingToken::as_nanoseconds)
            .next()
    }

    /// Returns the holders: who holds which lock, under which token.
    pub(crate) fn holders(&self) -> Vec<(usize, usize, u64)> {
        let holders = self.instances.iter().filter_map(|instance| {
            Some((instance.lock, instance.who, instance.has_lock()?.as_nanoseconds()))
        });
        let mut holders: Vec<_> = holders.collect();
        holders.sort_unstable();
        holders
    }

    /// Returns how it went so far.
    pub(crate) fn report(&self) -> Report {
        self.network.report(self.instances.len(), !self.plan.through_client)
    }
}
