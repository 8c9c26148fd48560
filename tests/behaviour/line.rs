//! A process's line to the server. It can fall silent without a word: its ends stay open and nothing
//! passes.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use spindle_emulator::Emulator;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;

use crate::world::DATABASE;

/// A line; clones are the same one.
#[derive(Clone)]
pub struct Line {
    endpoint: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    server: Mutex<String>,
    /// Those of the connections before this one are swallowed, and this one.
    swallowed: AtomicU64,
    swallowed_alone: AtomicU64,
    is_cut: AtomicBool,
    accepted: AtomicU64,
    brought: AtomicU64,
    sessions: Mutex<BTreeSet<String>>,
}

impl Line {
    /// Returns a line to this server, carried by this runtime.
    pub fn to(spanner: &Emulator, runtime: &Handle) -> Line {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State::default());
        let line = Line { endpoint, state: Arc::clone(&state) };
        line.leads_to(spanner.address());
        let _runtime = runtime.enter();
        let listener = TcpListener::from_std(listener).unwrap();
        tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                let number = state.accepted.fetch_add(1, Ordering::SeqCst) + 1;
                tokio::spawn(Arc::clone(&state).carry(near, number));
            }
        });
        line
    }

    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// New connections lead to this address from here on.
    pub fn leads_to(&self, address: SocketAddr) {
        *self.state.server.lock().unwrap() = address.to_string();
    }

    /// Swallows what flows on the connections of this moment; new ones work.
    pub fn swallow(&self) {
        self.state.swallowed.store(self.accepted(), Ordering::SeqCst);
    }

    /// Swallows what flows on this one alone, counted from 1.
    pub fn swallow_one(&self, connection: u64) {
        self.state.swallowed_alone.store(connection, Ordering::SeqCst);
    }

    /// Swallows everything, also on new connections.
    pub fn cut(&self) {
        self.state.is_cut.store(true, Ordering::SeqCst);
    }

    /// Lets new connections through; what flows on those before stays lost.
    pub fn restore(&self) {
        self.swallow();
        self.state.is_cut.store(false, Ordering::SeqCst);
    }

    /// Returns how many connections were made.
    pub fn accepted(&self) -> u64 {
        self.state.accepted.load(Ordering::SeqCst)
    }

    /// Returns how many bytes of the server's it has carried.
    #[allow(dead_code, reason = "for the laws of fleets")]
    pub fn brought(&self) -> u64 {
        self.state.brought.load(Ordering::SeqCst)
    }

    /// Returns true if this session was made through it.
    pub fn has_made(&self, session: &str) -> bool {
        self.state.sessions.lock().unwrap().contains(session)
    }
}

impl State {
    async fn carry(self: Arc<State>, near: TcpStream, number: u64) {
        let server = self.server.lock().unwrap().clone();
        let Ok(far) = TcpStream::connect(server).await else { return };
        for stream in [&near, &far] {
            stream.set_nodelay(true).unwrap();
        }
        let ((from_near, to_near), (from_far, to_far)) = (near.into_split(), far.into_split());
        let there = AtomicU64::new(0);
        tokio::join!(
            self.pass(from_near, to_far, number, &there),
            self.pass(from_far, to_near, number, &self.brought)
        );
    }

    async fn pass(
        &self,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
        number: u64,
        passed: &AtomicU64,
    ) {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(read @ 1..) = from.read(&mut bytes).await {
            if self.swallows(number) {
                continue;
            }
            self.note_session(&bytes[..read]);
            passed.fetch_add(read as u64, Ordering::SeqCst);
            if to.write_all(&bytes[..read]).await.is_err() {
                return;
            }
        }
    }

    fn swallows(&self, connection: u64) -> bool {
        self.is_cut.load(Ordering::SeqCst)
            || connection <= self.swallowed.load(Ordering::SeqCst)
            || connection == self.swallowed_alone.load(Ordering::SeqCst)
    }

    /// Notes the session that these bytes name. On the wire a text follows its length.
    fn note_session(&self, bytes: &[u8]) {
        let sessions = format!("{DATABASE}/sessions/");
        let at = bytes.windows(sessions.len()).position(|text| text == sessions.as_bytes());
        if let Some(at) = at.filter(|at| *at > 0)
            && let Some(name) = bytes.get(at..at + usize::from(bytes[at - 1]))
        {
            let name = String::from_utf8_lossy(name).into_owned();
            self.sessions.lock().unwrap().insert(name);
        }
    }
}
