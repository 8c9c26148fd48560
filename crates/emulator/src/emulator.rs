//! The emulator as a program or a test holds it.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::admin::{self, Admin};
use crate::control;
use crate::engine::{self, Clock, Database, Dialect, TokioClock};
use crate::faults::{Fault, FaultHandle};
use crate::port::{Port, Ports};
use crate::rpc::RequestCounts;
use crate::running::{Restart, Running};
use crate::server::Answering;
use crate::service::{Core, spanner};

/// A Cloud Spanner of one's own: a gRPC server in this process, with its databases in memory.
///
/// Several in one process don't disturb each other. Dropping one stops it.
///
/// # Panics
/// It lives on the tokio runtime it was started on, and its methods that start something panic
/// outside of one.
pub struct Emulator {
    running: Arc<Running>,
    rest: SocketAddr,
    control: Option<SocketAddr>,
}

impl fmt::Debug for Emulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Emulator").field("address", &self.address()).finish_non_exhaustive()
    }
}

/// How an [`Emulator`] is to be started.
#[derive(Clone, Debug)]
pub struct EmulatorBuilder {
    address: SocketAddr,
    rest: u16,
    control: Option<u16>,
    clock: Option<Arc<dyn Clock>>,
    lenient_ddl: bool,
    retention: Duration,
}

impl EmulatorBuilder {
    /// Listens on this port; 0, the default, lets the system pick a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> EmulatorBuilder {
        self.address.set_port(port);
        self
    }

    /// Listens on this address of the machine, 127.0.0.1 by default. There is no authentication:
    /// whoever reaches it may do anything.
    #[must_use]
    pub fn host(mut self, host: IpAddr) -> EmulatorBuilder {
        self.address.set_ip(host);
        self
    }

    /// Offers [administration over REST](crate#administration) on this port of the same address; 0,
    /// the default, lets the system pick a free one.
    #[must_use]
    pub fn rest(mut self, port: u16) -> EmulatorBuilder {
        self.rest = port;
        self
    }

    /// Offers the [control service](crate#from-other-languages) on this port of the same address;
    /// 0 lets the system pick a free one. It is off by default.
    #[must_use]
    pub fn control(mut self, port: u16) -> EmulatorBuilder {
        self.control = Some(port);
        self
    }

    /// Takes the time from this clock, a [`TokioClock`] by default.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> EmulatorBuilder {
        self.clock = Some(clock);
        self
    }

    /// Keeps DDL that asks for what isn't here, rather than refuse it. That is: sequences, identity
    /// columns, views, change streams, roles, row deletion policies, bundles of protos, search and
    /// vector indexes. `GetDatabaseDdl` shows it again. Whatever uses it is refused by name; row
    /// deletion policies delete nothing.
    #[must_use]
    pub fn lenient_ddl(mut self) -> EmulatorBuilder {
        self.lenient_ddl = true;
        self
    }

    /// Forgets versions of rows that are older than this, an hour by default and a second at least. Rows
    /// that a test deletes by the thousand then cost neither time nor memory for so long; a read further
    /// back is refused.
    #[must_use]
    pub fn version_retention(mut self, retention: Duration) -> EmulatorBuilder {
        self.retention = retention;
        self
    }

    /// Starts it. When this returns, it can be connected to.
    ///
    /// # Errors
    /// A port is taken, or may not be listened on.
    pub async fn start(self) -> io::Result<Emulator> {
        let clock = self.clock.unwrap_or_else(|| Arc::new(TokioClock::new()));
        let mut core = Core::new(clock);
        core.lenient_ddl = self.lenient_ddl;
        core.retention = self.retention;
        let core = Arc::new(core);
        let admin = Arc::new(Admin::new(Arc::clone(&core)));
        let ports = Ports::new(Arc::clone(&core), answering(&core, &admin));
        let port = ports.add(self.address).await?;
        let address = port.address();
        let running = Running { core, admin, port, ports, opened: Mutex::default() };
        // Made first, so that it stops what runs if the rest fails.
        let mut emulator = Emulator { running: Arc::new(running), rest: address, control: None };
        let rest = SocketAddr::new(self.address.ip(), self.rest);
        let Running { core, admin, .. } = &*emulator.running;
        emulator.rest = admin::rest::start(core, admin, rest)?;
        if let Some(port) = self.control {
            let address = SocketAddr::new(self.address.ip(), port);
            emulator.control = Some(control::start(&emulator.running, address)?);
        }
        Ok(emulator)
    }
}

/// The answers of a port for clients of Spanner.
fn answering(core: &Arc<Core>, admin: &Arc<Admin>) -> Answering {
    let (core, admin) = (Arc::clone(core), Arc::clone(admin));
    Arc::new(move |request| {
        let (core, admin) = (Arc::clone(&core), Arc::clone(&admin));
        // gRPC needs HTTP/2, and Google's Rust client administers an emulator that isn't on the usual
        // port over REST on this one.
        if request.version() < http::Version::HTTP_2 {
            return admin::rest::answer(admin, request);
        }
        match request.uri().path().split('/').nth(1) {
            Some(spanner::NAME) => Box::pin(spanner::answer(core, request)),
            _ => Box::pin(admin::grpc::answer(admin, request)),
        }
    })
}

impl Emulator {
    /// Starts an emulator on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// As [`EmulatorBuilder::start`].
    pub async fn start() -> io::Result<Emulator> {
        Emulator::builder().start().await
    }

    /// For one that is to differ from the default.
    pub fn builder() -> EmulatorBuilder {
        EmulatorBuilder {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            rest: 0,
            control: None,
            clock: None,
            lenient_ddl: false,
            retention: engine::VERSION_RETENTION,
        }
    }

