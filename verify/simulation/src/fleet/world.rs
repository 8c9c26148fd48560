//! The world of a fleet: a server, the faults of its network, and the books.

use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::RngExt as _;
use spindle::simulation::{self, Store as _};
use spindle::{LockTable, Term};
use spindle_emulator::engine::{
    Cell, Code, Concurrency, Mutation, Read, Timestamp as EngineTimestamp, TimestampBound,
    WriteKind,
};
use spindle_emulator::{Effect, Fault, Rpc};
use spindle_judge::Outcome;
use spindle_protocol::fleet::CountNamed;
use spindle_protocol::rw::is_left_to_readers;
use spindle_protocol::{Change, Named, StoredRow, TermId, Timestamp, Writer};
use tokio::time::timeout;

use super::books::{Books, What};
use super::network::{Line, Network, NetworkFaults, Reach};
use super::plan::{FleetPlan, Move};
use crate::checks::Invariant;
use crate::coverage::CoverageGoal;
use crate::machine::lock;
use crate::network_faults::Outage;
use crate::rows::{LEDGER, SCHEMA, TABLE, decode, key};
use crate::server::{self, Server};
use crate::timeline::Timeline;

/// Each process has two connections: those of a life that died may still be cut off.
pub(crate) const LINES: usize = 2;

const ROW: [&str; 5] = ["name", "heartbeat", "token", "writer", "lease_ms"];

#[derive(Debug)]
pub(crate) struct FleetWorld {
    pub(crate) plan: FleetPlan,
    pub(super) network: Arc<Network>,
    /// Present if requests go through the client and the embedded server.
    pub(super) server: Option<Server>,
    /// The lock table by each connection; the last is the tool's.
    tables: Vec<LockTable>,
    books: Mutex<Books>,
    lives: Mutex<u64>,
}

impl Deref for FleetWorld {
    type Target = Timeline;

    fn deref(&self) -> &Timeline {
        &self.network.timeline
    }
}

