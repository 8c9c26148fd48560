//! `agent`, `serve` and `run` outlast a Spanner that isn't there yet, and end for what no wait cures.

use std::net::SocketAddr;

use nix::sys::signal::Signal;
use serde_json::json;
use spindle_emulator::engine::Code;
use spindle_emulator::{Emulator, Fault, Rpc};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpSocket, TcpStream};
use tokio::process::Command;

use crate::agent::{self, LONG, gained, lead};
use crate::http::Server;
use crate::world::{DATABASE, Running, World, bare, reserved, until};

/// A port that refuses connections, and that nobody else can take, until it opens.
struct Door {
    socket: TcpSocket,
    address: SocketAddr,
}

impl Door {
    fn shut() -> Door {
        let (socket, address) = reserved();
        Door { socket, address }
    }

    /// The program, which goes to this port for Spanner.
    fn program(&self, arguments: &[&str]) -> Command {
        let mut command = bare(arguments);
        command
            .env("SPANNER_EMULATOR_HOST", self.address.to_string())
            .env("SPINDLE_DATABASE", DATABASE);
        command
    }

    /// Leads to this emulator from now on.
    fn open(self, to: &Emulator) {
        let (listener, to) = (self.socket.listen(64).unwrap(), to.address());
        tokio::spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut to = TcpStream::connect(to).await.unwrap();
                    let _ended = copy_bidirectional(&mut from, &mut to).await;
                });
            }
        });
    }
}

/// The program, once it has tried in vain.
async fn waiting(command: Command, probe: &str) -> Server {
    let server = Server::started(command).await;
    until("it has tried in vain", async || {
        let answer = server.get(probe).await;
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(answer.body.contains("waits for Spanner"), "{answer:?}");
        answer.body.contains("Connection refused")
    })
    .await;
    server
}

#[tokio::test]
async fn an_agent_that_comes_before_spanner_waits_and_then_works() {
    let (world, door) = (World::start().await, Door::shut());
    let command = door.program(&["agent", "--listen", "127.0.0.1:0", "--elector", "pods"]);
    let agent = waiting(command, "/readyz").await;
    assert_eq!(agent.get("/healthz").await.status, 200, "a restart would not help");
    let (status, refused) = agent.send("POST", "/v1/acquire", &json!({ "lock": "a" })).await;
    assert!(status == 503 && refused.to_string().contains("waits for Spanner"), "{refused}");
    door.open(&world.emulator);
    until("it is ready", async || agent.get("/readyz").await.status == 200).await;
    gained(&mut lead(&agent, "a", LONG).await).await;
    until("its own lock is held", async || world.is_held("pods").await).await;
}

#[tokio::test]
async fn an_agent_asks_once_however_many_records_of_jobs_come_first() {
    let world = World::start().await;
    let jobs: Vec<_> = (0..50).map(|job| format!("spindle:job:tenant-{job}")).collect();
    world.write(&jobs.iter().map(|job| (job.as_str(), None)).collect::<Vec<_>>()).await;
    let agent = agent::agent(&world, &[]).await;
    assert_eq!(agent.get("/readyz").await.status, 200);
    let reads = world.emulator.requests().get(Rpc::StreamingRead);
    assert_eq!(reads, 2, "one at the start, and one for the probe");
}

#[tokio::test]
async fn an_agent_that_waits_for_spanner_ends_when_it_is_told_to() {
    let door = Door::shut();
    let agent = waiting(door.program(&["agent", "--listen", "127.0.0.1:0"]), "/readyz").await;
    agent.running.signal(Signal::SIGTERM);
    agent.running.end().await.ends(0);
}

#[tokio::test]
async fn a_server_of_the_table_that_comes_before_spanner_waits_and_then_works() {
    let (world, door) = (World::start().await, Door::shut());
    world.write(&[("billing", Some("node-1"))]).await;
    let server = waiting(door.program(&["serve", "--listen", "127.0.0.1:0"]), "/healthz").await;
    assert!(server.get("/metrics").await.body.contains("spindle_table_up 0"));
    door.open(&world.emulator);
    until("it is well", async || server.get("/healthz").await.status == 200).await;
    let held = "spindle_table_lock_held{lock=\"billing\"} 1";
    assert!(server.get("/metrics").await.body.contains(held));
}

