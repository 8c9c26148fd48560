//! Ways into a server, each of which can be shut.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::Mutex;

use crate::admin::Admin;
use crate::server::Listening;
use crate::service::Core;

/// A port of an emulator for one client alone, so that a test can cut that client off, as if its
/// machine had died, and let it back.
///
/// It leads to the same databases as every other port, and closes when it is dropped.
pub struct Door {
    core: Arc<Core>,
    admin: Arc<Admin>,
    address: SocketAddr,
    /// `None` while it is shut.
    listening: Mutex<Option<Listening>>,
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Door {
    /// Opens a door at this address; port 0 lets the system pick a free one.
    pub(crate) fn open(
        core: Arc<Core>,
        admin: Arc<Admin>,
        address: SocketAddr,
    ) -> io::Result<Door> {
        let listening = Listening::start(&core, &admin, address)?;
        let address = listening.address;
        Ok(Door { core, admin, address, listening: Mutex::new(Some(listening)) })
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What its client takes as its endpoint: `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Breaks every connection through it and refuses new ones. What the client has open on the
    /// server stays open.
    pub async fn cut_off(&self) {
        if let Some(listening) = self.listening.lock().await.take() {
            listening.close().await;
        }
    }

    /// Takes connections again, on the same port. Doing so twice changes nothing.
    ///
    /// # Errors
    /// Somebody else has taken the port meanwhile.
    pub async fn let_back(&self) -> io::Result<()> {
        let mut listening = self.listening.lock().await;
        if listening.is_none() {
            *listening = Some(Listening::start(&self.core, &self.admin, self.address)?);
        }
        Ok(())
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Some(listening) = self.listening.get_mut() {
            listening.shut();
        }
    }
}
