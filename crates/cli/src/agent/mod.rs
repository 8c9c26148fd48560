//! `agent`: locks for services in other languages, over HTTP on the same host.

mod admission;
mod claims;
mod deadline;
mod elector;
mod event;
mod exits;
mod holder;
mod job_call;
mod probes;
mod refusal;
mod request;
mod routes;
mod socket;
mod token_file;
mod witness;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use spindle::{CancellationToken, LockTable, RunHandle};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::arguments::{Agent, Common};
use crate::failure::{Code, Failure, Result};
use crate::log;
use crate::output::Output;
use crate::place::database;
use crate::serve::allowed_hosts::AllowedHosts;
use crate::serve::connections::{Limits, Listener, answer};
use crate::serve::listen;
use crate::signals::Signals;
use crate::start::{Start, Waited};
use admission::Admission;
use claims::Claims;
use elector::Elector;
use probes::Probes;
use routes::Shared;
use socket::OwnSocket;

/// Longer than a release may take: that of the elector's lock, which is tried for a lease of 10 s. An attempt under way, of a
/// lease below 30 s, is resolved within it, too.
const RELEASE_MAX: Duration = Duration::from_secs(15);

/// How long those whose terms lapse at the end may take to say so.
const LAPSE_MAX: Duration = Duration::from_secs(1);

const LIMITS: Limits = Limits {
    // A stream of events lasts as long as its client; and a client that has an idle connection may
    // send its next request while this end closes it.
    connection: None,
    keep_alive: false,
    connections: None,
    // A client that is stopped has few events left unread by then, and is taken for gone.
    unsent: Some(8 * 1024),
    // A short lease has run out by then, and a client that is only slow has read something.
    unread: Duration::from_secs(5 * 60),
};

/// How long a probe's connection lasts, also for who reads no answer. Spanner's is known before.
const PROBE_LIMIT: Duration = Duration::from_secs(15);

/// Connections for probes alone: whatever others open, a kubelet is answered.
const PROBES_MAX: usize = 32;

pub async fn agent(common: &Common, out: &Output, agent: &Agent) -> Result<ExitCode> {
    log::begin();
    let database = database(common)?;
    let admission = Admission::read(agent.token_file.as_deref(), &agent.allow_uid)?;
    let (listener, socket, address) = own_listener(agent, admission.uids()).await?;
    // At least one, however few open files are allowed.
    let probes_max = agent.probes.map_or(0, |_| PROBES_MAX.min(listener.connections_max() / 2));
    let connections = listener.connections_max() - probes_max;
    let limits = Limits { connections: Some(connections), ..LIMITS };
    // This connection comes back by itself after Spanner has lost its session.
    let table = LockTable::new(&database, &common.table);
    let start = Arc::new(Start::new());
    let claims = Arc::new(Claims::new(table.clone(), agent.locks_max));
    let probes = Probes::new(Arc::clone(&claims), Arc::clone(&start), agent.metrics_locks);
    let probes = Arc::new(probes);
    let (mut signals, end) = (Signals::listen()?, CancellationToken::new());
    let elector = elector(agent, &table)?;
    let waiting_max = connections / 4 * 3;
    let shared = Shared {
        claims: Arc::clone(&claims),
        start: Arc::clone(&start),
        probes: Arc::clone(&probes),
        elector: elector.clone(),
        waiting: Arc::new(Semaphore::new(waiting_max)),
        waiting_max,
        database: database.as_str().into(),
        table: common.table.as_str().into(),
    };
    let allowed = AllowedHosts::new(&agent.allow_host);
    let mut addresses = String::new();
    let probed = match agent.probes {
        None => None,
        Some(address) => {
            let listener = listen("--probes", address)?;
            addresses = format!("Answers probes on http://{}/\n", listener.local_addr()?);
            let (routes, end) = (probes::routes(probes), end.clone());
            let (connection, connections) = (Some(PROBE_LIMIT), Some(probes_max));
            let limits = Limits { connection, connections, ..LIMITS };
            Some(tokio::spawn(async move {
                answer(Listener::Tcp(listener), routes, limits, &end, || ()).await;
            }))
        }
    };
    let routes = routes::routes(shared, allowed, admission);
    let said = format!("{addresses}Listens on {address} until Ctrl-C.\n");
    let starting = async {
        // An error that no wait cures ends the program at the start; a later one is shown.
        let first = start.attempt(common).await?;
        socket.as_ref().map_or(Ok(()), OwnSocket::check)?;
        out.text(&said)?;
        start.wait(common, first, Duration::MAX).await
    };
    let ending = async {
        let electing = works(starting, elector.as_deref(), &end, &mut signals).await;
        let is_told_again = let_go(&claims, agent.grace, &mut signals).await;
        if let Some(socket) = &socket {
            socket.remove();
        }
        end.cancel();
        (electing, is_told_again)
    };
    let ((), (electing, is_told_again)) =
        tokio::join!(answer(listener, routes, limits, &end, || ()), ending);
    if let Some(probed) = probed {
        probed.await.map_err(|error| Failure::of_task(&error))?;
    }
    let limit = if is_told_again { LAPSE_MAX } else { RELEASE_MAX };
    all_released(&table, electing?, limit, &mut signals).await;
    Ok(ExitCode::SUCCESS)
}

