//! Programs in other languages that lead through the agent, and write fenced orders with Google's client: on the
//! embedded Spanner, or on the one that the environment names. `examples/agent/run` builds and starts them.

use std::process::Stdio;

use nix::sys::signal::Signal;
use spindle::LockTable;
use spindle::google_cloud_spanner::client::{DatabaseClient, Spanner};
use spindle::google_cloud_spanner::statement::Statement;
use spindle_emulator::Emulator;
use tokio::process::Command;
use tokio::time::Instant;

use crate::http::Server;
use crate::world::{DATABASE, PROGRAM, Running, TIME_LIMIT};

const ORDERS: &str = "CREATE TABLE orders (
  id STRING(MAX) NOT NULL,
  leader STRING(MAX) NOT NULL,
  token INT64 NOT NULL,
  written TIMESTAMP OPTIONS (allow_commit_timestamp=true),
) PRIMARY KEY (id)";

/// Where the database is: its name, and the server's host and port.
struct Place {
    database: String,
    host: String,
    /// The embedded Spanner, for as long as it is used.
    _emulator: Option<Emulator>,
}

impl Place {
    async fn find() -> Place {
        let named = std::env::var("SPINDLE_TEST_DATABASE").ok();
        if let Some(database) = named.filter(|database| !database.is_empty()) {
            let host = std::env::var("SPANNER_EMULATOR_HOST").unwrap();
            return Place { database, host, _emulator: None };
        }
        let emulator = Emulator::start().await.unwrap();
        emulator
            .create_database(
                DATABASE,
                &format!("{};\n{ORDERS}", LockTable::ddl(spindle::Ddl::GoogleSql)),
            )
            .await
            .unwrap();
        let host = emulator.address().to_string();
        Place { database: DATABASE.to_string(), host, _emulator: Some(emulator) }
    }

    fn environment(&self, command: &mut Command) {
        command.env("SPANNER_EMULATOR_HOST", &self.host).env("SPINDLE_DATABASE", &self.database);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    }

    async fn agent(&self) -> Server {
        let mut command = Command::new(PROGRAM);
        command.args(["agent", "--listen", "127.0.0.1:0"]);
        self.environment(&mut command);
        Server::started(command).await
    }

    async fn client(&self) -> DatabaseClient {
        let builder = Spanner::builder().with_endpoint(format!("http://{}", self.host));
        builder.build().await.unwrap().database_client(&self.database).build().await.unwrap()
    }
}

/// A service in another language, with an agent of its own.
struct Replica {
    _agent: Server,
    running: Running,
}

impl Replica {
    async fn start(place: &Place, id: &str) -> Replica {
        let agent = place.agent().await;
        let program = std::env::var("AGENT_PROGRAM").expect("run by `examples/agent/run`");
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" 2>&1", "sh"]).args(program.split(' '));
        command.args([&place.database, id]);
        place.environment(&mut command);
        command.env("SPINDLE_AGENT", agent.address.to_string());
        // Node's client looks for the machine's own cloud at first.
        command.env("METADATA_SERVER_DETECTION", "none");
        Replica { _agent: agent, running: Running::start(command) }
    }

    /// The first line that says so, on either stream.
    async fn says(&mut self, what: &str) -> String {
        let began = Instant::now();
        while began.elapsed() < TIME_LIMIT {
            let line = self.running.line().await;
            assert!(!line.starts_with("failed"), "{line}");
            if line.contains(what) {
                return line;
            }
        }
        panic!("never said: {what}");
    }
}

#[tokio::test]
#[ignore = "takes a program in another language"]
async fn a_leader_that_was_killed_is_replaced_and_one_that_was_stopped_writes_nothing_late() {
    let place = Place::find().await;
    let mut first = Replica::start(&place, "first").await;
    first.says("wrote").await;
    let mut second = Replica::start(&place, "second").await;
    first.running.signal(Signal::SIGKILL);
    second.says("wrote").await;
    let mut third = Replica::start(&place, "third").await;
    // In the midst of an order, between the look at the deadline and the write.
    second.says("works").await;
    second.running.signal(Signal::SIGSTOP);
    third.says("wrote").await;
    second.running.signal(Signal::SIGCONT);
    // It may first say what it had written before it was stopped.
    second.says("fenced").await;
    third.says("wrote").await;

    let client = place.client().await;
    let sql = "SELECT leader, token FROM orders ORDER BY written";
    let reading = client.single_use().build();
    let mut rows = reading.execute_query(Statement::builder(sql).build()).await.unwrap();
    let mut orders: Vec<(String, i64)> = Vec::new();
    while let Some(row) = rows.next().await.transpose().unwrap() {
        orders.push((row.get("leader").unwrap(), row.get("token").unwrap()));
    }
    assert!(orders.is_sorted_by_key(|(_, token)| *token), "one wrote late: {orders:?}");
    let mut leaders: Vec<&str> = orders.iter().map(|(leader, _)| leader.as_str()).collect();
    leaders.dedup();
    assert_eq!(leaders, ["first", "second", "third"], "{orders:?}");
}

#[tokio::test]
#[ignore = "takes a program in another language"]
async fn a_program_that_the_agent_refuses_says_why() {
    let place = Place::find().await;
    Replica::start(&place, ">id").await.says("starts with `>`").await;
}
