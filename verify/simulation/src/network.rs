//! The lock table as processes reach it: on the engine, over a network that isn't to be trusted.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::RngExt as _;
use spindle_emulator::Rpc as ServerRpc;
use spindle_emulator::engine::{
    Code, Database, Mutation, Read, ReadWriteOptions, Timestamp as EngineTimestamp, TimestampBound,
    Value,
};
use spindle_protocol::{StoredRow, Timestamp};
use tokio::time::sleep;

use crate::checks::{Checks, Effect, Invariant, Purpose};
use crate::coverage::CoverageGoal;
use crate::flow::Flows;
use crate::load::{Bounds, Loads};
use crate::machine::lock;
use crate::network_faults::{Cut, Delivery, Line, NetworkFaults, Outage, delays};
use crate::overload::{Capacity, Overload};
use crate::rows::{TABLE, decode, key, timestamp};
use crate::server::Server;
use crate::timeline::Timeline;

/// The lock table's columns.
pub(crate) const COLUMNS: [&str; 8] =
    ["name", "heartbeat", "token", "writer", "lease_ms", "info", "displaced", "next"];

/// The engine, the way to it, and what has happened so far.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) database: Database,
    /// Present if requests go through the client and the embedded server.
    pub(crate) server: Option<Server>,
    timeline: Arc<Timeline>,
    conditions: Conditions,
    faults: Mutex<NetworkFaults>,
    pub(crate) flows: Flows,
    pub(crate) capacity: Capacity,
    /// How many requests each connection has sent.
    sent: Mutex<Vec<u64>>,
    pub(crate) loads: Loads,
    pub(crate) pages: Mutex<Pages>,
    /// They look at every commit in its order. Without them each is judged by itself, by the row just before.
    checks: Option<Arc<Mutex<Checks>>>,
}

/// The part of a plan that concerns the network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conditions {
    /// A long delay is about so long.
    pub(crate) longest_lease: Duration,
    /// How long a request takes each way at most, while all is well.
    pub(crate) delay_max: Duration,
    /// How likely a request goes wrong while the network is bad.
    pub(crate) loss: f64,
    /// False if nobody gets a fresh flow in place of one that is silent.
    pub(crate) reconnects: bool,
    pub(crate) overload: Option<Overload>,
}

/// The rows that were read last of each group. In a big fleet many ask for the same between two
/// commits, and nearly all of a world's time would go into finding them again.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// How many commits have begun, and how many of these have ended.
    begun: u64,
    ended: u64,
    /// With the number of commits before.
    rows: BTreeMap<Asked, (u64, Arc<Vec<StoredRow>>)>,
}

/// Keys and ranges of keys.
pub(crate) type Asked = (Vec<String>, Vec<(String, String)>);

impl Pages {
    /// Returns how many commits there were, if none is under way.
    pub(crate) fn commits(&self) -> Option<u64> {
        (self.begun == self.ended).then_some(self.begun)
    }

    pub(crate) fn known(&self, asked: &Asked) -> Option<Arc<Vec<StoredRow>>> {
        let (before, rows) = self.rows.get(asked)?;
        (self.commits() == Some(*before)).then(|| Arc::clone(rows))
    }

    /// Keeps rows that were read after so many commits, unless there was another one meanwhile.
    pub(crate) fn keep(&mut self, asked: Asked, before: Option<u64>, rows: &[StoredRow]) {
        if let Some(before) = before.filter(|before| self.commits() == Some(*before)) {
            self.rows.retain(|_, (of, _)| *of == before);
            self.rows.insert(asked, (before, Arc::new(rows.to_vec())));
        }
    }
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rpc {
    Read,
    Begin,
    Commit,
    Rollback,
    Connect,
}

impl Deref for Network {
    type Target = Timeline;

    fn deref(&self) -> &Timeline {
        &self.timeline
    }
}

impl Network {
    /// Returns the way to a database, over so many connections as there are bounds of their load.
    pub(crate) fn new(
        timeline: &Arc<Timeline>,
        conditions: Conditions,
        (server, database): (Option<Server>, Database),
        bounds: Vec<Bounds>,
        checks: Option<Arc<Mutex<Checks>>>,
    ) -> Network {
        let lines = vec![Line::default(); bounds.len()];
        let faults = NetworkFaults { outage: None, loss: conditions.loss / 20.0, lines };
        let network = Network {
            database,
            server,
            timeline: Arc::clone(timeline),
            conditions,
            faults: Mutex::new(faults),
            flows: Flows::new(bounds.len()),
            capacity: Capacity::new(conditions.overload),
            sent: Mutex::new(vec![0; bounds.len()]),
            loads: Loads::new(timeline, bounds),
            pages: Mutex::default(),
            checks,
        };
        network.change_faults(|_| ());
        network
    }

