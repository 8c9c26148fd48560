//! The world of a fleet: a server, the faults of its network, and the checks.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rand::RngExt as _;
use spindle::{LockTable, Term, simulation};
use spindle_fleet::ShardCount;
use spindle_judge::Outcome;
use spindle_protocol::fleet::CountNamed;
use spindle_protocol::line::id_of;
use spindle_protocol::rw::is_left_to_readers;
use spindle_protocol::{Named, Row, Timestamp};
use tokio::time::timeout;

use super::checks::{FleetChecks, What};
use super::plan::FleetPlan;
use crate::checks::Invariant;
use crate::coverage::CoverageGoal;
use crate::load::Bounds;
use crate::machine::lock;
use crate::network::{Conditions, Network};
use crate::reach::Reach;
use crate::rows::{SCHEMA, timestamp};
use crate::server;
use crate::timeline::Timeline;

/// Each process has two connections: those of a life that died may still be cut off.
pub(crate) const LINES: usize = 2;

#[derive(Debug)]
pub(crate) struct FleetWorld {
    pub(crate) plan: FleetPlan,
    pub(super) network: Arc<Network>,
    /// The lock table by each connection; the last is the tool's.
    tables: Vec<LockTable>,
    checks: Mutex<FleetChecks>,
    lives: Mutex<u64>,
}

impl Deref for FleetWorld {
    type Target = Network;

    fn deref(&self) -> &Network {
        &self.network
    }
}

impl FleetWorld {
    pub(crate) async fn new(plan: &FleetPlan, prints: bool) -> FleetWorld {
        let timeline = Arc::new(Timeline::new(plan.seed, prints));
        // One more process, for those who come once things are settled.
        let mut bounds = vec![Bounds::OF_MANY; (plan.rates.len() + 1) * LINES];
        bounds.push(Bounds::NONE);
        let lines = bounds.len();
        let through = plan.through_client.then_some(lines);
        let ends = server::start(plan.uncertainty, SCHEMA, through).await;
        let conditions = Conditions {
            longest_lease: plan.lease,
            delay_max: plan.delay_max,
            loss: plan.loss,
            reconnects: true,
            overload: None,
        };
        let network = Arc::new(Network::new(&timeline, conditions, ends, bounds, None));
        let table = |line| match &network.server {
            Some(server) => server.table(line).clone(),
            None => simulation::table(Reach::new(&network, line)),
        };
        FleetWorld {
            plan: plan.clone(),
            tables: (0..lines).map(table).collect(),
            network,
            checks: Mutex::new(FleetChecks::new(plan.pieces(), plan.permits, &timeline)),
            lives: Mutex::default(),
        }
    }

    /// Up to so many leases.
    pub(crate) fn some_leases(&self, most: f64) -> Duration {
        let share = self.random(|random| random.random_range(0.0..most));
        self.plan.lease.mul_f64(share) + Duration::from_millis(1)
    }

    /// The lock table by one of the connections.
    pub(super) fn table(&self, line: usize) -> &LockTable {
        &self.tables[line]
    }

    pub(super) fn tools_table(&self) -> &LockTable {
        &self.tables[self.tools_line()]
    }

    /// The number of the tool's connection, which only fails together with all others.
    pub(super) fn tools_line(&self) -> usize {
        self.tables.len() - 1
    }

    pub(crate) fn new_life(&self) -> u64 {
        let mut lives = lock(&self.lives);
        *lives += 1;
        *lives
    }