#[tokio::test]
async fn a_run_that_comes_before_spanner_waits_and_then_runs() {
    for form in [&["--wait", "50s"][..], &[], &["--every", "1s"]] {
        let (world, door) = (World::start().await, Door::shut());
        let run = [&["run"], form, &["job", "--", "echo", "ran"]].concat();
        let mut run = Running::start(door.program(&run));
        assert!(run.complaint().await.contains("waits for Spanner"));
        door.open(&world.emulator);
        run.end().await.ends(0).says_only("ran\n").complains("Spanner answers");
    }
}

#[tokio::test]
async fn a_run_gives_up_a_spanner_that_does_not_come_in_time() {
    let door = Door::shut();
    for form in [&["--wait", "1s"][..], &["--wait", "1s", "--every", "1h"]] {
        let run = [&["run"], form, &["job", "--", "echo", "ran"]].concat();
        let ran = Running::start(door.program(&run)).end().await.ends(75).says_only("");
        ran.complains("not reached within 1s").complains("Connection refused");
    }
    let run = door.program(&["run", "--try", "job", "--", "true"]);
    Running::start(run).end().await.ends(125).complains("Connection refused");
}

#[tokio::test]
async fn what_no_wait_cures_ends_each_of_them_by_its_own_code() {
    let commands =
        [&["agent", "--listen", "127.0.0.1:0"][..], &["serve", "--listen", "127.0.0.1:0"]];
    let run = ["run", "job", "--", "true"];
    let elsewhere = ["--database", "projects/p/instances/i/databases/other"];
    let (empty, world) = (World::with("").await, World::start().await);
    let narrow = "CREATE TABLE locktable (name STRING(MAX) NOT NULL) PRIMARY KEY (name)";
    let narrow = World::with(narrow).await;
    for command in commands {
        world.run(&[command, &elsewhere].concat()).await.ends(7).complains("databases create");
        empty.run(command).await.ends(4).complains("spindle init");
        narrow.run(command).await.ends(4).complains("ALTER TABLE");
    }
    let command = [&["run"], &elsewhere[..], &run[1..]].concat();
    world.run(&command).await.ends(125).complains("databases create");
    narrow.run(&run).await.ends(125).complains("ALTER TABLE");
    for rpc in [Rpc::StreamingRead, Rpc::CreateSession] {
        let denied = Fault::on(rpc).effect(spindle_emulator::Effect::Fail(Code::PermissionDenied));
        let denied = world.emulator.inject(denied);
        for command in commands {
            world.run(command).await.ends(8).complains("roles/spanner.databaseUser");
        }
        world.run(&run).await.ends(125).complains("roles/spanner.databaseUser");
        denied.remove();
    }
}

#[tokio::test]
async fn credentials_that_are_not_there_yet_are_waited_for() {
    let mut command = bare(&["agent", "--listen", "127.0.0.1:0", "--database", DATABASE]);
    command.env("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent/key.json");
    let agent = Server::started(command).await;
    until("it says what is missing", async || {
        agent.get("/readyz").await.body.contains("/nonexistent/key.json")
    })
    .await;
    // The server of metadata, which refuses connections.
    let door = Door::shut();
    let mut command = bare(&["agent", "--listen", "127.0.0.1:0", "--database", DATABASE]);
    command.env("GCE_METADATA_HOST", door.address.to_string()).env("HOME", "/nonexistent");
    command.env_remove("GOOGLE_APPLICATION_CREDENTIALS");
    let agent = Server::started(command).await;
    until("it has asked for a token", async || {
        let answer = agent.get("/readyz").await;
        assert_eq!(answer.status, 503, "{answer:?}");
        answer.body.contains("token")
    })
    .await;
    agent.running.signal(Signal::SIGTERM);
    agent.running.end().await.ends(0);
}