    /// Returns how many requests this connection has sent.
    pub(crate) fn sent(&self, line: usize) -> u64 {
        let Some(server) = &self.server else { return lock(&self.sent)[line] };
        let (requests, session) = (server.emulator().requests(), server.session(line));
        let all = [
            ServerRpc::StreamingRead,
            ServerRpc::Read,
            ServerRpc::Commit,
            ServerRpc::BeginTransaction,
            ServerRpc::Rollback,
        ];
        all.iter().map(|rpc| requests.of_session(session, *rpc)).sum()
    }

    /// Draws how a request goes, which may commit these effects.
    pub(crate) fn delivery(&self, line: usize, rpc: Rpc, effects: &[Effect]) -> Delivery {
        let (outage, loss, of_line) = {
            let faults = lock(&self.faults);
            (faults.outage, faults.loss, faults.lines[line].clone())
        };
        lock(&self.sent)[line] += 1;
        let Conditions { longest_lease, delay_max, .. } = self.conditions;
        let is_of_unable = |effect: &Effect| {
            let is_of_lock = !matches!(effect.purpose, Purpose::Fenced(_));
            is_of_lock && of_line.unable.contains(&effect.lock)
        };
        let is_unable = effects.iter().any(is_of_unable);
        let delivery = self.random(|random| {
            let (out, back) = delays(random, delay_max);
            match (outage, of_line.cut) {
                (Some(Outage::Refused), _) => return Delivery::Refuse,
                (Some(Outage::Silent), _) | (_, Some(Cut::Requests)) => {
                    return Delivery::LoseRequest;
                }
                (None, Some(Cut::Replies)) => return Delivery::LoseReply { out },
                (None, None) if is_unable => return Delivery::LoseRequest,
                (None, None) => {}
            }
            match (rpc, of_line.stale) {
                (Rpc::Read | Rpc::Begin, Some(by)) => return Delivery::Deliver { out, back: by },
                _ if loss == 0.0 || !random.random_bool(loss) => {}
                _ => return Delivery::bad(random, longest_lease, (out, back)),
            }
            Delivery::Deliver { out, back }
        });
        match delivery {
            Delivery::Deliver { .. } => self.count(line, &(rpc, delivery)),
            _ => self.fault(line, &(rpc, delivery)),
        }
        delivery
    }

    /// Commits what a transaction does to locks, and lets the checks look at it.
    pub(crate) async fn commit(
        &self,
        id: spindle_emulator::engine::TransactionId,
        effects: Vec<Effect>,
    ) -> spindle_emulator::engine::Result<Timestamp> {
        let mutations: Vec<Mutation> =
            effects.iter().flat_map(|effect| effect.mutations.iter().cloned()).collect();
        lock(&self.pages).begun += 1;
        let committed = self.database.commit(id, &mutations).await;
        lock(&self.pages).ended += 1;
        let at = timestamp(committed?.timestamp);
        self.committed(at, effects).await;
        Ok(at)
    }

    /// Writes past the network.
    pub(crate) async fn edit(&self, effect: Effect) {
        // A row that is gone meanwhile is not there to be edited.
        if let Ok(committed) = self.database.apply(&effect.mutations).await {
            self.committed(timestamp(committed.timestamp), vec![effect]).await;
        }
    }

    /// Edits a row past the network, in one transaction: `follows` makes the mutations from its cells.
    pub(crate) async fn edit_row(
        &self,
        name: &str,
        purpose: Purpose,
        follows: impl Fn(&[Value]) -> Option<Vec<Mutation>>,
    ) {
        let mut options = ReadWriteOptions::default();
        loop {
            let id = self.database.begin(&options);
            let edited = async {
                let rows = self.database.read(id, Read::row(TABLE, COLUMNS, key(name))).await?;
                let Some(mutations) = rows.first().and_then(|cells| follows(cells)) else {
                    return self.database.rollback(id);
                };
                let lock = name.to_string();
                let effect = Effect { by: None, lock, purpose: purpose.clone(), mutations };
                self.commit(id, vec![effect]).await.map(drop)
            };
            match edited.await {
                Err(error) if error.code() == Code::Aborted => options.previous = Some(id),
                // A row that is gone meanwhile is not there to be edited.
                _ => return,
            }
        }
    }

