//! The smaller share: the real client, over a socket, to the embedded server.

use std::sync::Arc;
use std::time::Duration;

use google_cloud_spanner::client::{DatabaseClient, Spanner};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use spindle::LockTable;
use spindle_emulator::engine::{Code, Database, TransactionNumbers};
use spindle_emulator::sql::parse_ddl;
use spindle_emulator::{Effect, Emulator, Fault, Rpc};

use crate::machine::TrueTime;
use crate::network_faults::Outage;
use crate::process::Cut;

const DATABASE: &str = "projects/p/instances/i/databases/d";

/// A server, and the connection of each slot to it.
#[derive(Debug)]
pub(crate) struct Server {
    emulator: Emulator,
    tables: Vec<(LockTable, String)>,
    slots: usize,
    client: DatabaseClient,
}

/// Returns a database with this schema, behind a server for so many slots and callers if there is to be one.
pub(crate) async fn start(
    uncertainty: Duration,
    schema: &str,
    lines: Option<(usize, usize)>,
) -> (Option<Server>, Database) {
    let clock = Arc::new(TrueTime::new(uncertainty));
    if let Some((slots, callers)) = lines {
        let (server, database) = Server::start(clock, schema, slots, callers).await;
        return (Some(server), database);
    }
    let database = Database::new(clock, TransactionNumbers::default());
    let schema = parse_ddl(schema).expect("the schema is fixed");
    database.change_schema(&schema).expect("the schema is fixed");
    (None, database)
}

impl Server {
    async fn start(
        clock: Arc<TrueTime>,
        schema: &str,
        slots: usize,
        callers: usize,
    ) -> (Server, Database) {
        let started = Emulator::builder().clock(clock).start().await;
        let emulator = started.expect("a free port of this machine");
        let database = emulator.create_database(DATABASE, schema).await;
        let database = database.expect("the schema is fixed");
        let mut tables: Vec<(LockTable, String)> = Vec::new();
        // The last is the tool's.
        for _ in 0..slots + callers + 1 {
            let table = LockTable::connect_to(emulator.endpoint(), DATABASE, "locktable");
            table.inspect("nobody").await.expect("nothing goes wrong yet");
            // One after the other, so that the session that is new is this one's.
            let sessions = emulator.requests().sessions();
            let session = sessions.into_iter().find(|new| tables.iter().all(|(_, old)| old != new));
            tables.push((table, session.expect("every connection has a session of its own")));
        }
        let spanner = Spanner::builder().with_endpoint(emulator.endpoint()).build().await;
        let spanner = spanner.expect("the server is there");
        let client = spanner.database_client(DATABASE).build().await;
        let client = client.expect("nothing goes wrong yet");
        (Server { emulator, tables, slots, client }, database)
    }

    pub(crate) fn table(&self, who: usize) -> &LockTable {
        &self.tables[who].0
    }

    pub(crate) fn callers_table(&self, index: usize) -> &LockTable {
        &self.tables[self.slots + index].0
    }

    /// The session of a caller's table, as the server knows it.
    pub(crate) fn callers_session(&self, index: usize) -> &str {
        &self.tables[self.slots + index].1
    }

    pub(crate) fn emulator(&self) -> &Emulator {
        &self.emulator
    }

    pub(crate) fn tools_table(&self) -> &LockTable {
        &self.tables[self.tables.len() - 1].0
    }

    /// For what callers write besides.
    pub(crate) fn client(&self) -> &DatabaseClient {
        &self.client
    }

    /// Has requests go as the outage and the cuts say, and no other fault.
    pub(crate) fn inject(&self, outage: Option<Outage>, cuts: &[Cut]) {
        self.emulator.clear_faults();
        let all = match outage {
            Some(Outage::Refused) => Some(Effect::Fail(Code::Unavailable)),
            Some(Outage::Silent) => Some(Effect::Stall),
            None => None,
        };
        if let Some(effect) = all {
            self.emulator.inject(Fault::any().effect(effect));
        }
        for ((_, session), cut) in self.tables.iter().zip(cuts) {
            let effect = match cut {
                Cut::No => continue,
                Cut::Requests => Effect::Stall,
                Cut::Replies => Effect::StallReply,
            };
            self.emulator.inject(Fault::any().session(session).effect(effect));
        }
    }

    /// Has a share of the requests go wrong in one way or another.
    pub(crate) fn inject_loss(&self, long: Duration, loss: f64, seed: u64) {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut lease = |share| long.mul_f64(random.random_range(0.0..share));
        let effects = [
            Effect::Delay(lease(1.5)),
            Effect::DelayReply(lease(1.5)),
            Effect::Stall,
            Effect::StallReply,
            Effect::LoseReply,
            Effect::DropConnection,
            Effect::Fail(Code::Unavailable),
            // As if the row, the table or the session were gone, which is not so.
            Effect::Fail(Code::NotFound),
            Effect::FailAfterApplying(Code::DeadlineExceeded),
            Effect::ApplyLate { after: lease(3.0) },
            Effect::Abort,
        ];
        let each = loss / effects.len() as f64;
        for effect in effects {
            let seed = random.random();
            let fault = if effect == Effect::Abort { Fault::on(Rpc::Commit) } else { Fault::any() };
            self.emulator.inject(fault.probability(each, seed).effect(effect));
        }
    }
}
