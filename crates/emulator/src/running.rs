//! The running server, as its handle and its outside control share it.

use std::io;
use std::sync::Arc;

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

    pub async fn pause(&self) {
        self.ports.pause().await;
    }

    pub async fn resume(&self) -> io::Result<()> {
        self.ports.resume().await
    }

    pub async fn restart(&self, restart: Restart) -> io::Result<()> {
        self.pause().await;
        for (_, database) in self.core.all_databases() {
            match restart.data {
                Data::Kept => database.abort_all(),
                Data::RowsLost => database.lose_rows(),
                Data::DatabasesLost => {}
            }
        }
        if restart.data == Data::DatabasesLost {
            self.admin.clear();
        }
        if !restart.keeps_sessions {
            self.core.forget_sessions();
        }
        self.resume().await
    }
}

/// The data and sessions that an [`Emulator::restart`](crate::Emulator::restart) leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    data: Data,
    keeps_sessions: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Data {
    Kept,
    RowsLost,
    DatabasesLost,
}

impl Restart {
    /// The data stays; sessions and open transactions are lost.
    pub const fn keep() -> Restart {
        Restart { data: Data::Kept, keeps_sessions: false }
    }

    /// The tables stay, without their rows.
    pub const fn lose_rows() -> Restart {
        Restart { data: Data::RowsLost, keeps_sessions: false }
    }

    /// Nothing stays, not even the databases and their instances.
    pub const fn lose_databases() -> Restart {
        Restart { data: Data::DatabasesLost, keeps_sessions: false }
    }

    /// Sessions stay as well, as they do when Cloud Spanner moves a database.
    #[must_use]
    pub const fn keep_sessions(mut self) -> Restart {
        self.keeps_sessions = true;
        self
    }
}
