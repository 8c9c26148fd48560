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
use crate::network_faults::{Cut, NetworkFaults, Outage};

const DATABASE: &str = "projects/p/instances/i/databases/d";

/// A server, and connections to it, each with its session as the server knows it.
#[derive(Debug)]
pub(crate) struct Server {
    emulator: Emulator,
    tables: Vec<(LockTable, String)>,
    client: DatabaseClient,
}

/// Returns a database with this schema, behind a server with so many connections if there is to be one.
pub(crate) async fn start(
    uncertainty: Duration,
    schema: &str,
    lines: Option<usize>,
) -> (Option<Server>, Database) {
    let clock = Arc::new(TrueTime::new(uncertainty));
    if let Some(lines) = lines {
        let (server, database) = Server::start(clock, schema, lines).await;
        return (Some(server), database);
    }
    let database = Database::new(clock, TransactionNumbers::default());
    let schema = parse_ddl(schema).expect("the schema is fixed");
    database.change_schema(&schema).expect("the schema is fixed");
    (None, database)
}

async fn connect(emulator: &Emulator) -> DatabaseClient {
    let spanner = Spanner::builder().with_endpoint(emulator.endpoint()).build().await;
    let client = spanner.expect("the server is there").database_client(DATABASE).build().await;
    client.expect("nothing goes wrong yet")
}

impl Server {
    async fn start(clock: Arc<TrueTime>, schema: &str, lines: usize) -> (Server, Database) {
        let started = Emulator::builder().clock(clock).start().await;
        let emulator = started.expect("a free port of this machine");
        let database = emulator.create_database(DATABASE, schema).await;
        let database = database.expect("the schema is fixed");
        let mut tables: Vec<(LockTable, String)> = Vec::new();
        for _ in 0..lines {
            // A connection of the library's own would change its session, by which faults know it.
            let table = LockTable::new(connect(&emulator).await, "locktable");
            table.inspect("nobody").await.expect("nothing goes wrong yet");
            // One after the other, so that the session that is new is this one's.
            let sessions = emulator.requests().sessions();
            let session = sessions.into_iter().find(|new| tables.iter().all(|(_, old)| old != new));
            tables.push((table, session.expect("every connection has a session of its own")));
        }
        let client = connect(&emulator).await;
        (Server { emulator, tables, client }, database)
    }

    pub(crate) fn table(&self, line: usize) -> &LockTable {
        &self.tables[line].0
    }

    pub(crate) fn session(&self, line: usize) -> &str {
        &self.tables[line].1
    }

    pub(crate) fn emulator(&self) -> &Emulator {
        &self.emulator
    }

    /// For what callers write besides.
    pub(crate) fn client(&self) -> &DatabaseClient {
        &self.client
    }

    /// Has requests go as these faults say, and no other fault.
    pub(crate) fn inject(&self, faults: &NetworkFaults, long: Duration, seed: u64) {
        self.emulator.clear_faults();
        let all = match faults.outage {
            Some(Outage::Refused) => Some(Effect::Fail(Code::Unavailable)),
            Some(Outage::Silent) => Some(Effect::Stall),
            None => None,
        };
        if let Some(effect) = all {
            self.emulator.inject(Fault::any().effect(effect));
        }
        for (index, line) in faults.lines.iter().enumerate() {
            let inject = |fault: Fault, effect| {
                self.emulator.inject(fault.session(self.session(index)).effect(effect));
            };
            match line.cut {
                Some(Cut::Requests) => inject(Fault::any(), Effect::Stall),
                Some(Cut::Replies) => inject(Fault::any(), Effect::StallReply),
                None => {}
            }
            if let Some(by) = line.stale {
                inject(Fault::on(Rpc::StreamingRead), Effect::DelayReply(by));
            }
            for key in &line.unable {
                inject(Fault::on(Rpc::Commit).key(key), Effect::Stall);
            }
        }
        if faults.loss > 0.0 {
            self.inject_loss(long, faults.loss, seed);
        }
    }

    /// Has a share of the requests go wrong in one way or another.
    fn inject_loss(&self, long: Duration, loss: f64, seed: u64) {
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