    /// Returns the text that a client takes as its endpoint: `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Returns the address for `SPANNER_EMULATOR_HOST`: `127.0.0.1:PORT`.
    pub fn address(&self) -> SocketAddr {
        self.running.port.address()
    }

    /// Returns where [administration over REST](crate#administration) is: `http://127.0.0.1:PORT`.
    pub fn rest_endpoint(&self) -> String {
        format!("http://{}", self.rest)
    }

    /// Returns where the control service is, if it was asked for: `http://127.0.0.1:PORT`.
    pub fn control_endpoint(&self) -> Option<String> {
        self.control.map(|address| format!("http://{address}"))
    }

    /// Creates a database, named `projects/P/instances/I/databases/D`, with the tables that
    /// `ddl` creates: statements separated by `;`.
    ///
    /// # Errors
    /// The name is not of that form or taken, or the DDL is not understood.
    pub async fn create_database(&self, name: &str, ddl: &str) -> engine::Result<Database> {
        self.running.create_database(name, Dialect::GoogleSql, ddl)
    }

    /// As [`Emulator::create_database`], in the PostgreSQL dialect: tables, reads and mutations,
    /// and queries of the information schema.
    ///
    /// # Errors
    /// As [`Emulator::create_database`].
    pub async fn create_postgresql_database(
        &self,
        name: &str,
        ddl: &str,
    ) -> engine::Result<Database> {
        self.running.create_database(name, Dialect::PostgreSql, ddl)
    }

    /// Makes a database a copy of another, as it is now: its tables and their rows, in every
    /// version, without its transactions. It takes microseconds, however large that one is. The
    /// first write to either copies the list of the writes whose old versions are kept, and the first
    /// write to a table that table.
    ///
    /// # Errors
    /// There is no such database, or the name is taken or none.
    pub fn copy_database(&self, from: &str, to: &str) -> engine::Result<Database> {
        self.running.admin.copy_database(from, to)
    }

    /// Opens another port for one client, which a test can cut off by it.
    ///
    /// # Errors
    /// The system has no port left.
    pub async fn open_port(&self) -> io::Result<Port> {
        let address = SocketAddr::new(self.address().ip(), 0);
        self.running.ports.add(address).await
    }

    /// Removes a database with its sessions. It returns true if the database was there.
    pub fn drop_database(&self, name: &str) -> bool {
        self.running.admin.remove_database(name)
    }

    /// Returns a database, to look at or to change behind the clients' backs.
    pub fn database(&self, name: &str) -> Option<Database> {
        self.running.core.database(name).ok()
    }

    /// Makes requests go wrong from now on.
    ///
    /// # Panics
    /// No request can meet the fault: no database has its table, requests of its method have no key, it
    /// meets 0 of them, its tag is empty, or its probability is not between 0 and 1. A test with such a
    /// fault would pass whatever it tests.
    #[track_caller]
    pub fn inject(&self, fault: Fault) -> FaultHandle {
        match self.running.core.inject(fault) {
            Ok(handle) => handle,
            Err(error) => panic!("{error}"),
        }
    }

    /// Ends every fault.
    pub fn clear_faults(&self) {
        self.running.core.faults.clear();
    }

    /// Returns how many requests have arrived.
    pub fn requests(&self) -> RequestCounts {
        self.running.core.counts.clone()
    }

    /// Returns the clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        self.running.core.clock()
    }

    /// Moves the clock forward.
    pub fn advance(&self, duration: Duration) {
        self.running.core.clock().advance(duration);
    }

    /// Makes the server unreachable, through every port: connections break and new ones are
    /// refused. Its state stays, open transactions with their locks included.
    ///
    /// When this returns, no request is under way any more but those that a fault applies late.
    ///
    /// # Cancellation safety
    /// Dropped halfway, it has shut some of the ports; another call shuts the others.
    pub async fn pause(&self) {
        self.running.ports.pause().await;
    }

    /// Makes a paused server reachable again, on the same port.
    ///
    /// # Errors
    /// Somebody else has taken a port meanwhile. On Linux only who names it can.
    pub async fn resume(&self) -> io::Result<()> {
        self.running.ports.resume().await
    }

    /// Swallows from here on what flows on the connections that exist, through every port, as a
    /// router that has forgotten them does: requests don't arrive, and neither do replies, those of
    /// requests under way included. Nothing is closed, and new connections work. Returns how many
    /// connections those are.
    ///
    /// A connection exists once a request has been answered on it. Those of the
    /// [control service](crate#from-other-languages) and of the port for administration go on.
    ///
    /// # Cancellation safety
    /// Dropped halfway, it has met the connections of some of the ports; another call meets the others.
    pub async fn swallow_connections(&self) -> usize {
        self.running.ports.swallow().await
    }

    /// Stops the server and starts it again on the same port. Open transactions are lost.
    ///
    /// # Errors
    /// As [`Emulator::resume`].
    ///
    /// # Cancellation safety
    /// Once it has begun, the restart goes on though nobody waits for it.
    pub async fn restart(&self, restart: Restart) -> io::Result<()> {
        self.running.restart(restart).await
    }

    /// Stops it. When this returns, its tasks have ended and its port is free.
    ///
    /// # Cancellation safety
    /// Once it has begun, it stops though nobody waits for it.
    pub async fn stop(self) {
        self.running.core.stopped.cancel();
        self.running.core.tasks.close();
        self.running.core.tasks.wait().await;
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.running.core.stopped.cancel();
    }
}
