//! How requests reach the database: a client for each runtime, made on first use.
//!
//! A client's channels and tasks live on the runtime that made it and die with that runtime. So a
//! table that outlives a runtime needs a client per runtime.

mod credentials;
mod runtime_client;
mod target;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use google_cloud_gax::error::rpc::Code;
use google_cloud_spanner::client::DatabaseClient;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};

use crate::batch::Channels;
use crate::budget::Budget;
use crate::error::{Error, Kind, Result};
use crate::system::{check_io, runtime};
use crate::term::GivenClient;
use credentials::SharedCredentials;
use runtime_client::{Attempts, RuntimeClient, State};
use target::{Target, emulator};

pub(crate) use target::REQUEST_LIMIT;

/// The longest attempt to connect where there is no client: credentials, DNS, TLS and a session. It
/// goes on for later callers if one with a shorter limit gives up.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// A transaction waits for its turn for this part of its limit.
const TURN: u32 = 16;

/// How requests reach the database.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    origin: Arc<Origin>,
    /// Shared by all connections of a table.
    budget: Arc<Budget>,
    /// Present where transactions go one at a time.
    turns: Option<Arc<Turns>>,
}

/// The turns of transactions.
#[derive(Debug)]
struct Turns {
    all: Semaphore,
    /// Of heartbeats that pass one that is blocked.
    heartbeats: Semaphore,
}

#[derive(Debug)]
enum Origin {
    /// The caller's client: shared with its service, and never replaced.
    Given { client: Box<DatabaseClient>, answers: Arc<GivenClient> },
    /// Clients made here, one for each runtime that asks.
    Own(Own),
}

#[derive(Debug)]
struct Own {
    /// A malformed target is an error to its user.
    target: Result<Target>,
    /// Locked for moments only, never while anything is sent.
    clients: Mutex<Vec<RuntimeClient>>,
    credentials: Arc<SharedCredentials>,
    attempts: Arc<Attempts>,
}

/// Has a client take the place of the one in use.
pub(crate) type Replace = Box<dyn FnOnce() + Send>;

/// A client, and what is left of the time in which to use it.
pub(crate) struct TimedClient {
    pub(crate) client: DatabaseClient,
    pub(crate) limit: Duration,
    pub(crate) deadline: Instant,
    begun: Instant,
    /// Absent from a client that was given.
    origin: Option<RuntimeClient>,
}

impl Connection {
    pub(crate) fn given(client: DatabaseClient) -> Connection {
        let (client, answers) = (Box::new(client), Arc::default());
        let is_emulator = emulator().is_some();
        Connection::of(Origin::Given { client, answers }, Arc::new(Budget::new()), is_emulator)
    }

    pub(crate) fn own(
        database: String,
        endpoint: Option<String>,
        is_side_by_side: bool,
    ) -> Connection {
        let (target, budget) = (Target::new(database, endpoint), Arc::new(Budget::new()));
        let (clients, credentials) = (Mutex::default(), Arc::default());
        let attempts = Attempts::new(&budget);
        let is_emulator = !is_side_by_side && target.as_ref().is_ok_and(Target::is_anonymous);
        let own = Own { target, clients, credentials, attempts };
        Connection::of(Origin::Own(own), budget, is_emulator)
    }

    fn of(origin: Origin, budget: Arc<Budget>, is_emulator: bool) -> Connection {
        let [all, heartbeats] = [Semaphore::new(1), Semaphore::new(1)];
        let turns = is_emulator.then(|| Arc::new(Turns { all, heartbeats }));
        Connection { origin: Arc::new(origin), budget, turns }
    }

