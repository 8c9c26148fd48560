//! `spindle agent` and those who may not, or not so often, or not from there.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio::process::Command;
use tokio::time::timeout;

use crate::agent::{LONG, agent, claim, gained, lead};
use crate::http::Server;
use crate::on_socket::{OnSocket, own_path};
use crate::world::{TIME_LIMIT, World, reserved, takes_less_than, under, until};

#[tokio::test]
async fn hostile_requests_are_refused_and_the_others_served() {
    let world = World::start().await;
    let secret = std::env::temp_dir().join(format!("spindle-token-{}", std::process::id()));
    own_file(&secret, "not to be guessed\n");
    let agent = agent(&world, &["--token-file", secret.to_str().unwrap()]).await;
    std::fs::remove_file(&secret).unwrap();
    let host = agent.address;
    let ask = async |head: &str, body: &str| {
        let request =
            format!("POST /v1/acquire HTTP/1.1\r\nConnection: close\r\n{head}\r\n\r\n{body}");
        agent.answer(&request).await
    };
    let length = |body: &str| format!("Content-Length: {}", body.len());
    let bearer = "Authorization: Bearer not to be guessed";
    let kind = "Content-Type: application/json";
    let good = format!("Host: {host}\r\n{bearer}\r\n{kind}");
    let body = r#"{"lock": "a"}"#;
    let huge = format!("{{\"lock\": \"{}\"}}", "a".repeat(100_000));
    for (status, head, body) in [
        (200, good.clone(), body),
        (421, format!("Host: evil.example\r\n{bearer}\r\n{kind}"), body),
        (403, format!("{good}\r\nOrigin: http://evil.example"), body),
        (401, format!("Host: {host}\r\n{kind}"), body),
        (
            409,
            good.replace("Bearer", "bearer").replace("application/json", "Application/JSON"),
            body,
        ),
        (401, format!("Host: {host}\r\n{kind}\r\nAuthorization: Bearer not to be guesses"), body),
        (415, format!("Host: {host}\r\n{bearer}\r\nContent-Type: text/plain"), body),
        (400, good.clone(), "{"),
        (400, good.clone(), "[]"),
        (400, good.clone(), "\u{0}"),
        (400, good.clone(), r#"{"lock": ""}"#),
        (400, good.clone(), r#"{"lock": "b", "leese": "3s"}"#),
        (400, good.clone(), r#"{"lock": "b", "lease": "3"}"#),
        (400, good.clone(), r#"{"lock": "b", "lease": "1ms"}"#),
        (400, good.clone(), r#"{"lock": "b", "wait": "2h"}"#),
        (400, good.clone(), r#"{"lock": "b", "heartbeat_timeout": "99ms"}"#),
        (400, good.clone(), r#"{"lock": "b", "heartbeat_timeout": "18446744073709551615s"}"#),
        (400, good.clone(), r#"{"lock": "b", "clock": {"boottime_ns": "18446744073709551615"}}"#),
        (413, good.clone(), &huge),
    ] {
        let answer = ask(&format!("{head}\r\n{}", length(body)), body).await;
        assert_eq!(answer.status, status, "{head} {body:.80}: {answer:?}");
        let is_refused = answer.body.contains("\"error\"") && answer.body.contains("\"code\"");
        assert!(is_refused || status == 200, "{answer:?}");
        assert_eq!(status == 401, answer.head.contains("www-authenticate: bearer"), "{answer:?}");
    }
    for (status, method, path) in [(404, "POST", "/v2/lead"), (405, "GET", "/v1/lead")] {
        let request = format!("{method} {path} HTTP/1.0\r\n{good}\r\n\r\n");
        let answer = agent.answer(&request).await;
        assert!(answer.status == status && answer.body.contains("error"), "{path}: {answer:?}");
    }
    // A body that never comes, and one without an end.
    let slow = ask(&format!("{good}\r\nContent-Length: 100"), "{").await;
    assert_eq!(slow.status, 408, "{slow:?}");
    // Nobody waits for the body of one that may not.
    let stranger = ask(&format!("Host: {host}\r\n{kind}\r\nContent-Length: 100"), "{").await;
    assert_eq!(stranger.status, 401, "{stranger:?}");
    for locks in
        [json!([]), json!(["a", "a"]), json!((0..101).map(|n| n.to_string()).collect::<Vec<_>>())]
    {
        let body = json!({ "locks": locks }).to_string();
        let request =
            format!("POST /v1/lead HTTP/1.0\r\n{good}\r\n{}\r\n\r\n{body}", length(&body));
        assert_eq!(agent.answer(&request).await.status, 400, "{body:.80}");
    }
    let mut silent = TcpStream::connect(agent.address).await.unwrap();
    silent.write_all(b"POST /v1/acq").await.unwrap();
    let mut rest = Vec::new();
    let closed = timeout(TIME_LIMIT, silent.read_to_end(&mut rest)).await.unwrap();
    assert!(closed.is_err() || rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"), "{rest:?}");
}

/// A file that its owner alone reads.
fn own_file(path: &std::path::Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

#[tokio::test]
async fn a_secret_that_is_written_anew_is_taken_without_a_restart_and_one_for_everybody_is_refused()
{
    let world = World::start().await;
    let secret = std::env::temp_dir().join(format!("spindle-rotated-{}", std::process::id()));
    own_file(&secret, "the first secret of all");
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o604)).unwrap();
    let name = secret.to_str().unwrap();
    world
        .run(&["agent", "--listen", "127.0.0.1:0", "--token-file", name])
        .await
        .ends(2)
        .complains("0604");
    own_file(&secret, "the first secret of all");
    let agent = agent(&world, &["--token-file", name]).await;
    let status = async |token: &str| {
        let head = format!("Host: {}\r\nAuthorization: Bearer {token}", agent.address);
        agent.answer(&format!("GET /readyz HTTP/1.0\r\n{head}\r\n\r\n")).await.status
    };
    assert_eq!(status("the first secret of all").await, 200);
    own_file(&secret, "another one, and longer");
    assert_eq!(status("the first secret of all").await, 401);
    assert_eq!(status("another one, and longer").await, 200);
    std::fs::remove_file(&secret).unwrap();
    assert_eq!(status("another one, and longer").await, 200, "while there is no other");
}

/// As many connections as this machine lets one process open, each with so much of a request.
async fn half_open(address: std::net::SocketAddr, count: usize) -> Vec<TcpStream> {
    let mut opened = Vec::new();
    for _ in 0..count {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let _ = stream.write_all(b"GET /healthz HTT").await;
        opened.push(stream);
    }
    opened
}

#[tokio::test]
async fn connections_without_a_request_make_room_for_those_that_have_one() {
    let world = World::start().await;
    let limited = ["-c", "ulimit -n 120; exec \"$@\"", "sh"];
    let mut program = world.program(&["agent", "--listen", "127.0.0.1:0"]);
    program.args(["--probes", "127.0.0.1:0"]);
    let mut command = under("sh", &limited, program);
    command.stderr(std::process::Stdio::inherit());
    let mut probes = Server::listening(command).await;
    let line = probes.running.line().await;
    let address = line.split_once("http://").unwrap().1.split_once('/').unwrap().0;
    let address: std::net::SocketAddr = address.parse().unwrap();
    let body = json!({ "lock": "a", "lease": "60s" }).to_string();
    let ask = async |path: &str, body: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head =
            format!("POST {path} HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json");
        let request = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let held = ask("/v1/acquire", &body).await;
    let held: Value = serde_json::from_str(held.split_once("\r\n\r\n").unwrap().1).unwrap();
    // Before any of them is late.
    takes_less_than(Duration::from_secs(4), async || {
        let _idle = half_open(address, 300).await;
        let answer = ask(&format!("{}/heartbeat", claim(&held)), "{}").await;
        assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
        let _foreign = half_open(probes.address, 300).await;
        assert_eq!(probes.get("/healthz").await.body, "ok\n");
    })
    .await;
}

/// A connection whose answer is longer than what the kernel keeps of it, and is never read.
async fn unread(address: std::net::SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(2048).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").await.unwrap();
    stream
}

#[tokio::test]
async fn probes_are_answered_however_many_answers_nobody_reads() {
    let world = World::start().await;
    let listens = ["agent", "--listen", "127.0.0.1:0", "--probes", "127.0.0.1:0"];
    let mut probes = Server::started(world.program(&listens)).await;
    let line = probes.running.line().await;
    let address = line.split_once("http://").unwrap().1.split_once('/').unwrap().0;
    let mut streams = Vec::new();
    for n in 0..2 {
        let locks: Vec<_> = (0..100).map(|m| format!("{n}-{m}-{}", "a".repeat(300))).collect();
        let body = json!({ "locks": locks, "lease": "60s", "heartbeat_timeout": "1h" });
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(probes.request("POST", "/v1/lead", &body).as_bytes()).await.unwrap();
        streams.push(stream);
    }
    until("metrics are long", async || probes.get("/metrics").await.body.len() > 50_000).await;
    let mut all = Vec::new();
    for _ in 0..40 {
        all.push(unread(probes.address).await);
    }
    assert_eq!(probes.get("/healthz").await.body, "ok\n");
}

#[tokio::test]
async fn no_more_locks_are_claimed_than_are_allowed() {
    let world = World::start().await;
    let agent = agent(&world, &["--locks-max", "2"]).await;
    let _first = lead(&agent, "a", LONG).await;
    let mut second = lead(&agent, "b", LONG).await;
    gained(&mut second).await;
    let request = agent.request("POST", "/v1/acquire", &json!({ "lock": "c" }));
    let refused = agent.answer(&request).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.head.contains("retry-after: 1"), "{refused:?}");
    let said = "2 locks are claimed, the most that --locks-max allows";
    assert!(refused.body.contains(said), "{refused:?}");
}

#[tokio::test]
async fn a_socket_is_for_its_owner_alone() {
    let world = World::start().await;
    let path = std::env::temp_dir().join(format!("spindle-agent-{}.sock", std::process::id()));
    // Nothing is there unless a run of this test was killed.
    let _ = std::fs::remove_file(&path);
    // A killed agent leaves its socket.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let name = path.to_str().unwrap();
    let agent = world.spawn(&["agent", "--socket", name]);
    until("it listens", async || UnixStream::connect(&path).await.is_ok()).await;
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let shared = OnSocket::at(&world, own_path("grouped"), &["--socket-mode", "0660"]).await;
    let mode = std::fs::metadata(&shared.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let mut stream = UnixStream::connect(&path).await.unwrap();
    stream.write_all(b"GET /readyz HTTP/1.0\r\nHost: unix\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.0 200") && answer.ends_with("ok\n"), "{answer}");
    world.run(&["agent", "--socket", name]).await.ends(2).complains("another program listens");
    agent.signal(Signal::SIGTERM);
    agent.end().await.ends(0);
    assert!(!path.exists());
    std::fs::write(&path, "a file").unwrap();
    let refused = world.run(&["agent", "--socket", name]).await;
    assert_eq!((refused.code, path.exists()), (Some(2), true), "it is no socket: {refused:?}");
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn an_agent_that_ends_leaves_a_socket_that_is_anothers_by_then() {
    let world = World::start().await;
    let mut agent = OnSocket::start(&world, "replaced").await;
    std::fs::remove_file(&agent.socket).unwrap();
    let _other = std::os::unix::net::UnixListener::bind(&agent.socket).unwrap();
    agent.running.signal(Signal::SIGTERM);
    assert_eq!(agent.running.code().await, Some(0));
    assert!(UnixStream::connect(&agent.socket).await.is_ok(), "it is the other's");
}

#[tokio::test]
async fn an_agent_whose_socket_was_replaced_before_it_could_say_where_it_listens_ends() {
    let world = World::start().await;
    let stalled = world.emulator.inject(Fault::any().effect(Effect::Stall));
    let path = own_path("overtaken");
    let agent = world.spawn(&["agent", "--socket", path.to_str().unwrap()]);
    until("it listens", async || stalled.hits() > 0).await;
    std::fs::remove_file(&path).unwrap();
    let _other = std::os::unix::net::UnixListener::bind(&path).unwrap();
    stalled.remove();
    agent.end().await.ends(2).says_only("").complains("is another's by now");
    assert!(UnixStream::connect(&path).await.is_ok(), "it is the other's");
    std::fs::remove_file(&path).unwrap();
}

/// The status that a process of another user gets, by a client that each Debian has.
async fn status_for(uid: u32, agent: &OnSocket) -> String {
    let asks = "use IO::Socket::UNIX; my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die $!; \
                print $s \"GET /readyz HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n\"; print <$s>";
    let mut client = Command::new("perl");
    client.args(["-e", asks]).arg(&agent.socket).uid(uid).current_dir("/");
    let said = client.output().await.unwrap();
    String::from_utf8([said.stdout, said.stderr].concat()).unwrap()
}

/// How many of 30 connections of another user are cut before they ask for anything: two seconds after so many are,
/// or at last after a minute.
async fn cut_of(uid: u32, expected: u32, agent: &OnSocket) -> String {
    let asks = "use IO::Socket::UNIX; use IO::Select; my $expected = $ARGV[1]; \
                my @all = map { IO::Socket::UNIX->new(Peer => $ARGV[0]) or die $! } 1..30; \
                my ($cut, $left) = (0, IO::Select->new(@all)); my $end = time + ($expected ? 60 : 2); \
                while (time < $end) { for ($left->can_read(0.2)) { $cut++; $left->remove($_) } \
                if ($expected && $cut >= $expected) { $expected = 0; $end = time + 2 } } print $cut";
    let mut client = Command::new("perl");
    client
        .args(["-e", asks])
        .arg(&agent.socket)
        .arg(expected.to_string())
        .uid(uid)
        .current_dir("/");
    let said = client.output().await.unwrap();
    String::from_utf8([said.stdout, said.stderr].concat()).unwrap()
}

#[tokio::test]
async fn a_socket_serves_the_users_that_it_is_told_of() {
    let (uid, other) = (65_534, 65_533);
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root || Command::new("perl").arg("-e1").output().await.is_err() {
        eprintln!("nobody here can become another user");
        return;
    }
    let world = World::start().await;
    let own = OnSocket::start(&world, "own").await;
    let refused = status_for(uid, &own).await;
    assert!(refused.contains("Permission denied"), "its mode is 0600: {refused}");
    let allowed = uid.to_string();
    let shared = OnSocket::at(&world, own_path("shared"), &["--allow-uid", &allowed]).await;
    let served = status_for(uid, &shared).await;
    assert!(served.starts_with("HTTP/1.0 200"), "{served}");
    let refused = status_for(other, &shared).await;
    assert!(refused.starts_with("HTTP/1.0 403") && refused.contains("user 65533"), "{refused}");
    assert!(status_for(0, &shared).await.starts_with("HTTP/1.0 200"), "root may");
    let cut = cut_of(other, 22, &shared).await;
    assert_eq!(cut, "22", "of 30 that say nothing, only 8 are heard");
    assert_eq!(cut_of(uid, 0, &shared).await, "0");
}

#[tokio::test]
async fn other_hosts_reach_only_the_probes() {
    let world = World::start().await;
    world.run(&["agent", "--listen", "0.0.0.0:0"]).await.ends(2).complains("other hosts");
    let mut command = world.program(&["agent", "--listen", "127.0.0.1:0"]);
    command.args(["--probes", "127.0.0.1:0"]);
    let probes = Server::started(command).await;
    assert_eq!(probes.get("/healthz").await.body, "ok\n");
    assert_eq!(probes.get("/readyz").await.body, "ok\n");
    assert!(probes.get("/metrics").await.body.contains("spindle_agent_claims 0"));
    let refused = probes.send("POST", "/v1/acquire", &json!({ "lock": "a" })).await;
    assert_eq!(refused.0, 404);
    let taken = probes.address.to_string();
    let second = ["agent", "--listen", "127.0.0.1:0", "--probes", &taken];
    world.run(&second).await.ends(2).complains(&format!("--probes {taken}: "));
}

#[tokio::test]
async fn a_client_that_sends_its_body_after_the_head_is_answered() {
    let world = World::start().await;
    let agent = OnSocket::start(&world, "body").await;
    let head = "POST /v1/claims/none/heartbeat HTTP/1.0\r\nContent-Length: 2\r\n\r\n";
    let mut stream = UnixStream::connect(&agent.socket).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let early = timeout(Duration::from_millis(200), stream.readable()).await;
    assert!(early.is_err(), "it would be told of a broken connection");
    stream.write_all(b"{}").await.unwrap();
    let mut said = String::new();
    timeout(TIME_LIMIT, stream.read_to_string(&mut said)).await.unwrap().unwrap();
    assert!(said.starts_with("HTTP/1.0 404") && said.contains("no_such_claim"), "{said}");
}

#[tokio::test]
async fn a_probe_that_waits_no_longer_has_asked_for_the_next_one() {
    let world = World::start().await;
    let agent = agent(&world, &[]).await;
    let slow = Effect::Delay(Duration::from_secs(1));
    world.emulator.inject(Fault::any().effect(slow));
    let limit = Duration::from_millis(200);
    until("it is ready", async || {
        timeout(limit, agent.get("/readyz")).await.is_ok_and(|answer| answer.status == 200)
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_ends_leaves_no_lock_to_an_attempt_that_was_under_way() {
    let world = World::start().await;
    let agent = agent(&world, &[]).await;
    let late = Effect::DelayReply(Duration::from_secs(1));
    let commits = world.emulator.inject(Fault::on(Rpc::Commit).effect(late));
    let mut events = lead(&agent, "a", LONG).await;
    until("it takes the lock", async || commits.hits() > 0).await;
    agent.running.signal(Signal::SIGTERM);
    assert_eq!(events.named("ended").await["reason"], "ending");
    agent.running.end().await.ends(0);
    assert!(!world.is_held("a").await);
}

#[tokio::test]
async fn a_client_can_let_go_however_many_others_wait() {
    let world = World::start().await;
    let limited = ["-c", "ulimit -n 64; exec \"$@\"", "sh"];
    let program = world.program(&["agent", "--listen", "127.0.0.1:0"]);
    let agent = Server::started(under("sh", &limited, program)).await;
    let mut streams = Vec::new();
    loop {
        let mut events = lead(&agent, &format!("lock-{}", streams.len()), LONG).await;
        // One that is refused has no event.
        if events.next().await.is_none() {
            break;
        }
        streams.push(events);
    }
    assert!(streams.len() >= 6, "{}", streams.len());
    let body = json!({ "lock": "one-more" });
    let refused = agent.send("POST", "/v1/acquire", &body).await;
    let said = format!(
        "{} requests wait, the most there may be; raise the limit of open files",
        streams.len()
    );
    assert_eq!((refused.0, &refused.1["error"]), (503, &json!(said)));
    let held = gained(&mut streams[0]).await;
    assert_eq!(agent.send("DELETE", &claim(&held), &Value::Null).await.0, 200);
    until("its stream makes room", async || {
        agent.send("POST", "/v1/acquire", &body).await.0 == 200
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_was_killed_comes_back_on_its_port() {
    let world = World::start().await;
    let (_reserved, address) = reserved();
    let address = address.to_string();
    let start = || Server::started(world.program(&["agent", "--listen", &address]));
    let mut first = start().await;
    let mut events = lead(&first, "a", LONG).await;
    gained(&mut events).await;
    first.running.signal(Signal::SIGKILL);
    first.running.code().await;
    let second = start().await;
    assert_eq!(second.address.to_string(), address);
    gained(&mut lead(&second, "b", LONG).await).await;
    while events.next().await.is_some() {}
}

#[tokio::test]
async fn a_stream_that_waits_for_long_is_not_silent() {
    let world = World::start().await;
    let _held = world.hold("a", "somebody", LONG).await;
    let agent = agent(&world, &[]).await;
    let (host, body) =
        (agent.address, json!({ "locks": ["a"], "heartbeat_timeout": "1h" }).to_string());
    let mut stream = TcpStream::connect(host).await.unwrap();
    let head = format!("POST /v1/lead HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json");
    let request = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    let reading = async {
        while !text.contains("\n\n:\n\n") {
            let mut part = [0; 1024];
            let length = stream.read(&mut part).await.unwrap();
            assert!(length > 0, "the stream ended: {text}");
            text.push_str(std::str::from_utf8(&part[..length]).unwrap());
        }
    };
    timeout(TIME_LIMIT, reading).await.unwrap_or_else(|_| panic!("no comment"));
}
