//! `spindle serve` as a process, and requests to it.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::timeout;

use crate::world::{Running, TIME_LIMIT, World};

/// The program, serving.
pub struct Server {
    pub running: Running,
    pub address: SocketAddr,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Server {
    pub async fn start(world: &World, arguments: &[&str]) -> Server {
        let mut command = world.program(&["serve", "--listen", "127.0.0.1:0"]);
        command.args(arguments);
        Server::started(command).await
    }

    pub async fn started(mut command: Command) -> Server {
        command.stderr(Stdio::inherit());
        Server::listening(command).await
    }

    /// The program, whose complaints go where the command says.
    pub async fn listening(command: Command) -> Server {
        let mut running = Running::start(command);
        let line = running.line().await;
        let (_, rest) = line.split_once("http://").unwrap();
        let (address, _) = rest.split_once('/').unwrap();
        Server { running, address: address.parse().unwrap() }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &self.address.to_string()).await
    }

    pub async fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.get(path).await.body).unwrap()
    }

    pub async fn ask(&self, method: &str, path: &str, host: &str) -> Answer {
        self.answer(&format!("{method} {path} HTTP/1.0\r\nHost: {host}\r\n\r\n")).await
    }

    /// Sends JSON.
    pub async fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let answer = self.answer(&self.request(method, path, body)).await;
        (answer.status, serde_json::from_str(&answer.body).unwrap_or_default())
    }

    /// A stream of events that JSON asks for.
    pub async fn stream(&self, path: &str, body: &Value) -> Events {
        let stream = self.sent(self.request("POST", path, body).as_bytes()).await;
        Events(BufReader::new(stream).lines())
    }

    pub fn request(&self, method: &str, path: &str, body: &Value) -> String {
        let (host, body) = (self.address, body.to_string());
        let head = format!("{method} {path} HTTP/1.0\r\nHost: {host}\r\n");
        let kind = "Content-Type: application/json";
        format!("{head}{kind}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    /// Sends a whole request as it stands there.
    pub async fn answer(&self, request: &str) -> Answer {
        let mut stream = self.sent(request.as_bytes()).await;
        let mut text = String::new();
        timeout(TIME_LIMIT, stream.read_to_string(&mut text)).await.unwrap().unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_ascii_lowercase(), body: body.to_string() }
    }

    /// A stream of events, as a browser listens to one.
    pub async fn events(&self) -> Events {
        let request = format!("GET /events HTTP/1.0\r\nHost: {}\r\n\r\n", self.address);
        Events(BufReader::new(self.sent(request.as_bytes()).await).lines())
    }

    /// In the old version of HTTP a body is what comes until the connection ends.
    async fn sent(&self, request: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // A request that is refused may not be read to its end.
        let _ = stream.write_all(request).await;
        stream
    }
}

pub struct Events(Lines<BufReader<TcpStream>>);

impl Events {
    /// The next event's name and data; none at the end.
    pub async fn next(&mut self) -> Option<(String, Value)> {
        timeout(TIME_LIMIT, self.read()).await.unwrap_or_else(|_| panic!("no event, and no end"))
    }

    /// Comments are no events.
    async fn read(&mut self) -> Option<(String, Value)> {
        let mut name = String::new();
        loop {
            let line = self.0.next_line().await.ok()??;
            if let Some(event) = line.strip_prefix("event: ") {
                name = event.to_string();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((name, serde_json::from_str(data).unwrap()));
            }
        }
    }

    /// The next event of this name.
    pub async fn named(&mut self, name: &str) -> Value {
        self.until(name, |event, _| event == name).await
    }

    /// The first event that is so.
    pub async fn until(&mut self, what: &str, is_so: impl Fn(&str, &Value) -> bool) -> Value {
        let limit = tokio::time::Instant::now() + TIME_LIMIT;
        while tokio::time::Instant::now() < limit {
            let (name, data) = self.next().await.expect(what);
            if is_so(&name, &data) {
                return data;
            }
        }
        panic!("no event: {what}");
    }

    /// Reads whatever comes for a while, and says how many events it was.
    pub async fn count_for(&mut self, time: Duration) -> usize {
        let mut count = 0;
        let counting = async {
            while self.next().await.is_some() {
                count += 1
            }
        };
        let _ = timeout(time, counting).await;
        count
    }
}
