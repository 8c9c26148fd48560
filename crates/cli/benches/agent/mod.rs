//! The cost of `spindle agent`: 1,000 locks of 100 connections, beside the library alone.

use std::process::Stdio;
use std::time::Duration;

use spindle::LockTable;
use spindle_emulator::Emulator;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::{DATABASE, emulator, names, program};

const CONNECTIONS: usize = 100;
const LOCKS: usize = 1_000;

/// How long requests are counted: some heartbeats of each lock.
const COUNTED: Duration = Duration::from_secs(30);

pub async fn measure() {
    let spanner = emulator(0).await;
    let mut command = program(&spanner, &["agent", "--listen", "127.0.0.1:0"]);
    let mut agent = command.spawn().unwrap();
    let mut lines = BufReader::new(agent.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    let address = line.split('/').nth(2).unwrap().to_string();
    let idle_kib = resident_kib(&agent);
    let mut streams = Vec::new();
    for names in names(LOCKS).chunks(LOCKS / CONNECTIONS) {
        streams.push(lead(&address, names).await);
    }
    for stream in &mut streams {
        for _ in 0..LOCKS / CONNECTIONS {
            event(stream, "gained").await;
        }
    }
    sleep(Duration::from_secs(10)).await;
    let requests = counted(&spanner).await;
    let kib = resident_kib(&agent);
    println!(
        "agent: ok locks={LOCKS} connections={CONNECTIONS} requests_per_second={requests:.2} \
         idle_kib={idle_kib} resident_kib={kib}"
    );
    drop(streams);
    losses(&address).await;
    agent.kill().await.unwrap();
    alone().await;
}

/// The library in a program that does nothing else.
async fn alone() {
    let spanner = emulator(0).await;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env("HOLD_ALONE", spanner.endpoint())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("starts"));
    let idle_kib = resident_kib(&child);
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("holds"));
    sleep(Duration::from_secs(10)).await;
    let requests = counted(&spanner).await;
    let kib = resident_kib(&child);
    println!(
        "library-alone: ok locks={LOCKS} requests_per_second={requests:.2} idle_kib={idle_kib} \
         resident_kib={kib}"
    );
    child.kill().await.unwrap();
}

pub async fn hold_alone(endpoint: &str) {
    let table = LockTable::connect_to(endpoint, DATABASE, "locktable");
    table.list().next().await.unwrap();
    println!("starts");
    let acquire = |name: String| {
        let lock = table.lock(name).build().unwrap();
        tokio::spawn(async move { lock.acquire().await.unwrap() })
    };
    let acquiring: Vec<_> = names(LOCKS).into_iter().map(acquire).collect();
    let mut guards = Vec::new();
    for acquired in acquiring {
        guards.push(acquired.await.unwrap());
    }
    println!("holds");
    std::future::pending::<()>().await;
}

/// From a request to resign, which ends the term before anything is sent to Spanner, to `lost`.
async fn losses(address: &str) {
    let mut times = Vec::new();
    for n in 0..100 {
        let name = format!("lost-{n}");
        let mut stream = lead(address, &[name]).await;
        let data = event(&mut stream, "gained").await;
        let gained: serde_json::Value = serde_json::from_str(&data).unwrap();
        let path = format!("/v1/claims/{}/resign", gained["claim"].as_str().unwrap());
        let began = Instant::now();
        let mut resigning = post(address, &path, "{}").await;
        event(&mut stream, "lost").await;
        times.push(began.elapsed());
        let mut answer = String::new();
        resigning.read_to_string(&mut answer).await.unwrap();
    }
    times.sort();
    println!(
        "agent-loss: ok count={} median_us={} p99_us={}",
        times.len(),
        times[times.len() / 2].as_micros(),
        times[times.len() * 99 / 100].as_micros()
    );
}

type Stream = Lines<BufReader<TcpStream>>;

async fn lead(address: &str, names: &[String]) -> Stream {
    let body = serde_json::json!({ "locks": names }).to_string();
    BufReader::new(post(address, "/v1/lead", &body).await).lines()
}

async fn post(address: &str, path: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let kind = "Content-Type: application/json";
    let length = body.len();
    let head =
        format!("POST {path} HTTP/1.0\r\nHost: {address}\r\n{kind}\r\nContent-Length: {length}");
    stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.unwrap();
    stream
}

/// The data of the next event of this name.
async fn event(stream: &mut Stream, name: &str) -> String {
    let name = format!("event: {name}");
    while stream.next_line().await.unwrap().unwrap() != name {}
    stream.next_line().await.unwrap().unwrap().split_off("data: ".len())
}

async fn counted(spanner: &Emulator) -> f64 {
    spanner.requests().reset();
    sleep(COUNTED).await;
    spanner.requests().total() as f64 / COUNTED.as_secs_f64()
}

fn resident_kib(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id().unwrap())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