impl FleetWorld {
    pub(crate) async fn new(plan: &FleetPlan, prints: bool) -> FleetWorld {
        // One more process, for those who come once things are settled.
        let lines = (plan.rates.len() + 1) * LINES;
        let callers = plan.through_client.then_some((0, lines));
        let (server, database) = server::start(plan.uncertainty, SCHEMA, callers).await;
        let network = Arc::new(Network::new(plan, database, lines + 1, prints));
        let reach = |line| simulation::table(Reach { network: Arc::clone(&network), line });
        let tables = match &server {
            Some(server) => (0..=lines).map(|line| server.callers_table(line).clone()).collect(),
            None => (0..=lines).map(reach).collect(),
        };
        FleetWorld {
            plan: plan.clone(),
            network,
            server,
            tables,
            books: Mutex::new(Books::new(plan.pieces(), plan.permits)),
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

    /// Returns how many requests this connection has sent.
    pub(super) fn sent(&self, line: usize) -> u64 {
        let Some(server) = &self.server else { return self.network.sent(line) };
        let (requests, session) = (server.emulator().requests(), server.callers_session(line));
        let all =
            [Rpc::StreamingRead, Rpc::Read, Rpc::Commit, Rpc::BeginTransaction, Rpc::Rollback];
        all.iter().map(|rpc| requests.of_session(session, *rpc)).sum()
    }

    /// Something goes wrong.
    pub(crate) fn fault(&self, what: impl FnOnce() -> String) {
        self.goes_wrong();
        self.tell(what);
    }

    pub(crate) fn new_life(&self) -> u64 {
        let mut lives = lock(&self.lives);
        *lives += 1;
        *lives
    }

    /// Nothing goes wrong from here on.
    pub(crate) fn end_storm(&self) {
        self.change_faults(|network_faults| {
            network_faults.lines.fill(Line::default());
            (network_faults.outage, network_faults.loss) = (None, 0.0);
        });
        self.storm_is_over();
    }

    pub(crate) fn change_faults(&self, change: impl FnOnce(&mut NetworkFaults)) {
        let mut network_faults = lock(&self.network.network_faults);
        change(&mut network_faults);
        let Some(server) = &self.server else { return };
        let emulator = server.emulator();
        emulator.clear_faults();
        let all = match network_faults.outage {
            Some(Outage::Refused) => {
                Some(Effect::Fail(spindle_emulator::engine::Code::Unavailable))
            }
            Some(Outage::Silent) => Some(Effect::Stall),
            None => None,
        };
        if let Some(effect) = all {
            emulator.inject(Fault::any().effect(effect));
        }
        for (index, line) in network_faults.lines.iter().enumerate() {
            let of_line = |fault: Fault| fault.session(server.callers_session(index));
            if let Some(effect) = line.cut {
                emulator.inject(of_line(Fault::any()).effect(effect));
            }
            if let Some(by) = line.stale {
                let late = Fault::on(Rpc::StreamingRead).effect(Effect::DelayReply(by));
                emulator.inject(of_line(late));
            }
            if line.is_unable {
                for shard in 0..self.plan.pieces() {
                    let commits = Fault::on(Rpc::Commit).key(self.shard_key(shard));
                    emulator.inject(of_line(commits).effect(Effect::Stall));
                }
            }
        }
        if network_faults.loss > 0.0 {
            let seed = self.random(|random| random.random());
            server.inject_loss(self.plan.lease, network_faults.loss, seed);
        }
    }

    pub(crate) fn shard_key(&self, shard: usize) -> String {
        self.plan.piece(shard)
    }

    /// Lets somebody look into the books or write in them, and ends the world on a violation.
    pub(crate) fn books<T>(&self, write: impl FnOnce(&mut Books) -> T) -> T {
        let mut books = lock(&self.books);
        let written = write(&mut books);
        if books.finding.first().is_some() {
            self.failed.cancel();
        }
        written
    }

    pub(crate) fn fail(&self, invariant: Invariant, what: String) {
        let now = self.now();
        self.books(|books| books.finding.fail(invariant, now, what));
    }

    /// A life begins to work a shard, or has got a permit; it is over when this is dropped.
    pub(crate) fn begins(self: &Arc<Self>, life: u64, what: What, term: &Term) -> Entry {
        let now = self.now();
        self.tell(|| format!("life {life} begins {what:?} under {}", term.token()));
        let number = self.books(|books| books.begins(life, what, term, now));
        Entry { world: Arc::clone(self), number }
    }

    /// Judges how a shard came to its new owner, by the row as it was just before.
    pub(crate) async fn look_back(&self, shard: usize, id: &str, token: u64) {
        let token = Timestamp(token.cast_signed());
        let Some(row) = self.row_before(&self.shard_key(shard), token).await else { return };
        let row = row.row();
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

    /// Judges how a reader began, by the writers' row as it was just before.
    pub(crate) async fn look_back_at_writer_row(&self, token: u64) {
        let token = Timestamp(token.cast_signed());
        let Some(writer_row) = self.row_before(&self.shard_key(0), token).await else { return };
        let writer_row = writer_row.row();
        let is_left = is_left_to_readers(&writer_row);
        // Nobody has the empty id.
        if !is_left && writer_row.vacant_from("", self.plan.lease) > token {
            let what = format!("a reader began at {token:?} beside a writer, {writer_row:?}");
            self.fail(Invariant::I1, what);
        }
        if !writer_row.is_released() {
            self.saw(CoverageGoal::DeadWriterReleased);
        }
    }

    /// Returns the count of shards that the group shares: a deploy names it.
    pub(super) async fn count(&self) -> usize {
        let at = self.network.database.read_timestamp(TimestampBound::Strong);
        let row = self.row_at("spindle:shard:fleet/work/count", at.expect("it is strong")).await;
        match CountNamed::by(row.map(|row| row.row()).as_ref()) {
            CountNamed::Count(count) => count.shards,
            _ => self.plan.shards,
        }
    }

    /// Moves the group to another count of shards; false if that was refused, or nobody knows.
    pub(super) async fn resize(&self, count: usize) -> bool {
        self.tell(|| format!("moves to {count} shards"));
        let resize = self.tools_table().resize_shards("fleet", "work", count);
        let keeps = self.plan.moves == Some(Move::KeepNumbers);
        let resize = if keeps { resize.keep_numbers() } else { resize };
        matches!(timeout(self.plan.lease, resize).await, Ok(Ok(_)))
    }

    async fn row_before(&self, name: &str, at: Timestamp) -> Option<StoredRow> {
        self.row_at(name, EngineTimestamp::from_nanos(i128::from(at.0) - 1)?).await
    }

    async fn row_at(&self, name: &str, at: EngineTimestamp) -> Option<StoredRow> {
        let read = Read::row(TABLE, ROW, key(name));
        let rows = self.network.database.read_at(at, read).await.ok()?;
        rows.first().map(|row| decode(name, &ROW, row))
    }

    /// Writes under a term by no rule but its fence, whether or not the term is over here. Returns
    /// what the writer is told.
    pub(super) async fn write(&self, line: usize, term: &Term, serial: i64) -> Outcome {
        let reach = Reach { network: Arc::clone(&self.network), line };
        let writer = Writer::from(simulation::writer(term));
        let token = Timestamp(term.token().as_nanoseconds().cast_signed());
        let fence = Change::Fence { term: TermId { token, writer } };
        // As the shipped fence reads. A transaction that stays open must hold up no heartbeat.
        let reads = fence.reads(term.lock());
        let columns: Vec<_> = std::iter::once("name")
            .chain(reads.columns.iter().map(|column| column.name()))
            .collect();
        let begun = reach.begins(&reads.keys, &columns, Concurrency::Pessimistic).await;
        let Ok((begun, found)) = begun else { return Outcome::NotSent };
        if fence.judge(term.lock(), &found).is_err() {
            self.saw(CoverageGoal::LateWorkRefused);
            // An open transaction would hold the next owner up.
            reach.roll_back((begun, None));
            return Outcome::Fenced;
        }
        let cells = [("serial", Cell::from(serial)), ("lock_name", term.lock().into())];
        let row = Mutation::write(WriteKind::InsertOrUpdate, LEDGER, cells);
        match reach.commits(begun, vec![row], false).await {
            Ok(at) => {
                self.wrote(term, u64::try_from(at.0).unwrap_or(0));
                Outcome::Committed
            }
            Err(Code::Aborted) => Outcome::NotSent,
            Err(_) => Outcome::Unknown,
        }
    }

    /// A write under a fence was committed.
    pub(crate) fn wrote(&self, term: &Term, at: u64) {
        let now = self.now();
        self.saw(CoverageGoal::FencedWrite);
        self.books(|books| books.wrote(term, at, now));
    }

    /// A caller asks for a permit, or to read or write, by this connection.
    pub(crate) fn caller_asks(&self, line: usize) {
        let now = self.now();
        self.network.loads.of(line, |load| load.asked(now));
    }

    /// Sees that no process sent too much in vain. The tool asks as its callers do.
    pub(crate) fn judge_load(&self) {
        let excess = |line| self.network.loads.of(line, |load| load.excess().cloned());
        if let Some(what) = (0..self.tools_line()).find_map(excess) {
            self.fail(Invariant::I8, what);
        }
    }

    /// Sees that every instance has kept the contract of the proof.
    pub(crate) fn judge_contract(&self) {
        if let Some(rule) = simulation::broken_rule() {
            self.fail(Invariant::Contract, rule.into());
        }
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
        let now = self.world.now();
        if let Some((life, what)) = self.world.books(|books| books.ends(self.number, now)) {
            self.world.tell(|| format!("life {life} ends {what:?}"));
        }
    }
}
