//! The running server, as its handle and its outside control share it.

use std::io;
use std::sync::Arc;

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
        if !restart.keep_sessions {
            self.core.forget_sessions();
        }
        self.ports.resume().await
    }
}

/// The data and sessions that an [`Emulator::restart`](crate::Emulator::restart) leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Restart {
    data: Data,
    keep_sessions: bool,
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
    /// The data stays; sessions and open transactions are lost.
    pub const fn keep() -> Restart {
        Restart { data: Data::Keep, keep_sessions: false }
    }

    /// The tables stay, without their rows.
    pub const fn lose_rows() -> Restart {
        Restart { data: Data::LoseRows, keep_sessions: false }
    }

    /// Nothing stays, not even the databases and their instances.
    pub const fn lose_databases() -> Restart {
        Restart { data: Data::LoseDatabases, keep_sessions: false }
    }

    /// Sessions stay as well, as they do when Cloud Spanner moves a database.
    #[must_use]
    pub const fn keep_sessions(mut self) -> Restart {
        self.keep_sessions = true;
        self
    }
}