    /// Waits for a transaction's turn where they go one at a time: towards an emulator, as Google's, which ends
    /// the earlier one of a session when another begins. The one before may itself wait for a row, so nobody
    /// waits for longer than a part of the time that it has. Heartbeats wait for no row of another's: beside one
    /// that does, they go one at a time, so that they don't end each other.
    pub(crate) async fn turn(
        &self,
        limit: Duration,
        is_heartbeat: bool,
    ) -> Option<SemaphorePermit<'_>> {
        let Turns { all, heartbeats } = self.turns.as_deref()?;
        let longest = limit / TURN;
        match timeout(longest, all.acquire()).await {
            Ok(turn) => turn.ok(),
            Err(_) if is_heartbeat => timeout(longest, heartbeats.acquire()).await.ok()?.ok(),
            Err(_) => None,
        }
    }

    /// Returns what all that is sent by the library itself is charged to.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Returns the path of the database. A client that was given doesn't tell it.
    pub(crate) fn database(&self) -> Option<&str> {
        match &*self.origin {
            Origin::Given { .. } => None,
            Origin::Own(own) => own.target.as_ref().ok().map(|target| target.database.as_str()),
        }
    }

    /// Returns what is known of the answers of a given client, which can't be replaced.
    pub(crate) fn given_client(&self) -> Option<&Arc<GivenClient>> {
        match &*self.origin {
            Origin::Given { answers, .. } => Some(answers),
            Origin::Own(_) => None,
        }
    }

    /// Refuses a database name or an endpoint that can't work.
    pub(crate) fn check(&self) -> Result<()> {
        match &*self.origin {
            Origin::Given { .. } => Ok(()),
            Origin::Own(own) => own.target.as_ref().map(drop).map_err(Error::clone),
        }
    }

    /// Refuses a runtime on which no client can be made, where one has to be.
    pub(crate) fn check_runtime(&self, subject: &str) -> Result<()> {
        match &*self.origin {
            Origin::Given { .. } => Ok(()),
            Origin::Own(_) => check_io(subject),
        }
    }

    /// Provides this runtime's client, connecting first where there is none; in `limit` at most.
    ///
    /// Callers share one attempt to connect, and each waits for it no longer than its own limit.
    pub(crate) async fn client(&self, limit: Duration) -> Result<TimedClient> {
        let runtime = runtime("spanner")?;
        let begun = Instant::now();
        let deadline = begun + limit;
        let own = match &*self.origin {
            Origin::Given { client, .. } => {
                let client = DatabaseClient::clone(client);
                return Ok(TimedClient { client, limit, deadline, begun, origin: None });
            }
            Origin::Own(own) => own,
        };
        let target = own.target.as_ref().map_err(Error::clone)?;
        let own_client = own.client(&runtime, target)?;
        match timeout(limit, own_client.settled()).await {
            Ok(State::Ready(client)) => {
                let limit = deadline.saturating_duration_since(Instant::now());
                let origin = Some(own_client);
                Ok(TimedClient { client: *client, limit, deadline, begun, origin })
            }
            Ok(State::Failed { error, .. }) => Err(error),
            Ok(State::Gone) => {
                own.discard(&own_client);
                own.credentials.forget(runtime.id());
                Err(own.disconnected())
            }
            Ok(State::Connecting) | Err(_) => Err(Error::timed_out(target.connecting(), limit)),
        }
    }

    /// Takes note of how a request ended, and drops a client that is of no use any more.
    pub(crate) fn ended(&self, timed: &TimedClient, error: Option<&Error>) {
        let time = (timed.begun, timed.deadline);
        match (&*self.origin, &timed.origin) {
            (Origin::Own(own), Some(client)) if client.is_dead_after(error, time) => {
                own.discard(client);
            }
            (Origin::Given { answers, .. }, _) if error.is_none_or(shows_a_session) => {
                answers.answered();
            }
            _ => {}
        }
    }

    /// Returns how requests reach the database.
    pub(crate) fn channels(&self) -> Channels {
        match &*self.origin {
            Origin::Given { .. } => Channels::Many,
            Origin::Own(_) => Channels::One,
        }
    }

    /// Returns when this runtime's client was last heard.
    pub(crate) fn heard_at(&self) -> Option<Instant> {
        let Origin::Own(own) = &*self.origin else { return None };
        let runtime = Handle::try_current().ok()?.id();
        let clients = own.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.iter().find(|client| client.runtime() == runtime)?.heard_at()
    }

    /// Begins a client beside this runtime's own. None where the client was given.
    ///
    /// It is ready in `limit` once it is paid for (I8), and takes the place of the other when that is
    /// called. Dropping the future gives it up.
    pub(crate) async fn open(&self, limit: Duration) -> Option<Result<Replace>> {
        let Origin::Own(own) = &*self.origin else { return None };
        let begin = || {
            let (runtime, target) = (runtime("spanner")?, own.target.clone()?);
            let shared = Arc::clone(&own.credentials);
            let connecting = async move { target.connect(limit, &shared).await };
            Ok(RuntimeClient::beside(&self.budget, &runtime, connecting))
        };
        let fresh = match begin() {
            Ok(fresh) => fresh,
            Err(error) => return Some(Err(error)),
        };
        Some(match fresh.settled().await {
            State::Ready(_) => {
                let connection = self.clone();
                Ok(Box::new(move || connection.replace(fresh)) as Replace)
            }
            State::Failed { error, .. } => Err(error),
            State::Connecting | State::Gone => {
                own.credentials.forget(fresh.runtime());
                Err(own.disconnected())
            }
        })
    }

    /// Has a client take the place of its runtime's present one.
    fn replace(&self, fresh: RuntimeClient) {
        if let Origin::Own(own) = &*self.origin {
            let mut clients = own.clients.lock().unwrap_or_else(PoisonError::into_inner);
            clients.retain(|client| client.runtime() != fresh.runtime());
            clients.push(fresh);
        }
    }

    /// Takes note that the session of `lost` is gone; the next request makes a new one.
    ///
    /// Says how to go on where there is none to be made.
    pub(crate) fn session_lost(&self, lost: &TimedClient) -> Error {
        let database = match (&*self.origin, &lost.origin) {
            (Origin::Own(own), Some(client)) => {
                own.discard(client);
                own.target.as_ref().ok().map(|target| target.database.clone())
            }
            _ => None,
        };
        Error::new(Kind::SessionLost { database })
    }
}

/// Returns true for an answer of a session that is there. A lost one is NOT_FOUND, too.
fn shows_a_session(error: &Error) -> bool {
    error.is_answer() && error.code() != Some(Code::NotFound)
}

impl Own {
    /// Returns the client of `runtime`, the caller's, begun if there is none that is of use.
    fn client(&self, runtime: &Handle, target: &Target) -> Result<RuntimeClient> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        // Runtimes that are gone took their channels with them.
        clients.retain(RuntimeClient::is_of_use);
        if let Some(client) = clients.iter().find(|client| client.runtime() == runtime.id()) {
            return Ok(client.clone());
        }
        check_io("spanner")?;
        let (attempts, target) = (Arc::clone(&self.attempts), target.clone());
        let shared = Arc::clone(&self.credentials);
        let connecting =
            async move { attempts.first(target.connect(CONNECT_LIMIT, &shared)).await };
        let client = RuntimeClient::begin(runtime, connecting);
        clients.push(client.clone());
        Ok(client)
    }

    fn disconnected(&self) -> Error {
        let database = self.target.as_ref().map(|target| target.database.clone());
        Error::new(Kind::Disconnected { database: database.unwrap_or_default() })
    }

    fn discard(&self, client: &RuntimeClient) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|other| !other.is(client));
    }
}
