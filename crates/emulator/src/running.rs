//! The running server, as its handle and its outside control share it.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;

use crate::admin::Admin;
use crate::engine::{self, Database, Dialect};
use crate::port::{Port, Ports};
use crate::service::Core;

/// The state that an emulator's handle and its control service share.
pub(crate) struct Running {
    pub core: Arc<Core>,
    pub admin: Arc<Admin>,
    pub port: Port,
    pub ports: Ports,
    /// Those that the control service has opened, by their numbers.
    pub opened: Mutex<BTreeMap<u16, Arc<Port>>>,
}

impl Running {
    pub fn create_database(
        &self,
        name: &str,
        dialect: Dialect,
        ddl: &str,
    ) -> engine::Result<Database> {
        let changes = self.core.parse_ddl(dialect, ddl).map_err(|error| error.in_text(ddl))?;
        self.admin.add_database(name, dialect, &changes)
    }

    /// Opens a port for a client that isn't in Rust, and keeps it.
    pub async fn open_port(&self) -> io::Result<SocketAddr> {
        let port = self.ports.add(SocketAddr::new(self.port.address().ip(), 0)).await?;
        let address = port.address();
        self.opened().insert(address.port(), Arc::new(port));
        Ok(address)
    }

    /// Returns a port that the control service has opened, by its number.
    pub fn port(&self, number: &str) -> Option<Arc<Port>> {
        self.opened().get(&number.parse().ok()?).cloned()
    }

    /// Closes such a port. It returns true if there was one.
    pub fn close_port(&self, number: &str) -> bool {
        number.parse().is_ok_and(|number| self.opened().remove(&number).is_some())
    }

    fn opened(&self) -> MutexGuard<'_, BTreeMap<u16, Arc<Port>>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Restarts, though its caller may stop waiting for that.
    pub async fn restart(self: &Arc<Running>, restart: Restart) -> io::Result<()> {
        let running = Arc::clone(self);
        let restarted = self.core.tasks.spawn(async move { running.restart_now(restart).await });
        restarted.await.map_err(io::Error::other)?
    }

    async fn restart_now(&self, restart: Restart) -> io::Result<()> {
        self.ports.pause().await;
        for (_, database) in self.core.all_databases() {
            match restart.data {
                Data::Keep => database.abort_all(),
                Data::LoseRows => database.lose_rows(),
                Data::LoseDatabases => {}
            }
        }
        if restart.data == Data::LoseDatabases {
            self.admin.clear();
        }
        if restart.lose_sessions {
            self.core.forget_sessions();
        }
        self.ports.resume().await
    }
}

/// The data and sessions that an [`Emulator::restart`](crate::Emulator::restart) leaves. It ends
/// every open transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Restart {
    data: Data,
    lose_sessions: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Data {
    #[default]
    Keep,
    LoseRows,
    LoseDatabases,
}

impl Restart {
    /// Data and sessions stay, as they do when Cloud Spanner moves a database to another server.
    pub const fn keep() -> Restart {
        Restart { data: Data::Keep, lose_sessions: false }
    }

    /// Tables and sessions stay, without rows.
    pub const fn lose_rows() -> Restart {
        Restart { data: Data::LoseRows, lose_sessions: false }
    }

    /// Nothing stays, not even the databases and their instances.
    pub const fn lose_databases() -> Restart {
        Restart { data: Data::LoseDatabases, lose_sessions: false }
    }

    /// Sessions are lost as well, as on an emulator that was stopped and started, or by a client that
    /// kept one for too long. Google's Rust client makes no new multiplexed session for a lost one.
    #[must_use]
    pub const fn lose_sessions(mut self) -> Restart {
        self.lose_sessions = true;
        self
    }
}
