//! `spindle agent` and clients that exit: what they held is released once the kernel knows that they are gone.

use std::io::{BufRead as _, Read as _, Write as _};
use std::time::Duration;

use fork::{Fork, fork};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use spindle::{FencingToken, Holding};
use spindle_emulator::engine::{Mutation, WriteKind};
use spindle_protocol::{Nonce, Writer};

use crate::agent::agent;
use crate::exits::token;
use crate::on_socket::{OnSocket, in_a_process};
use crate::world::{Cells, DATABASE, Running, TIME_LIMIT, World, row};

/// Short enough to be waited for where a lease has to run out.
const SHORT: Duration = Duration::from_secs(3);
/// Longer than a busy machine keeps a process from its turn.
const LEASE: Duration = Duration::from_secs(8);
/// Of terms that are written by hand.
const LONG: Duration = Duration::from_secs(300);

/// A process of this test's own program that talks to the agent.
struct Client(Running);

impl Client {
    fn start(agent: &OnSocket, request: &str) -> Client {
        let variables =
            [("CLIENT_SOCKET", agent.socket.as_os_str()), ("CLIENT_REQUEST", request.as_ref())];
        let part = "agent_exits::a_client_in_a_process_of_its_own";
        Client(in_a_process(part, &variables, false))
    }

    /// One that leads through the agent.
    fn leads(agent: &OnSocket, lock: &str, lease: Duration) -> Client {
        let lease = format!("{}s", lease.as_secs());
        let settings = json!({
            "locks": [lock], "lease": lease, "heartbeat_timeout": "1h", "on_exit": "release", "pid": 7,
        });
        Client::start(agent, &request("/v1/lead", &settings))
    }

    /// One that holds by itself, with an instance of each of these nonces.
    async fn witnessed(agent: &OnSocket, instances: &[(&str, u64)]) -> Client {
        let mut client = Client::start(agent, &witness(7, DATABASE, "locktable", 1));
        client.says("200 OK").await;
        for (lock, nonce) in instances {
            client.line(&json!({ "lock": lock, "nonce": format!("{nonce:016x}") })).await;
        }
        client
    }

    async fn line(&mut self, line: &Value) {
        self.told(&format!("line {line}")).await;
    }

    async fn told(&mut self, order: &str) {
        self.0.told(order).await;
    }

    async fn says(&mut self, text: &str) -> String {
        self.0.says(text).await
    }

    /// The data of the next event of this name.
    async fn event(&mut self, name: &str) -> Value {
        self.says(&format!("event: {name}")).await;
        let line = self.0.line().await;
        serde_json::from_str(line.strip_prefix("data: ").unwrap()).unwrap()
    }

    /// The process of a child that has the connection, too.
    async fn forks(&mut self) -> Pid {
        self.told("fork").await;
        let line = self.says("child ").await;
        Pid::from_raw(line.rsplit_once(' ').unwrap().1.parse().unwrap())
    }

    async fn is_killed(&mut self) {
        self.0.signal(Signal::SIGKILL);
        self.0.code().await;
    }
}

