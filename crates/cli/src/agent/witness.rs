//! Processes that hold locks by themselves, and have the agent release for them once they are gone.
//!
//! Each has one stream. It names itself, and then each instance before its first attempt, and once it is gone.

use std::collections::HashSet;
use std::error::Error;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, BodyDataStream};
use axum::extract::State;
use axum::response::Response;
use axum::response::sse::Event;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use spindle::operate::ExitedInstance;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::StreamExt as _;

use super::claims::Claims;
use super::exits;
use super::refusal::{Result, bad, is_ending};
use super::request::{BODY_LIMIT, no_socket};
use super::routes::{Shared, stream};
use crate::serve::peer::{Exit, Peer};

/// The form of the lines that this agent knows.
const VERSION: u32 = 1;

/// Bytes of a line: the longest name, each of its characters escaped.
const LINE_BYTES_MAX: usize = 32 * 1024;

/// Instances of one process.
const INSTANCES_MAX: usize = 100_000;

/// A process that dies closes its files just before its pidfd tells. Of one that goes on living nothing is kept:
/// its next stream says all again.
const EXIT_LIMIT: Duration = Duration::from_secs(5);

/// The first line.
#[derive(Debug, Deserialize)]
struct Process {
    database: String,
    table: String,
    pid: u32,
}

#[derive(Debug, Deserialize)]
struct Version {
    v: u32,
}

/// Each other line.
#[derive(Debug, Deserialize)]
struct Line {
    lock: String,
    nonce: String,
    /// True once the instance is gone.
    #[serde(default)]
    gone: bool,
}

/// Accepts the stream of a process of this table; it lasts as long as the process keeps it.
pub async fn witness(
    State(shared): State<Shared>,
    peer: Option<Extension<Peer>>,
    body: Body,
) -> Result<Response> {
    let Some(Extension(peer)) = peer else { return Err(no_socket("witness")) };
    let mut lines = Lines::of(body);
    let first = match timeout(BODY_LIMIT, lines.next()).await {
        Ok(Ok(line)) => line,
        Ok(Err(end)) => return Err(bad(format!("body: {end:?} before the first line"))),
        Err(_) => return Err(bad("body: no first line in time")),
    };
    let Version { v } = parse(&first)?;
    if v != VERSION {
        return Err(bad(format!(
            "v: {v} there and {VERSION} here: another version of the library"
        )));
    }
    let Process { database, table, pid } = parse(&first)?;
    check("database", &database, &shared.database)?;
    check("table", &table, &shared.table)?;
    let exit = peer.exit(pid).map_err(bad)?;
    if shared.claims.ending.is_cancelled() {
        return Err(is_ending());
    }
    let permit = shared.waits()?;
    let (open, events) = mpsc::channel(1);
    let process =
        Witnessed { claims: Arc::clone(&shared.claims), pid, exit, instances: HashSet::new() };
    tokio::spawn(process.watch(lines, open));
    Ok(stream(events, permit))
}

fn check(what: &str, there: &str, here: &str) -> Result<()> {
    if there == here {
        return Ok(());
    }
    Err(bad(format!("{what}: `{there}` there and `{here}` here")))
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T> {
    serde_json::from_slice(line).map_err(|error| bad(format!("line: {error}")))
}

/// A process, and its instances that contend or hold.
struct Witnessed {
    claims: Arc<Claims>,
    pid: u32,
    exit: Exit,
    instances: HashSet<ExitedInstance>,
}

impl Witnessed {
    /// Takes notes until the stream ends, and releases if the process has ended, too. As long as `open` lives, so
    /// does the answer.
    async fn watch(mut self, mut lines: Lines, open: mpsc::Sender<Event>) {
        let over = self.claims.over.clone();
        let end = loop {
            let line = tokio::select! {
                () = over.cancelled() => return,
                line = lines.next() => line,
            };
            match line {
                Ok(line) => match parse(&line) {
                    Ok(line) => self.note(&line),
                    Err(refusal) => break End::Malformed(refusal.text()),
                },
                Err(end) => break end,
            }
            if self.instances.len() > INSTANCES_MAX {
                break End::Malformed(format!("more than {INSTANCES_MAX} instances"));
            }
        };
        let pid = self.pid;
        match end {
            End::OfFile => {}
            // The answer ends with the connection.
            End::OfRequest => tokio::select! {
                () = over.cancelled() => return,
                () = open.closed() => {}
            },
            End::Malformed(why) => {
                tracing::warn!(pid, why, "a process is not watched any more");
                return;
            }
        }
        if timeout(EXIT_LIMIT, self.exit.exited()).await.is_err() {
            return;
        }
        let instances = self.instances.drain().collect::<Vec<_>>();
        self.claims.watched(-signed(instances.len()));
        exits::release(&self.claims, pid, instances).await;
    }

    fn note(&mut self, line: &Line) {
        // One that can't be read can't be in a row.
        let Some(instance) = ExitedInstance::parse(&line.lock, &line.nonce) else { return };
        if line.gone {
            self.claims.watched(-i64::from(self.instances.remove(&instance)));
        } else {
            self.claims.watched(i64::from(self.instances.insert(instance)));
        }
    }
}

impl Drop for Witnessed {
    fn drop(&mut self) {
        self.claims.watched(-signed(self.instances.len()));
    }
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The end of the lines.
#[derive(Debug)]
enum End {
    /// Nobody has the other end of the connection any more.
    OfFile,
    /// The client has ended its request, and keeps the connection.
    OfRequest,
    Malformed(String),
}

/// The lines of a body, as they come.
struct Lines {
    body: BodyDataStream,
    unread: Vec<u8>,
}

impl Lines {
    fn of(body: Body) -> Lines {
        Lines { body: body.into_data_stream(), unread: Vec::new() }
    }

    /// Returns the next line. Cancellation safe.
    async fn next(&mut self) -> std::result::Result<Vec<u8>, End> {
        loop {
            if let Some(length) = self.unread.iter().position(|byte| *byte == b'\n') {
                let rest = self.unread.split_off(length + 1);
                return Ok(std::mem::replace(&mut self.unread, rest));
            }
            if self.unread.len() > LINE_BYTES_MAX {
                return Err(End::Malformed(format!("a line of more than {LINE_BYTES_MAX} bytes")));
            }
            match self.body.next().await {
                Some(Ok(bytes)) => self.unread.extend_from_slice(&bytes),
                Some(Err(error)) if is_end_of_file(&error) => return Err(End::OfFile),
                Some(Err(error)) => return Err(End::Malformed(error.to_string())),
                None => return Err(End::OfRequest),
            }
        }
    }
}

/// Hyper wraps the system's error.
fn is_end_of_file(error: &axum::Error) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            return matches!(
                error.kind(),
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
            );
        }
        cause = error.source();
    }
    false
}
