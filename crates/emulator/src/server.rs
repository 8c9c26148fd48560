//! The socket: who is connected, and how connections end.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::body::Body;

use crate::flow::{Flow, Flows};
use crate::service::{Connection, Core};

/// How many requests one connection may have under way. A client with a single connection can
/// have thousands that wait for locks.
const CONCURRENT_REQUESTS_MAX: u32 = 100_000;
/// How many connections may wait to be accepted.
const BACKLOG: u32 = 1_024;

/// How long nothing is accepted after a failure.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// An answer on its way. It is on the heap, so that the task of its request is small to move.
pub(crate) type Answer = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// A service's answer to a request. All services have this one type, so the server is compiled once.
pub(crate) type Answering = Arc<dyn Fn(Request<Incoming>) -> Answer + Send + Sync>;

/// A server that accepts connections, until it is told not to. It ends with the emulator, or earlier if
/// it is closed.
#[derive(Debug)]
pub(crate) struct Listening {
    pub address: SocketAddr,
    flows: Flows,
    closed: CancellationToken,
    accepting: tokio::task::JoinHandle<()>,
}

impl Listening {
    /// Starts to listen. Connections are accepted from when this returns.
    pub fn start(
        core: &Arc<Core>,
        address: SocketAddr,
        answering: Answering,
    ) -> io::Result<Listening> {
        let listener = listen(address)?;
        let address = listener.local_addr()?;
        let flows = Flows::default();
        let closed = core.stopped.child_token();
        let accepting =
            core.tasks.spawn(accept(listener, answering, flows.clone(), closed.clone()));
        Ok(Listening { address, flows, closed, accepting })
    }

    /// Begins to close.
    pub fn shut(&self) {
        self.closed.cancel();
    }

    /// Swallows from here on what flows on the connections that are open, in both directions, and
    /// closes nothing. Returns how many those are.
    pub fn swallow(&self, core: &Core) -> usize {
        let sockets = self.flows.swallow();
        let count = sockets.len();
        for socket in sockets {
            core.tasks.spawn(drain(socket, core.stopped.clone()));
        }
        count
    }

    /// Stops listening, breaks every connection, and waits until its requests have ended.
    pub async fn close(self) {
        self.shut();
        // It can only have ended by itself, or by the runtime's end; both are what is wanted.
        let _ = self.accepting.await;
    }
}

/// Reads for nobody, until the sender closes.
async fn drain(mut socket: TcpStream, stopped: CancellationToken) {
    let mut nobody = tokio::io::sink();
    tokio::select! {
        () = stopped.cancelled() => {}
        // Whatever ended it, the sender is gone.
        _ = tokio::io::copy(&mut socket, &mut nobody) => {}
    }
}

async fn accept(
    listener: TcpListener,
    answering: Answering,
    flows: Flows,
    closed: CancellationToken,
) {
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = closed.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, _)) => {
                // Small messages in both directions; it works without, only slower.
                let _ = socket.set_nodelay(true);
                let connection = Connection(closed.child_token());
                let requests = Requests { tasks: connections.clone(), connection };
                let (flow, open) = flows.add(socket);
                let serving = serve(flow, requests, Arc::clone(&answering));
                connections.spawn(async move {
                    serving.await;
                    drop(open);
                });
            }
            // Out of file descriptors, or the peer gone already: the next one may do better.
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
    stop_listening(listener);
    // No request of these changes anything after that: a restart may lose rows now.
    connections.close();
    connections.wait().await;
}

async fn serve(flow: Flow, requests: Requests, answering: Answering) {
    let connection = requests.connection.clone();
    let cut = connection.0.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(connection.clone());
        let answer = answering(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut server = auto::Builder::new(requests);
    let mut http2 = server.http2();
    http2.max_concurrent_streams(CONCURRENT_REQUESTS_MAX);
    // A busy machine reads requests late. Of those that were given up by then there may be as many.
    http2.max_pending_accept_reset_streams(CONCURRENT_REQUESTS_MAX as usize);
    let serving = server.serve_connection(TokioIo::new(flow), service);
    tokio::select! {
        biased;
        () = cut.cancelled() => {}
        // Whatever ended it, there is nobody left to tell.
        _ = serving => {}
    }
    cut.cancel();
}

/// Runs the requests of one connection, and drops them with it.
#[derive(Clone)]
struct Requests {
    tasks: TaskTracker,
    connection: Connection,
}

impl Requests {
    fn spawn(&self, request: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let cut = self.connection.0.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = cut.cancelled_owned() => {}
                () = request => {}
            }
        });
    }
}

impl<F> Executor<F> for Requests
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, request: F) {
        self.spawn(Box::pin(async { drop(request.await) }));
    }
}

/// A port that the system gives to nobody else while its server is shut. Beside a socket that is bound
/// and does not listen, Linux lets one listen that names the port, if both have `SO_REUSEADDR`. Other systems
/// don't, so that there the port is free meanwhile.
pub(crate) struct Reserved {
    pub address: SocketAddr,
    _socket: Option<TcpSocket>,
}

impl Reserved {
    /// Reserves a port; port 0 lets the system pick a free one.
    pub fn new(address: SocketAddr) -> io::Result<Reserved> {
        if !cfg!(target_os = "linux") {
            return Ok(Reserved { address, _socket: None });
        }
        let socket = bind(address)?;
        Ok(Reserved { address: socket.local_addr()?, _socket: Some(socket) })
    }
}

/// Listens, with `SO_REUSEADDR`, so that a server can come back to its port at once.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    bind(address)?.listen(BACKLOG).map_err(|error| named(address, &error))
}

/// Frees the port at once. Closing doesn't, while a process starts: it has a copy of every socket until its
/// program runs.
fn stop_listening(listener: TcpListener) {
    // Systems on which a socket that listens can't be shut down refuse it, and close it below.
    let _ = SockRef::from(&listener).shutdown(Shutdown::Both);
    drop(listener);
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let bound = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(socket)
    };
    bound().map_err(|error| named(address, &error))
}

/// Names the port in an error, since a server has several.
fn named(address: SocketAddr, error: &io::Error) -> io::Error {
    let (port, host) = (address.port(), address.ip());
    let reason = match error.kind() {
        io::ErrorKind::AddrInUse => format!("port {port} of {host} is taken"),
        _ => format!("cannot listen on port {port} of {host}: {error}"),
    };
    io::Error::new(error.kind(), reason)
}
