//! Ports of a server, each of which can be shut.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use tokio::sync::Mutex;

use crate::server::{Answering, Listening, Reserved};
use crate::service::Core;

/// A port of an emulator for one client alone. So a test can cut that client off, as if its machine
/// had died, and let it back.
///
/// It leads to the same databases as every other port, and closes when it is dropped. While the
/// emulator is paused, it is shut like all of them.
pub struct Port(Arc<Listener>);

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl Port {
    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Returns the text that its client takes as its endpoint: `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Breaks every connection through it and refuses new ones. The client's transactions stay open.
    /// When this returns, none of its requests is under way any more but those that a fault applies late.
    ///
    /// # Cancellation safety
    /// Once it has begun, the port is shut though nobody waits for it.
    pub async fn cut_off(&self) {
        self.0.shut(Reason::CutOff).await;
    }

    /// Swallows what flows on the connections that it has now, in both directions; see
    /// [`Emulator::swallow_connections`](crate::Emulator::swallow_connections). Returns how many those are.
    pub async fn swallow_connections(&self) -> usize {
        self.0.swallow().await
    }

    /// Takes connections again, on the same port. Doing so twice changes nothing. Behind a paused
    /// emulator it takes them once that resumes.
    ///
    /// # Errors
    /// Somebody else has taken the port meanwhile. On Linux only who names it can.
    pub async fn restore(&self) -> io::Result<()> {
        self.0.open(Reason::CutOff).await
    }
}

/// Every port of one server, the main one included.
pub(crate) struct Ports {
    core: Arc<Core>,
    answering: Answering,
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    paused: bool,
    listeners: Vec<Weak<Listener>>,
}

impl Ports {
    /// Returns a server without ports.
    pub fn new(core: Arc<Core>, answering: Answering) -> Ports {
        Ports { core, answering, all: Mutex::default() }
    }

    /// Opens a port at this address; port 0 lets the system pick a free one.
    pub async fn add(&self, address: SocketAddr) -> io::Result<Port> {
        let mut all = self.all.lock().await;
        let reserved = Reserved::new(address)?;
        let answering = Arc::clone(&self.answering);
        let listening = Listening::start(&self.core, reserved.address, answering)?;
        let address = listening.address;
        let state = State { listening: Some(listening), cut_off: false, paused: false };
        let (core, answering) = (Arc::clone(&self.core), Arc::clone(&self.answering));
        let state = Mutex::new(state);
        let listener = Arc::new(Listener { core, answering, address, _reserved: reserved, state });
        if all.paused {
            listener.shut(Reason::Paused).await;
        }
        all.listeners.retain(|listener| listener.strong_count() > 0);
        all.listeners.push(Arc::downgrade(&listener));
        Ok(Port(listener))
    }

    /// Swallows the connections of all of them, and returns how many those are.
    pub async fn swallow(&self) -> usize {
        let all = self.all.lock().await;
        let mut connections = 0;
        for listener in all.listeners.iter().filter_map(Weak::upgrade) {
            connections += listener.swallow().await;
        }
        connections
    }

    /// Shuts all of them.
    pub async fn pause(&self) {
        let mut all = self.all.lock().await;
        all.paused = true;
        for listener in all.listeners.iter().filter_map(Weak::upgrade) {
            listener.shut(Reason::Paused).await;
        }
    }

    /// Opens those again that nobody has cut off.
    ///
    /// # Errors
    /// Somebody else has taken a port meanwhile; those behind it stay shut.
    pub async fn resume(&self) -> io::Result<()> {
        let mut all = self.all.lock().await;
        for listener in all.listeners.iter().filter_map(Weak::upgrade) {
            listener.open(Reason::Paused).await?;
        }
        all.paused = false;
        Ok(())
    }
}

/// Why a port is shut.
#[derive(Clone, Copy)]
enum Reason {
    /// A test has cut off its client.
    CutOff,
    /// The whole server is paused.
    Paused,
}

struct Listener {
    core: Arc<Core>,
    answering: Answering,
    address: SocketAddr,
    _reserved: Reserved,
    state: Mutex<State>,
}

struct State {
    /// `None` while it is shut.
    listening: Option<Listening>,
    cut_off: bool,
    paused: bool,
}

impl State {
    fn flag(&mut self, reason: Reason) -> &mut bool {
        match reason {
            Reason::CutOff => &mut self.cut_off,
            Reason::Paused => &mut self.paused,
        }
    }
}

impl Listener {
    async fn swallow(&self) -> usize {
        let state = self.state.lock().await;
        state.listening.as_ref().map_or(0, |listening| listening.swallow(&self.core))
    }

    async fn shut(&self, reason: Reason) {
        let mut state = self.state.lock().await;
        *state.flag(reason) = true;
        if let Some(listening) = state.listening.take() {
            listening.close().await;
        }
    }

    async fn open(&self, reason: Reason) -> io::Result<()> {
        let mut state = self.state.lock().await;
        *state.flag(reason) = false;
        if state.listening.is_none() && !state.cut_off && !state.paused {
            let answering = Arc::clone(&self.answering);
            let listening = Listening::start(&self.core, self.address, answering);
            // A port that cannot open is as shut as before.
            *state.flag(reason) = listening.is_err();
            state.listening = Some(listening?);
        }
        Ok(())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(listening) = &self.state.get_mut().listening {
            listening.shut();
        }
    }
}
