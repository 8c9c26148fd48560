//! The connections that are served at the same time, and what each of them may cost.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::Request;
use axum::response::Response;
use axum::{Extension, Router};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::socket::{setsockopt, sockopt::SndBuf};
use spindle::CancellationToken;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use super::peer::Peer;
use super::unread::Unread;

/// How long a request may be in coming, the first one of a connection and each that follows.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);

/// Bytes of a request's head: more than the names of a page's longest question.
const REQUEST_BYTES_MAX: usize = 128 * 1024;

const CONNECTIONS_MAX: usize = 1_000;

/// Connections at a time of users who are not allowed, to tell them so. They take none of the others'.
const STRANGERS_MAX: usize = 8;

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
    /// The most at a time, where that is not as many as there are files for.
    pub connections: Option<usize>,
    /// Bytes that the kernel keeps for a client that doesn't read, where that is not for the kernel to say.
    pub unsent: Option<usize>,
    /// How long nothing can be sent to a client that doesn't read, until its connection ends.
    pub unread: Duration,
}

impl Limits {
    fn bound(&self, stream: &impl AsFd) -> io::Result<()> {
        self.unsent.map_or(Ok(()), |bytes| setsockopt(stream, SndBuf, &bytes))?;
        Ok(())
    }
}

pub enum Listener {
    Tcp(TcpListener),
    /// With the users that are allowed.
    Unix(UnixListener, Arc<[u32]>),
}

/// A connection of either kind.
trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// A connection, and the process at its other end where the kernel tells it.
type Accepted = (Box<dyn Connection>, Option<Peer>);

impl Listener {
    async fn accept(&self, limits: Limits) -> io::Result<Accepted> {
        Ok(match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // An event is small, and must not wait for the next.
                stream.set_nodelay(true)?;
                limits.bound(&stream)?;
                (Box::new(Unread::limited(stream, limits.unread)), None)
            }
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                limits.bound(&stream)?;
                let peer = Peer::of(&stream)?;
                (Box::new(Unread::limited(stream, limits.unread)), Some(peer))
            }
        })
    }

    /// The connections that may be open at a time: each to a Unix socket takes a file for its peer, too.
    pub fn connections_max(&self) -> usize {
        match self {
            Listener::Tcp(_) => connections_max(),
            Listener::Unix(..) => connections_max() / 2,
        }
    }

    fn is_stranger(&self, peer: Option<&Peer>) -> bool {
        match (self, peer) {
            (Listener::Unix(_, uids), Some(peer)) => !uids.contains(&peer.uid),
            _ => false,
        }
    }
}

/// Returns how many connections this process has files for, besides its own.
pub fn connections_max() -> usize {
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(256, |(soft, _)| soft);
    usize::try_from(files / 4 * 3).unwrap_or(usize::MAX).clamp(8, CONNECTIONS_MAX)
}

