//! A contender that leads through `spindle agent`, as a program in any language does: it speaks HTTP,
//! checks the last deadline that it was told, and fences its writes.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use spindle::{Fence, FencingToken};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::{interval, sleep, timeout};

use super::claims::{Held, say_who_holds};
use super::{Order, Worker};
use crate::history::{Event, Failure, must, now};

/// The agent lets the lease run out after so long a silence.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(1);
const HEARTBEAT: Duration = Duration::from_millis(250);
/// From the end of a stream to the next one.
const PAUSE: Duration = Duration::from_millis(200);
/// An agent that doesn't answer by then may be stopped.
const LIMIT: Duration = Duration::from_secs(2);

impl Worker {
    pub(super) async fn lead(mut self, agent: SocketAddr) -> Result<(), Failure> {
        let leading = Leading::default();
        say_who_holds(leading.clone(), Arc::clone(&self.journal));
        let (counters, held) = (Arc::clone(&self.counters), leading.clone());
        let fence = move || held.term().map(|term| term.fence);
        tokio::spawn(async move { counters.write_while_held(0, fence).await });
        loop {
            // However a stream ends, this worker believes its last deadline: that must do no harm.
            if let Ok(true) = self.follow(agent, &leading).await {
                return Ok(());
            }
            tokio::select! {
                order = self.orders.recv() => {
                    if self.lets_go(order, &leading) {
                        return Ok(());
                    }
                }
                () = sleep(PAUSE) => {}
            }
        }
    }

    /// Asks for the lock, and obeys its events and the orders. True once it has left.
    async fn follow(&mut self, agent: SocketAddr, leading: &Leading) -> Result<bool, Failure> {
        let wanted = json!({
            "locks": [self.target.key(0)],
            "id": self.id,
            "lease": format!("{}ms", self.target.lease().as_millis()),
            "heartbeat_timeout": format!("{}ms", HEARTBEAT_TIMEOUT.as_millis()),
        });
        let stream = send(agent, "POST", "/v1/lead", &wanted).await?;
        let mut lines = BufReader::new(stream).lines();
        let mut heartbeats = interval(HEARTBEAT);
        let (mut event, mut claim) = (String::new(), String::new());
        // Until the term that was resigned is told as lost, it is nobody's, whatever else is told.
        let mut is_resigning = false;
        loop {
            tokio::select! {
                line = lines.next_line() => {
                    let Some(line) = line? else { return Ok(false) };
                    if let Some(name) = line.strip_prefix("event: ") {
                        event = name.to_string();
                    } else if let Some(data) = line.strip_prefix("data: ") {
                        let data: Value = serde_json::from_str(data)?;
                        if let Some(secret) = data["claim"].as_str() {
                            claim = format!("/v1/claims/{secret}");
                        }
                        is_resigning &= event != "lost";
                        if !is_resigning {
                            self.told(&event, &data, leading)?;
                        }
                    }
                }
                order = self.orders.recv() => {
                    let has_left = self.lets_go(order, leading);
                    if has_left {
                        // Unanswered, it leaves the lock to its lease.
                        let _ = ask(agent, "DELETE", &claim, &Value::Null).await;
                        return Ok(true);
                    }
                    let answer = ask(agent, "POST", &format!("{claim}/resign"), &json!({})).await?;
                    is_resigning = answer.contains("true");
                }
                _ = heartbeats.tick() => {
                    let path = format!("{claim}/heartbeat");
                    tokio::spawn(async move { ask(agent, "POST", &path, &json!({})).await });
                }
            }
        }
    }

    fn told(&self, event: &str, data: &Value, leading: &Leading) -> Result<(), Failure> {
        match event {
            "gained" => {
                let fence: Fence = serde_json::from_value(data["fence"].clone())?;
                *leading.lock() = Some(Term { fence, until: deadline(data)? });
                writeln!(io::stdout(), "holds")?;
            }
            "renewed" => {
                let (token, until) = (token(data)?, deadline(data)?);
                leading.lock().iter_mut().filter(|term| term.fence.token() == token).for_each(
                    |term| {
                        term.until = term.until.max(until);
                    },
                );
            }
            "lost" => {
                let token = token(data)?;
                leading.lock().take_if(|term| term.fence.token() == token);
                let why = match data["reason"].as_str() {
                    Some(reason @ ("superseded" | "let_go")) => reason.to_string(),
                    // Its deadline still keeps the others away.
                    reason => format!("Expired: {reason:?}"),
                };
                self.journal.write_of(0, Event::Lost { token: token.as_nanoseconds(), why })?;
                writeln!(io::stdout(), "lost")?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends the belief first. True if this worker leaves.
    fn lets_go(&self, order: Option<Order>, leading: &Leading) -> bool {
        must(self.journal.write(Event::LetsGo));
        *leading.lock() = None;
        !matches!(order, Some(Order::Resign))
    }
}

/// The term as it was told last.
#[derive(Clone)]
struct Term {
    fence: Fence,
    /// In nanoseconds of the clock of the history.
    until: u64,
}

#[derive(Clone, Default)]
struct Leading(Arc<Mutex<Option<Term>>>);

impl Leading {
    fn lock(&self) -> MutexGuard<'_, Option<Term>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The term, if its deadline is not over.
    fn term(&self) -> Option<Term> {
        let term = self.lock().clone();
        term.filter(|term| now() < term.until)
    }
}

impl Held for Leading {
    fn count(&self) -> usize {
        1
    }

    fn token(&self, _lock: usize) -> Option<FencingToken> {
        self.term().map(|term| term.fence.token())
    }

    fn remaining(&self, _lock: usize, token: FencingToken) -> Option<Duration> {
        let term = self.term().filter(|term| term.fence.token() == token)?;
        Some(Duration::from_nanos(term.until.saturating_sub(now())))
    }
}

fn token(data: &Value) -> Result<FencingToken, Failure> {
    Ok(serde_json::from_value(data["token"].clone())?)
}

fn deadline(data: &Value) -> Result<u64, Failure> {
    let clock = if cfg!(any(target_os = "linux", target_os = "android")) {
        "boottime_ns"
    } else {
        "monotonic_ns"
    };
    Ok(data["deadline"][clock].as_str().ok_or("an event without a deadline")?.parse()?)
}

/// Returns the text of an answer.
async fn ask(agent: SocketAddr, method: &str, path: &str, body: &Value) -> io::Result<String> {
    let asking = async {
        let mut answer = String::new();
        send(agent, method, path, body).await?.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    timeout(LIMIT, asking).await?
}

/// In the old version of HTTP an answer's end is the connection's.
async fn send(agent: SocketAddr, method: &str, path: &str, body: &Value) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(agent).await?;
    let body = body.to_string();
    let head =
        format!("{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json");
    let request = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await?;
    Ok(stream)
}
