//! The connections that are served at the same time, and what each of them may cost.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nix::sys::resource::{Resource, getrlimit};
use spindle::CancellationToken;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use super::peer::Peer;

/// How long a request may be in coming, the first one of a connection and each that follows.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);

/// Bytes of a request's head: more than the names of a page's longest question.
const REQUEST_BYTES_MAX: usize = 128 * 1024;

const CONNECTIONS_MAX: usize = 1_000;

/// How long a viewer that still reads an answer after the end is waited for.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Until the next connection is accepted after one could not be.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a connection lasts, and for how many requests.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// None lets it last as long as its client.
    pub connection: Option<Duration>,
    /// False ends it after one request.
    pub keep_alive: bool,
}

pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection of either kind.
trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// A connection, and the process at its other end where the kernel tells it.
type Accepted = (Box<dyn Connection>, Option<Peer>);

impl Listener {
    async fn accept(&self) -> io::Result<Accepted> {
        Ok(match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // An event is small, and must not wait for the next.
                stream.set_nodelay(true)?;
                (Box::new(stream), None)
            }
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let peer = Peer::of(&stream)?;
                (Box::new(stream), Some(peer))
            }
        })
    }

    /// The connections that may be open at a time: each to a Unix socket takes a file for its peer, too.
    pub fn connections_max(&self) -> usize {
        match self {
            Listener::Tcp(_) => connections_max(),
            Listener::Unix(_) => connections_max() / 2,
        }
    }
}

/// Returns how many connections this process has files for, besides its own.
pub fn connections_max() -> usize {
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(256, |(soft, _)| soft);
    usize::try_from(files / 4 * 3).unwrap_or(usize::MAX).clamp(8, CONNECTIONS_MAX)
}

/// Answers requests until the end; then `at_end` is done, and answers under way are finished.
pub async fn answer(
    listener: Listener,
    routes: Router,
    limits: Limits,
    end: &CancellationToken,
    at_end: impl FnOnce(),
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(REQUEST_LIMIT)
        .max_buf_size(REQUEST_BYTES_MAX)
        .keep_alive(limits.keep_alive);
    let count = listener.connections_max();
    let free = Arc::new(Semaphore::new(count));
    while let Some(((stream, peer), permit)) =
        end.run_until_cancelled(next(&listener, &free)).await.flatten()
    {
        let routes = match peer {
            Some(peer) => routes.clone().layer(Extension(peer)),
            None => routes.clone(),
        };
        let service = TowerToHyperService::new(routes);
        let connection = http.serve_connection(TokioIo::new(stream), service);
        let end = end.clone();
        tokio::spawn(async move {
            let mut connection = pin!(connection);
            // The client sees what ends it.
            tokio::select! {
                _ended = &mut connection => {}
                () = too_old(limits) => {}
                () = end.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    let _ended = timeout(END_LIMIT, connection).await;
                }
            }
            drop(permit);
        });
    }
    drop(listener);
    at_end();
    let all = u32::try_from(count).unwrap_or(u32::MAX);
    // Each of them ends within its limit.
    let _all_are_free = free.acquire_many(all).await;
}

async fn too_old(limits: Limits) {
    match limits.connection {
        Some(limit) => sleep(limit).await,
        None => std::future::pending().await,
    }
}

/// The next connection, once there is room for one more; the others wait in the system's queue.
async fn next(
    listener: &Listener,
    free: &Arc<Semaphore>,
) -> Option<(Accepted, OwnedSemaphorePermit)> {
    let permit = Arc::clone(free).acquire_owned().await.ok()?;
    loop {
        match listener.accept().await {
            Ok(stream) => return Some((stream, permit)),
            // The client is gone already, or there are no files: some connections will end.
            Err(_) => sleep(PAUSE).await,
        }
    }
}