/// A request, in whose body `"pid":7` stands for the client's own.
fn request(path: &str, body: &Value) -> String {
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json");
    // As long as any pid may be.
    let body = format!("{:<200}", body.to_string());
    format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn witness(pid: u32, database: &str, table: &str, v: u32) -> String {
    let head = "POST /v1/witness HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked";
    let hello = json!({ "v": v, "database": database, "table": table, "pid": pid });
    let hello = format!("{:<200}\n", hello.to_string());
    format!("{head}\r\n\r\n{:x}\r\n{hello}\r\n", hello.len())
}

/// The client's end: it copies what the agent says, and does what it is told. Not a test of its own.
#[test]
#[ignore = "a part of the others"]
fn a_client_in_a_process_of_its_own() {
    let Ok(socket) = std::env::var("CLIENT_SOCKET") else { return };
    let mut stream = Some(std::os::unix::net::UnixStream::connect(socket).unwrap());
    let own = format!("\"pid\":{}", std::process::id());
    let asked = std::env::var("CLIENT_REQUEST").unwrap();
    let padding = " ".repeat(own.len() - "\"pid\":7".len());
    let asked = asked.replacen("\"pid\":7", &own, 1).replacen(&padding, "", 1);
    let mut writer = stream.as_ref().unwrap();
    writer.write_all(asked.as_bytes()).unwrap();
    let mut reads = stream.as_ref().unwrap().try_clone().unwrap();
    std::thread::spawn(move || {
        let mut part = [0; 4096];
        while let Ok(length @ 1..) = reads.read(&mut part) {
            print!("{}", String::from_utf8_lossy(&part[..length]));
            std::io::stdout().flush().unwrap();
        }
    });
    for order in std::io::stdin().lock().lines() {
        let order = order.unwrap();
        match order.split_once(' ') {
            Some(("line", line)) => {
                let chunk = format!("{:x}\r\n{line}\n\r\n", line.len() + 1);
                stream.as_ref().unwrap().write_all(chunk.as_bytes()).unwrap();
            }
            _ if order == "close" => {
                let stream = stream.take().unwrap();
                stream.shutdown(std::net::Shutdown::Both).unwrap();
            }
            _ => match fork().unwrap() {
                Fork::Child => {
                    // A test that has failed ends nobody.
                    std::thread::sleep(TIME_LIMIT);
                    std::process::exit(0);
                }
                Fork::Parent(child) => println!("child {child}"),
            },
        }
    }
}

/// Lets the term get older than its lease by Spanner's clock, and waits for a heartbeat after that.
async fn grows_old(world: &World, client: &mut Client, lease: Duration) {
    world.emulator.advance(lease);
    // One may have been under way.
    for _ in 0..2 {
        client.event("renewed").await;
    }
}

/// Rows of processes that hold by themselves: of terms older than their leases, and just renewed.
async fn old_terms(world: &World, terms: &[(&str, u64)]) {
    young_terms(world, terms).await;
    world.emulator.advance(LONG);
    world.beat(&terms.iter().map(|(name, _)| *name).collect::<Vec<_>>()).await;
}

async fn young_terms(world: &World, terms: &[(&str, u64)]) {
    let now = world.emulator.clock().now();
    let cells = |(name, nonce): &(&str, u64)| {
        let writer = Writer::term("a-process", Nonce { instance: *nonce, attempt: 1 });
        row(name, Cells { writer, ..Cells::term(now, "a-process", LONG.as_millis() as i64) })
    };
    world.apply(&terms.iter().map(cells).collect::<Vec<_>>()).await;
}

async fn tokens(world: &World, terms: &[(&str, u64)]) -> Vec<FencingToken> {
    let mut tokens = Vec::new();
    for (lock, _) in terms {
        tokens.push(token(world, lock).await);
    }
    tokens
}

#[tokio::test]
async fn the_lock_of_a_client_that_was_killed_is_released_and_a_young_term_lapses() {
    let world = World::start().await;
    let agent = OnSocket::start(&world, "killed").await;
    let mut old = Client::leads(&agent, "old", LEASE);
    old.event("gained").await;
    grows_old(&world, &mut old, LEASE).await;
    let mut young = Client::leads(&agent, "young", LEASE);
    let (held, late) = (token(&world, "old").await, young.event("gained").await);
    young.is_killed().await;
    old.is_killed().await;
    agent.says("spindle_agent_exited_total 1").await;
    assert!(token(&world, "old").await > held, "a release has a token of its own");
    agent.says("spindle_agent_lapsed_total 1").await;
    assert_eq!(json!(token(&world, "young").await), late["token"], "its lease runs out");
    agent.says("spindle_agent_claims 0").await;
}

#[tokio::test]
async fn a_stream_of_one_term_says_why_it_ends_when_the_term_is_lost() {
    let world = World::start().await;
    let agent = OnSocket::start(&world, "one-term").await;
    let asked = json!({ "lock": "a", "lease": "20s", "on_exit": "release", "pid": 7 });
    let mut client = Client::start(&agent, &request("/v1/acquire", &asked));
    client.event("gained").await;
    world.run(&["evict", "a", "--yes"]).await.ends(0);
    assert_eq!(client.event("lost").await["reason"], "superseded");
    assert_eq!(client.event("ended").await["reason"], "superseded");
}

#[tokio::test]
async fn a_child_that_keeps_the_connection_keeps_its_parents_lease() {
    let world = World::start().await;
    let agent = OnSocket::start(&world, "child").await;
    let mut client = Client::leads(&agent, "a", SHORT);
    client.event("gained").await;
    let child = client.forks().await;
    grows_old(&world, &mut client, SHORT).await;
    let held = token(&world, "a").await;
    client.is_killed().await;
    agent.says("spindle_agent_claims 0").await;
    agent.says("spindle_agent_lapsed_total 1").await;
    assert_eq!(token(&world, "a").await, held, "nothing was released");
    kill(child, Signal::SIGKILL).unwrap();
}

#[tokio::test]
async fn a_client_that_lives_on_without_its_connection_keeps_its_lease() {
    let world = World::start().await;
    let agent = OnSocket::start(&world, "lives").await;
    let mut client = Client::leads(&agent, "a", SHORT);
    client.event("gained").await;
    grows_old(&world, &mut client, SHORT).await;
    let held = token(&world, "a").await;
    client.told("close").await;
    agent.says("spindle_agent_lapsed_total 1").await;
    assert_eq!(token(&world, "a").await, held, "nothing was released");
}

#[tokio::test]
async fn what_a_process_holds_by_itself_is_released_by_the_nonces_that_it_registered() {
    let world = World::start().await;
    let agent = OnSocket::start(&world, "nonces").await;
    let terms = [("own", 7), ("another's", 8), ("over", 9), ("young", 10)];
    old_terms(&world, &terms[..3]).await;
    young_terms(&world, &terms[3..]).await;
    let stands_first = [("name", "own".into()), ("next", "0 1 first#00000000000000aa".into())];
    world.apply(&[Mutation::write(WriteKind::Update, "locktable", stands_first)]).await;
    let before = tokens(&world, &terms).await;
    let registered = [("own", 7), ("another's", 77), ("over", 9), ("young", 10), ("none", 11)];
    let mut client = Client::witnessed(&agent, &registered).await;
    agent.says("spindle_agent_watched 5").await;
    client.line(&json!({ "lock": "over", "nonce": "0000000000000009", "gone": true })).await;
    agent.says("spindle_agent_watched 4").await;
    client.is_killed().await;
    agent.says("spindle_agent_exited_total 1").await;
    agent.says("spindle_agent_lapsed_total 1").await;
    agent.says("spindle_agent_watched 0").await;
    for ((name, _), before) in terms.into_iter().zip(before) {
        assert_eq!(token(&world, name).await != before, name == "own", "{name}");
    }
    let freed = world.table.inspect("own").await.unwrap().holding;
    assert!(matches!(&freed, Holding::Promised { to, .. } if to == "first"), "{freed:?}");
}

#[tokio::test]
async fn neither_the_exit_nor_the_end_of_the_stream_releases_alone() {
    let world = World::start().await;
    let agent = OnSocket::start(&world, "alone").await;
    let terms = [("forked", 1), ("closed", 2), ("gone", 3)];
    old_terms(&world, &terms).await;
    let before = tokens(&world, &terms).await;
    let mut forked = Client::witnessed(&agent, &terms[..1]).await;
    let mut closed = Client::witnessed(&agent, &terms[1..2]).await;
    let mut gone = Client::witnessed(&agent, &terms[2..]).await;
    let child = forked.forks().await;
    agent.says("spindle_agent_watched 3").await;
    forked.is_killed().await;
    closed.told("close").await;
    // The last sign is the first to be noticed.
    agent.says("spindle_agent_watched 2").await;
    gone.is_killed().await;
    agent.says("spindle_agent_exited_total 1").await;
    assert_eq!(token(&world, "forked").await, before[0], "its child has the stream");
    assert_eq!(token(&world, "closed").await, before[1], "it lives");
    assert!(token(&world, "gone").await > before[2]);
    kill(child, Signal::SIGKILL).unwrap();
    agent.says("spindle_agent_exited_total 2").await;
    assert!(token(&world, "forked").await > before[0], "nobody has it any more");
    drop(closed);
}

#[tokio::test]
async fn what_the_kernel_cannot_tell_is_refused_with_the_reason() {
    let world = World::start().await;
    let (on_socket, on_tcp) = tokio::join!(OnSocket::start(&world, "refused"), agent(&world, &[]));
    let lock = json!({ "lock": "a", "on_exit": "release", "pid": std::process::id() });
    let (status, answer) = on_tcp.send("POST", "/v1/acquire", &lock).await;
    assert!(status == 400 && answer["error"].as_str().unwrap().contains("--socket"), "{answer}");
    let own = std::process::id();
    let claims = |body: Value| request("/v1/acquire", &body);
    let job = json!({ "lock": "a", "every": "1s", "on_exit": "release", "pid": own });
    for (request, why) in [
        (claims(json!({ "lock": "a", "on_exit": "release", "pid": 1 })), "has connected"),
        (claims(json!({ "lock": "a", "on_exit": "release" })), "name the pid"),
        (claims(json!({ "lock": "a", "on_exit": "seize", "pid": own })), "unknown variant"),
        (claims(json!({ "lock": "a", "pid": own })), "on_exit"),
        (request("/v1/run-once", &job), "others run its slot"),
        (witness(1, DATABASE, "locktable", 1), "has connected"),
        (witness(own, DATABASE, "locktable", 2), "another version"),
        (witness(own, DATABASE, "other", 1), "table: `other` there and `locktable` here"),
        (witness(own, "projects/p", "locktable", 1), "database"),
    ] {
        let answer = on_socket.answer(&request).await;
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains(why), "{why}: {answer}");
    }
}