    async fn committed(&self, at: Timestamp, effects: Vec<Effect>) {
        if let Some(checks) = &self.checks {
            return lock(checks).committed(at, effects);
        }
        self.count(0, &at.0);
        for effect in effects {
            let before = self.row_at(&effect.lock, Timestamp(at.0 - 1)).await;
            let judged = effect.judge(before.map(|row| row.row()).as_ref());
            self.judged(judged.map(drop));
        }
    }

    /// Returns a row's cells as they were then, in the order of the table's columns. None if the
    /// version is forgotten.
    pub(crate) async fn cells_at(
        &self,
        name: &str,
        at: EngineTimestamp,
    ) -> Option<Option<Vec<Value>>> {
        let rows = self.database.read_at(at, Read::row(TABLE, COLUMNS, key(name))).await.ok()?;
        Some(rows.into_iter().next())
    }

    /// Returns a row as it was then, if it was there.
    pub(crate) async fn row_at(&self, name: &str, at: Timestamp) -> Option<StoredRow> {
        let at = EngineTimestamp::from_nanos(i128::from(at.0))?;
        let cells = self.cells_at(name, at).await.flatten()?;
        Some(decode(name, &COLUMNS, &cells))
    }

    /// Returns the timestamp of a strong read.
    pub(crate) fn read_timestamp(&self) -> EngineTimestamp {
        let at = self.database.read_timestamp(TimestampBound::Strong);
        at.expect("a strong read has a timestamp")
    }

    /// Changes how requests go from here on, also those through the server.
    pub(crate) fn change_faults(&self, change: impl FnOnce(&mut NetworkFaults)) {
        let mut faults = lock(&self.faults);
        change(&mut faults);
        if let Some(server) = &self.server {
            let seed = self.random(|random| random.random());
            server.inject(&faults, self.conditions.longest_lease, seed);
        }
    }

    /// Has a connection be as `change` says, for so long.
    pub(crate) fn change_line(
        self: &Arc<Network>,
        line: usize,
        long: Duration,
        change: impl FnOnce(&mut Line),
    ) {
        self.change_faults(|faults| change(&mut faults.lines[line]));
        self.after(long, move |network| {
            network.change_faults(|faults| faults.lines[line] = Line::default());
        });
    }

    /// Has the server be away for so long.
    pub(crate) fn goes_away(self: &Arc<Network>, outage: Outage, long: Duration) {
        self.change_faults(|faults| faults.outage = Some(outage));
        self.after(long, |network| network.change_faults(|faults| faults.outage = None));
    }

    /// Has the server forget its transactions, and be back after so long.
    pub(crate) fn restarts(self: &Arc<Network>, long: Duration) {
        self.saw(CoverageGoal::Restarted);
        self.database.abort_all();
        self.goes_away(Outage::Refused, long);
    }

    /// Has the network be bad for so long.
    pub(crate) fn is_bad(self: &Arc<Network>, long: Duration) {
        let loss = self.conditions.loss;
        self.change_faults(|faults| faults.loss = loss);
        self.after(long, move |network| network.change_faults(|faults| faults.loss = loss / 20.0));
    }

    /// Returns true if a process may open a fresh flow.
    pub(crate) fn reconnects(&self) -> bool {
        self.conditions.reconnects
    }

    /// Nothing goes wrong from here on, but flows that are dead stay so where there may be fresh ones.
    /// Requests under way may still arrive.
    pub(crate) fn end_fault_phase(&self) {
        self.flows.heal(self.reconnects());
        self.change_faults(|faults| {
            faults.lines.fill(Line::default());
            (faults.outage, faults.loss) = (None, 0.0);
        });
        self.fault_phase_is_over();
        self.tell("the fault phase is over");
    }

    /// Does something after this time. After the fault phase everything is well already.
    pub(crate) fn after(
        self: &Arc<Network>,
        delay: Duration,
        then: impl FnOnce(&Network) + Send + 'static,
    ) {
        let network = Arc::clone(self);
        tokio::spawn(async move {
            sleep(delay).await;
            if network.is_fault_phase() {
                then(&network);
            }
        });
    }

    /// Compares what writers were told with what was committed (I3).
    pub(crate) fn judge_told(&self) {
        self.expect(Invariant::I3, self.compare_told(&self.database));
    }
}