    pub(crate) fn checks(&self) -> MutexGuard<'_, FleetChecks> {
        lock(&self.checks)
    }

    /// A life begins to work a shard, or has got a permit; it is over when this is dropped.
    pub(crate) fn begins(self: &Arc<Self>, life: u64, what: What, term: &Term) -> Entry {
        self.tell(&format!("life {life} begins {what:?} under {}", term.token()));
        let number = self.checks().begins(life, what, term);
        Entry { world: Arc::clone(self), number }
    }

    /// Judges how a shard came to its new owner, by the row as it was just before.
    pub(crate) async fn look_back(&self, shard: usize, id: &str, token: u64) {
        let token = Timestamp(token.cast_signed());
        let Some(row) = self.row_before(shard, token).await else { return };
        match row.writer.names() {
            Named::Successor(to) if row.is_released() && to == id => {
                // No hand-over is promised for so long.
                let is_kept = self.plan.restart.is_some() && row.lease == self.plan.restart;
                self.saw(if is_kept { CoverageGoal::KeptShard } else { CoverageGoal::HandedOver });
            }
            Named::Successor(to) if row.is_released() => {
                let until = row.token + row.lease.unwrap_or(self.plan.lease);
                if token < until {
                    let what =
                        format!("shard {shard}: {id} took at {token:?} what is {to}'s, {row:?}");
                    self.fail(Invariant::Reserved, what);
                }
                self.saw(CoverageGoal::PromiseLapsed);
            }
            Named::Term { id: holder, .. } if !row.is_released() && holder != id => {
                self.saw(CoverageGoal::ShardOfTheDeadTaken);
            }
            _ => {}
        }
    }

    /// Judges how a caller of this process came to its permit, by the row as it was just before.
    pub(crate) async fn look_back_at_permit(&self, key: &str, id: &str, token: u64) {
        let token = Timestamp(token.cast_signed());
        let Some(row) = self.row_at(key, Timestamp(token.0 - 1)).await else { return };
        let row = row.row();
        let Named::Successor(to) = row.writer.names() else { return };
        if row.is_released() && id_of(to) == id {
            self.saw(CoverageGoal::PermitInTurn);
        } else if row.is_released() && token < row.token + row.lease.unwrap_or(self.plan.lease) {
            let what = format!("`{key}`: {id} took at {token:?} what is {to}'s, {row:?}");
            self.fail(Invariant::Reserved, what);
        }
    }

    /// Judges how a reader began, by the gate and the write lock as they were just before.
    pub(crate) async fn look_back_at_writers(&self, token: u64) {
        let token = Timestamp(token.cast_signed());
        let gate = self.plan.piece(0);
        for key in [format!("{gate}/write"), gate] {
            let row = self.row_at(&key, Timestamp(token.0 - 1)).await;
            let Some(row) = row.map(|row| row.row()) else { continue };
            let is_left = is_left_to_readers(&row);
            // Nobody has the empty id.
            if !is_left && row.vacant_from("", self.plan.lease) > token {
                let what = format!("a reader began at {token:?} beside a writer, {key} {row:?}");
                self.fail(Invariant::I1, what);
            }
            if is_left && row.vacant_from("", self.plan.lease) > token {
                self.saw(CoverageGoal::ReadersTurn);
            }
            if !row.is_released() {
                self.saw(CoverageGoal::DeadWriterReleased);
            }
        }
    }

    /// Returns the count of shards that the group shares: a deploy names it.
    pub(super) async fn count(&self) -> usize {
        let now = timestamp(self.read_timestamp());
        let row = self.row_at("spindle:shard:fleet/work/count", now).await;
        match CountNamed::by(row.map(|row| row.row()).as_ref()) {
            CountNamed::Count(count) => count.shards,
            _ => self.plan.shards,
        }
    }

    /// Moves the group to another count of shards; false if that was refused, or nobody knows.
    pub(super) async fn resize(&self, count: usize) -> bool {
        self.tell(&format!("moves to {count} shards"));
        let resize = ShardCount::resize(self.tools_table(), "fleet", "work", count);
        matches!(timeout(self.plan.lease, resize).await, Ok(Ok(_)))
    }

    async fn row_before(&self, shard: usize, at: Timestamp) -> Option<Row> {
        let row = self.row_at(&self.plan.piece(shard), Timestamp(at.0 - 1)).await;
        row.map(|row| row.row())
    }

    /// Writes under a term by no rule but its fence, whether or not the term is over here. Returns
    /// what the writer is told.
    pub(super) async fn write(&self, line: usize, term: &Term, serial: i64) -> Outcome {
        let (told, at) = Reach::new(&self.network, line).write(term, serial, Duration::ZERO).await;
        if told == Outcome::Fenced {
            self.saw(CoverageGoal::LateWorkRefused);
        }
        if let Some(at) = at {
            self.checks().wrote(term, at.0.unsigned_abs());
        }
        told
    }

    /// A caller asks for a permit, or to read or write, by this connection.
    pub(crate) fn caller_asks(&self, line: usize) {
        let now = self.now();
        self.loads.of(line, |load| load.asked(now));
    }
}

/// Something that a life does or has; over when it is dropped.
#[derive(Debug)]
pub(crate) struct Entry {
    world: Arc<FleetWorld>,
    number: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let ended = self.world.checks().ends(self.number);
        if let Some((life, what)) = ended {
            self.world.tell(&format!("life {life} ends {what:?}"));
        }
    }
}