/// True if more connections would be open if there were more files for them.
pub fn are_few_files() -> bool {
    connections_max() < CONNECTIONS_MAX
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
    let count = limits.connections.unwrap_or_else(|| listener.connections_max());
    let free = Free {
        own: Arc::new(Semaphore::new(count)),
        strangers: Arc::new(Semaphore::new(STRANGERS_MAX)),
        idle: Idle::default(),
    };
    while let Some(((stream, peer), permit)) =
        end.run_until_cancelled(next(&listener, limits, &free)).await.flatten()
    {
        let routes = match peer {
            Some(peer) => routes.clone().layer(Extension(peer)),
            None => routes.clone(),
        };
        let waiting = free.idle.begin();
        let cut = waiting.idle_at_cut();
        let service = Served { routes: TowerToHyperService::new(routes), waiting };
        let connection = http.serve_connection(TokioIo::new(stream), service);
        let end = end.clone();
        tokio::spawn(async move {
            let mut connection = pin!(connection);
            // The client sees what ends it. A request that is here is seen before the cut.
            tokio::select! {
                biased;
                _ended = &mut connection => {}
                () = too_old(limits) => {}
                () = cut => {}
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
    let _all_are_free = free.own.acquire_many(all).await;
}

async fn too_old(limits: Limits) {
    match limits.connection {
        Some(limit) => sleep(limit).await,
        None => pending().await,
    }
}

/// The room for connections.
struct Free {
    own: Arc<Semaphore>,
    strangers: Arc<Semaphore>,
    idle: Idle,
}

/// The next connection, once there is room for it: those whose request has not come make some. The others wait in the
/// system's queue.
async fn next(
    listener: &Listener,
    limits: Limits,
    free: &Free,
) -> Option<(Accepted, OwnedSemaphorePermit)> {
    let accepted = loop {
        match listener.accept(limits).await {
            Ok((stream, peer)) if listener.is_stranger(peer.as_ref()) => {
                // The others are cut.
                if let Ok(permit) = Arc::clone(&free.strangers).try_acquire_owned() {
                    return Some(((stream, peer), permit));
                }
            }
            Ok(accepted) => break accepted,
            // The client is gone already, or there are no files: some connections will end.
            Err(_) => sleep(PAUSE).await,
        }
    };
    let permit = loop {
        let freed = Arc::clone(&free.own).acquire_owned();
        if free.own.available_permits() > 0 {
            break freed.await.ok()?;
        }
        let Some(oldest) = free.idle.cut_oldest() else { break freed.await.ok()? };
        tokio::select! {
            biased;
            permit = freed => break permit.ok()?,
            // Its request was here: so the next one goes.
            () = oldest.busy.cancelled() => {}
        }
    };
    Some((accepted, permit))
}

/// The connections whose request has not come yet.
#[derive(Clone, Default)]
struct Idle(Arc<Mutex<Waiters>>);

#[derive(Default)]
struct Waiters {
    begun: u64,
    /// From the oldest to the newest.
    signs: BTreeMap<u64, Signs>,
}

/// The state of a connection that waits for a request.
#[derive(Clone, Default)]
struct Signs {
    /// It has to make room.
    cut: CancellationToken,
    /// Its request has come after all, or it has ended.
    busy: CancellationToken,
}

impl Idle {
    fn begin(&self) -> Waiting {
        let signs = Signs::default();
        let mut waiters = self.waiters();
        waiters.begun += 1;
        let number = waiters.begun;
        waiters.signs.insert(number, signs.clone());
        Waiting { idle: self.clone(), number, signs }
    }

    fn cut_oldest(&self) -> Option<Signs> {
        let (_, oldest) = self.waiters().signs.pop_first()?;
        oldest.cut.cancel();
        Some(oldest)
    }

    fn waiters(&self) -> MutexGuard<'_, Waiters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection whose request has not come, until it has or the connection has ended.
struct Waiting {
    idle: Idle,
    number: u64,
    signs: Signs,
}

impl Waiting {
    /// Waits until the connection is to make room, and has no request.
    fn idle_at_cut(&self) -> impl Future<Output = ()> + use<> {
        let Signs { cut, busy } = self.signs.clone();
        async move {
            cut.cancelled().await;
            if busy.is_cancelled() {
                pending::<()>().await;
            }
        }
    }

    fn ends(&self) {
        self.idle.waiters().signs.remove(&self.number);
        self.signs.busy.cancel();
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.ends();
    }
}

/// The routes for one connection.
struct Served {
    routes: TowerToHyperService<Router>,
    waiting: Waiting,
}

impl Service<Request<Incoming>> for Served {
    type Response = Response;
    type Error = Infallible;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.waiting.ends();
        self.routes.call(request)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpStream;

    use axum::routing::get;
    use nix::sys::resource::setrlimit;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::serve::listen;

    const LIMITS: Limits = Limits {
        connection: None,
        keep_alive: false,
        connections: Some(2),
        unsent: None,
        unread: Duration::from_secs(3600),
    };

    #[tokio::test]
    async fn a_request_that_is_here_is_served_however_many_idle_connections_come_after() {
        let listener = listen("--listen", "127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let asks = |path: &str| {
            let mut stream = TcpStream::connect(address).unwrap();
            write!(stream, "GET {path} HTTP/1.0\r\nHost: a\r\n\r\n").unwrap();
            stream.set_nonblocking(true).unwrap();
            tokio::net::TcpStream::from_std(stream).unwrap()
        };
        // All of them are there before the first one is accepted.
        let waits = asks("/waits");
        let idle: Vec<_> = (0..50).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut last = asks("/");
        let end = CancellationToken::new();
        let (begun, released) = (CancellationToken::new(), CancellationToken::new());
        let (begins, ends) = (begun.clone(), released.clone());
        let waiting = move || {
            begins.cancel();
            ends.clone().cancelled_owned()
        };
        let routes = Router::new().route("/waits", get(waiting)).route("/", get(|| async { "ok" }));
        let reading = async {
            let mut said = String::new();
            // Before any of them is late.
            let read =
                timeout(REQUEST_LIMIT - Duration::from_secs(1), last.read_to_string(&mut said));
            read.await.expect("there is room").unwrap();
            released.cancel();
            end.cancel();
            said
        };
        let answering = answer(Listener::Tcp(listener), routes, LIMITS, &end, || ());
        let ((), said) = tokio::join!(answering, reading);
        assert!(said.ends_with("ok") && begun.is_cancelled(), "{said}");
        drop((waits, idle));
    }

    #[tokio::test]
    async fn an_answer_that_nobody_reads_keeps_its_connection_for_so_long_and_no_longer() {
        let listener = listen("--listen", "127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let asks = async |path: &str| {
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let request = format!("GET {path} HTTP/1.0\r\nHost: a\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            stream
        };
        // More than the kernel keeps.
        let long = "a".repeat(4 * 1024 * 1024);
        let routes =
            Router::new().route("/long", get(|| async { long })).route("/", get(|| async { "ok" }));
        let unread = Duration::from_millis(200);
        let limits = Limits { unsent: Some(8 * 1024), unread, ..LIMITS };
        let end = CancellationToken::new();
        let reading = async {
            let unread = [asks("/long").await, asks("/long").await];
            let (mut last, mut said) = (asks("/").await, String::new());
            let read = timeout(Duration::from_secs(60), last.read_to_string(&mut said));
            read.await.expect("there is room").unwrap();
            end.cancel();
            drop(unread);
            said
        };
        let answering = answer(Listener::Tcp(listener), routes, limits, &end, || ());
        let ((), said) = tokio::join!(answering, reading);
        assert!(said.ends_with("ok"), "{said}");
    }

    #[tokio::test]
    async fn twelve_hundred_connections_at_once_find_room_in_the_queue() {
        let (count, most) = (1_200, "/proc/sys/net/core/somaxconn");
        let most: u64 = std::fs::read_to_string(most).unwrap().trim().parse().unwrap();
        let (_, files) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        // Other tests have files, too.
        let has_room = most >= count && files >= 2 * count;
        if !has_room || setrlimit(Resource::RLIMIT_NOFILE, files, files).is_err() {
            return;
        }
        let listener = listen("--listen", "127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        // A second would pass until the system asks again.
        let limit = Duration::from_millis(900);
        let mut all = Vec::new();
        for nth in 0..count {
            let connection = TcpStream::connect_timeout(&address, limit);
            all.push(connection.unwrap_or_else(|error| panic!("number {nth}: {error}")));
        }
    }
}
