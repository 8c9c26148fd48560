//! Counts the requests of a process to a server of somebody else, on their way.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use crate::parts::Failure;

/// The length of what a client of HTTP/2 sends before its first frame, and of a frame's header.
const PREFACE: u64 = 24;
const HEADER: usize = 9;
/// The kinds of frame with which a request begins, and of the one that follows.
const HEADERS: u8 = 1;
const DATA: u8 = 0;
/// As much of a request tells its kind, and if it is the one before it once more.
const BEGINNING: u64 = 1 << 14;
/// A poll that says the same so soon is a repeat: the next one asks for other locks.
const SOON: Duration = Duration::from_millis(200);

/// Another address of a server, which counts.
pub struct Relay {
    pub endpoint: String,
    counted: Arc<Mutex<Counted>>,
}

/// How many requests of each kind have begun.
pub type Counts = [u64; Kind::ALL.len()];

#[derive(Default)]
struct Counted {
    counts: Counts,
    last_poll: Option<(Vec<u8>, Instant)>,
}

/// The kinds of request that a process sends while nobody begins or releases.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// The read or the commit of heartbeats: I8 excepts them and their repeats.
    Heartbeats,
    Polls,
    /// Polls that are sent once more as they were.
    Repeats,
    Others,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Heartbeats, Kind::Polls, Kind::Repeats, Kind::Others];

    /// A heartbeat reads the token, and not the heartbeat; it writes the heartbeat, and not the
    /// token. A poll reads them all.
    fn of(beginning: &[u8]) -> Kind {
        let names = |word: &str| beginning.windows(word.len()).any(|part| part == word.as_bytes());
        match (names("heartbeat"), names("token"), names("lease_ms")) {
            // A release reads which takeover row it is to delete.
            (false, true, false) if names("displaced") => Kind::Others,
            (true, false, false) | (false, true, false) => Kind::Heartbeats,
            (true, true, true) => Kind::Polls,
            _ => Kind::Others,
        }
    }
}

impl Counted {
    fn add(&mut self, beginning: Vec<u8>) {
        let mut kind = Kind::of(&beginning);
        if let Kind::Polls = kind {
            let last = self.last_poll.replace((beginning, Instant::now()));
            let is_again = last.is_some_and(|(last, at)| {
                self.last_poll.as_ref().is_some_and(|(now, _)| *now == last) && at.elapsed() < SOON
            });
            kind = if is_again { Kind::Repeats } else { kind };
        }
        self.counts[kind as usize] += 1;
    }
}

impl Relay {
    /// Listens for the clients of the server at `endpoint`, until the runtime is gone.
    pub async fn start(endpoint: &str) -> Result<Relay, Failure> {
        let server = endpoint.trim_start_matches("http://").to_string();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let relay = Relay { endpoint, counted: Arc::default() };
        let counted = Arc::clone(&relay.counted);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(relays(client, server.clone(), Arc::clone(&counted)));
            }
        });
        Ok(relay)
    }

    /// How many requests of each kind have begun so far.
    pub fn requests(&self) -> Counts {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).counts
    }
}

async fn relays(
    client: TcpStream,
    server: String,
    counted: Arc<Mutex<Counted>>,
) -> Result<(), Failure> {
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((client_says, mut client), (mut server_says, server)) =
        (client.into_split(), server.into_split());
    // Either side may hang up.
    tokio::select! {
        done = count(client_says, server, &counted) => done?,
        done = copy(&mut server_says, &mut client) => drop(done?),
    }
    Ok(())
}

/// Passes frames on, and counts requests by the first bytes of what they say.
async fn count(
    from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin,
    counted: &Mutex<Counted>,
) -> Result<(), Failure> {
    let mut from = tokio::io::BufReader::with_capacity(1 << 16, from);
    let mut to = tokio::io::BufWriter::with_capacity(1 << 16, to);
    copy(&mut (&mut from).take(PREFACE), &mut to).await?;
    let mut begun = HashSet::new();
    loop {
        if from.buffer().len() < HEADER {
            to.flush().await?;
        }
        let mut header = [0; HEADER];
        from.read_exact(&mut header).await?;
        to.write_all(&header).await?;
        let [a, b, c, kind, _flags, stream @ ..] = header;
        let mut length = u64::from(u32::from_be_bytes([0, a, b, c]));
        if kind == HEADERS {
            begun.insert(stream);
        } else if kind == DATA && begun.remove(&stream) {
            let mut beginning = Vec::new();
            (&mut from).take(length.min(BEGINNING)).read_to_end(&mut beginning).await?;
            to.write_all(&beginning).await?;
            length -= beginning.len() as u64;
            counted.lock().unwrap_or_else(PoisonError::into_inner).add(beginning);
        }
        copy(&mut (&mut from).take(length), &mut to).await?;
    }
}
