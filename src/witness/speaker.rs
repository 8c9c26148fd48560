//! The orders for the agent, and the reason why none listens.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use tokio::sync::oneshot;

use crate::error::{Error, Kind};
use crate::system::Clock;
use crate::term::{AgentTrouble, Failure, say};

/// The agent's socket, and the table that the agent must work on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) socket: PathBuf,
    /// Not known of a client that was given.
    pub(crate) database: Option<String>,
    pub(crate) table: Arc<str>,
}

/// News of an instance.
#[derive(Debug)]
pub(super) enum Order {
    /// It is about to begin terms; answered once the agent will read it before the end of this process.
    Begins { instance: Instance, said: oneshot::Sender<()> },
    /// It holds nothing any more, and never will.
    Over { instance: Instance },
}

/// The key of an instance's row, and its nonce.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Instance {
    pub(super) lock: Arc<str>,
    pub(super) nonce: u64,
}

/// The side that speaks to the agent of a place, and notes what is wrong.
#[derive(Clone, Debug)]
pub(super) struct Speaker {
    pub(super) place: Place,
    pub(super) trouble: AgentTrouble,
}

impl Speaker {
    /// Notes why the agent releases nothing. The log says it once, until it is over or another reason comes.
    pub(super) fn failed(&self, why: &str) {
        let socket = self.place.socket.display().to_string();
        let error = Error::new(Kind::NoAgent { socket, why: why.to_string() });
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new =
            trouble.as_ref().is_none_or(|last| last.error.to_string() != error.to_string());
        let _counted = Failure::again(&mut trouble, Clock::system().now(), &error);
        drop(trouble);
        if is_new {
            say(
                || tracing::warn!(%error, "no agent would release for this process: its leases run out"),
            );
        }
    }

    /// Notes that the agent has accepted the stream.
    pub(super) fn accepted(&self) {
        let last = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).take();
        if last.is_some() {
            let socket = self.place.socket.display().to_string();
            say(|| tracing::info!(socket, "the agent releases for this process should it die"));
        }
    }
}
