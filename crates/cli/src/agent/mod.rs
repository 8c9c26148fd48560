//! `agent`: locks for services in other languages, over HTTP on the same host.

mod admission;
mod claims;
mod deadline;
mod elector;
mod event;
mod holder;
mod probes;
mod request;
mod routes;

use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::stat::{Mode, umask};
use spindle::{CancellationToken, LockTable};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::arguments::Agent;
use crate::failure::{Code, Failure, Result};
use crate::log;
use crate::output::Output;
use crate::place::Place;
use crate::serve::allowed_hosts::AllowedHosts;
use crate::serve::connections::{Limits, Listener, answer, connections_max};
use crate::serve::listen;
use crate::signals::Signals;
use admission::Admission;
use claims::Claims;
use elector::Elector;
use probes::Probes;
use routes::Shared;

/// Longer than a release may take: that of the elector's lock.
const RELEASE_MAX: Duration = Duration::from_secs(6);

/// How long those whose terms lapse at the end may take to say so.
const LAPSE_MAX: Duration = Duration::from_secs(1);

const LIMITS: Limits = Limits {
    // A stream of events lasts as long as its client; and a client that has an idle connection may
    // send its next request while this end closes it.
    connection: None,
    keep_alive: false,
};

pub async fn agent(place: &Place, out: &Output, agent: &Agent) -> Result<ExitCode> {
    log::begin();
    // An error at the start ends the program; a later one is shown.
    place.locks.list().page_rows(1).next().await?;
    let admission = Admission::read(agent.token_file.as_deref())?;
    let (listener, address) = own_listener(agent).await?;
    // This connection comes back by itself after Spanner has lost its session.
    let table = LockTable::new(&place.database, &place.table);
    let claims = Arc::new(Claims::new(table.clone(), agent.locks_max));
    let probes = Arc::new(Probes::new(Arc::clone(&claims), agent.metrics_locks));
    let (mut signals, end) = (Signals::listen()?, CancellationToken::new());
    let (elector, electing) = match &agent.elector {
        None => (None, None),
        Some(name) => {
            let id = agent.id.clone().map_or_else(host_name, Ok)?;
            let (elector, electing) = Elector::start(&table, name, &id, end.clone())?;
            (Some(Arc::new(elector)), Some(electing))
        }
    };
    let waiting = Arc::new(Semaphore::new(connections_max() / 4 * 3));
    let (held, asked) = (Arc::clone(&claims), Arc::clone(&probes));
    let shared = Shared { claims: held, probes: asked, elector, waiting };
    let allowed = AllowedHosts::new(&agent.allow_host);
    let mut addresses = String::new();
    let probed = match agent.probes {
        None => None,
        Some(address) => {
            let listener = listen(address).await?;
            addresses = format!("Answers probes on http://{}/\n", listener.local_addr()?);
            let (routes, end) = (probes::routes(probes), end.clone());
            Some(tokio::spawn(async move {
                answer(Listener::Tcp(listener), routes, LIMITS, &end, || ()).await;
            }))
        }
    };
    let routes = routes::routes(shared, allowed, admission);
    out.text(&format!("{addresses}Listens on {address} until Ctrl-C.\n"))?;
    let ending = async {
        signals.end().await;
        claims.end();
        let let_go = tokio::select! {
            () = claims.none_left() => true,
            () = sleep(agent.grace) => false,
            // It is told twice by whoever waits no longer.
            _ = signals.end() => false,
        };
        if !let_go {
            let left = claims.all().len();
            log::complain(&format!("{left} locks were not let go of; their leases run out"));
        }
        claims.over.cancel();
        // A run of a job may go on for hours: it is kept by its row.
        let _ = timeout(LAPSE_MAX, claims.none_left()).await;
        if let Some(socket) = &agent.socket {
            // While this program listens, the path is no other's. If it is gone already, nobody minds.
            let _ = std::fs::remove_file(socket);
        }
        end.cancel();
    };
    tokio::join!(answer(listener, routes, LIMITS, &end, || ()), ending);
    if let Some(probed) = probed {
        probed.await.map_err(|error| Failure::new(Code::No, format!("a task failed: {error}")))?;
    }
    if let Some(electing) = electing
        && timeout(RELEASE_MAX, electing).await.is_err()
    {
        log::complain("the elector's lock may not be released; then its lease runs out");
    }
    Ok(ExitCode::SUCCESS)
}

/// Listens where only this host can reach it; says where.
async fn own_listener(agent: &Agent) -> Result<(Listener, String)> {
    if let Some(path) = &agent.socket {
        return Ok((Listener::Unix(own_socket(path)?), path.display().to_string()));
    }
    if !agent.listen.ip().is_loopback() {
        let text = format!("--listen {}: other hosts reach it", agent.listen);
        return Err(Failure::new(Code::Usage, text)
            .cure("listen on 127.0.0.1 or a --socket; --probes may listen anywhere"));
    }
    let listener: TcpListener = listen(agent.listen).await?;
    let address = listener.local_addr()?;
    Ok((Listener::Tcp(listener), format!("http://{address}/")))
}

/// A socket that only this user opens. One that nobody listens on any more is replaced.
fn own_socket(path: &Path) -> Result<UnixListener> {
    let refused = |why: String| {
        let text = format!("--socket {}: {why}", path.display());
        Failure::new(Code::Usage, text).cure("name a path in a directory that this user writes to")
    };
    match UnixStream::connect(path) {
        Ok(_) => return Err(refused("another program listens there".to_string())),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused && is_socket(path) => {
            std::fs::remove_file(path).map_err(|error| refused(error.to_string()))?;
        }
        // There is none, or binding says what is wrong.
        Err(_) => {}
    }
    let before = umask(Mode::from_bits_truncate(0o177));
    let bound = UnixListener::bind(path);
    umask(before);
    bound.map_err(|error| refused(error.to_string()))
}

fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

fn host_name() -> Result<String> {
    let name = nix::unistd::gethostname().map_err(std::io::Error::from)?;
    Ok(name.to_string_lossy().into_owned())
}