/// Waits until nothing is held, nor an attempt under way; not for ever, and no longer once this is told to end again.
async fn all_released(
    table: &LockTable,
    electing: Option<RunHandle>,
    limit: Duration,
    signals: &mut Signals,
) {
    let released = async {
        if let Some(electing) = electing {
            // However it ended, the rest is waited for.
            let _ = electing.await;
        }
        table.all_released().await;
    };
    let is_released = tokio::select! {
        released = timeout(limit, released) => released.is_ok(),
        _ = signals.end() => false,
    };
    if !is_released {
        log::complain("a lock may not be released; then its lease runs out");
    }
}

/// Prepares to contend for the agent's own lock, if it is to have one.
fn elector(agent: &Agent, table: &LockTable) -> Result<Option<Arc<Elector>>> {
    let Some(name) = &agent.elector else { return Ok(None) };
    let id = agent.id.clone().map_or_else(host_name, Ok)?;
    Ok(Some(Arc::new(Elector::new(table, name, &id)?)))
}

/// Works until a signal asks for the end, or until it turns out at the start that it never can. The elector contends from when the table was read, and is given back.
async fn works(
    starting: impl Future<Output = Result<Waited>>,
    elector: Option<&Elector>,
    end: &CancellationToken,
    signals: &mut Signals,
) -> Result<Option<RunHandle>> {
    tokio::select! {
        started = starting => drop(started?),
        _ = signals.end() => return Ok(None),
    }
    let electing = elector.map(|elector| elector.run(end.clone()));
    signals.end().await;
    Ok(electing)
}

/// Tells all clients to let go, and gives up what they have not let go of in time. Returns true if it was told to end again: by
/// whoever waits no longer.
async fn let_go(claims: &Claims, grace: Duration, signals: &mut Signals) -> bool {
    claims.end();
    let (is_over, is_told_again) = tokio::select! {
        () = claims.none_left() => (true, false),
        () = sleep(grace) => (false, false),
        _ = signals.end() => (false, true),
    };
    if !is_over {
        let left = claims.all().len();
        log::complain(&format!("{left} locks were not let go of; their leases run out"));
    }
    claims.over.cancel();
    // A run of a job may go on for hours: it is kept by its row.
    let _ = timeout(LAPSE_MAX, claims.none_left()).await;
    is_told_again
}

/// Listens where only this host can reach it; says where.
async fn own_listener(
    agent: &Agent,
    uids: Arc<[u32]>,
) -> Result<(Listener, Option<OwnSocket>, String)> {
    if let Some(path) = &agent.socket {
        // Only this user opens it, unless others are allowed: then each request's peer is asked for its user.
        let mode = if agent.allow_uid.is_empty() { 0o600 } else { 0o666 };
        let mode = agent.socket_mode.unwrap_or(mode);
        let (listener, socket) = OwnSocket::bind(path, mode, agent.socket_group)?;
        return Ok((Listener::Unix(listener, uids), Some(socket), path.display().to_string()));
    }
    if !agent.listen.ip().is_loopback() {
        let text = format!("--listen {}: other hosts reach it", agent.listen);
        return Err(Failure::new(Code::Usage, text)
            .cure("listen on 127.0.0.1 or a --socket; --probes may listen anywhere"));
    }
    let listener: TcpListener = listen("--listen", agent.listen)?;
    let address = listener.local_addr()?;
    Ok((Listener::Tcp(listener), None, format!("http://{address}/")))
}

fn host_name() -> Result<String> {
    let name = nix::unistd::gethostname().map_err(std::io::Error::from)?;
    Ok(name.to_string_lossy().into_owned())
}
