//! The socket: who is connected, and how connections end.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::body::Body;

use crate::admin::{self, Admin};
use crate::service::{Connection, Core, spanner};
use crate::socket::bind;

/// How many requests one connection may have under way. A client with a single connection can
/// have thousands that wait for locks.
const CONCURRENT_REQUESTS_MAX: u32 = 100_000;

/// A server that accepts connections, until it is told not to.
#[derive(Debug)]
pub(crate) struct Listening {
    pub address: SocketAddr,
    closed: CancellationToken,
    accepting: tokio::task::JoinHandle<()>,
}

impl Listening {
    /// Starts to listen. Connections are accepted from when this returns.
    pub fn start(
        core: &Arc<Core>,
        admin: &Arc<Admin>,
        address: SocketAddr,
    ) -> io::Result<Listening> {
        let listener = bind(address)?;
        let address = listener.local_addr()?;
        let closed = core.stopped.child_token();
        let services = Services { core: Arc::clone(core), admin: Arc::clone(admin) };
        let accepting = core.tasks.spawn(accept(listener, services, closed.clone()));
        Ok(Listening { address, closed, accepting })
    }

    /// Begins to close.
    pub fn shut(&self) {
        self.closed.cancel();
    }

    /// Stops listening and breaks every connection.
    pub async fn close(self) {
        self.shut();
        // It can only have ended by itself, or by the runtime's end; both are what is wanted.
        let _ = self.accepting.await;
    }
}

/// The services behind a connection.
#[derive(Clone)]
struct Services {
    core: Arc<Core>,
    admin: Arc<Admin>,
}

async fn accept(listener: TcpListener, services: Services, closed: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = closed.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let connection = Connection(closed.child_token());
                services.core.tasks.spawn(serve(stream, services.clone(), connection));
            }
            // Out of file descriptors, or the peer gone already: the next one may do better.
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

async fn serve(stream: TcpStream, services: Services, connection: Connection) {
    let Services { core, admin } = services;
    // Small messages in both directions; it works without, only slower.
    let _ = stream.set_nodelay(true);
    let requests = Requests { tasks: core.tasks.clone(), connection: connection.clone() };
    let cut = connection.0.clone();
    let service = service_fn(move |mut request: http::Request<Incoming>| {
        request.extensions_mut().insert(connection.clone());
        answer(Arc::clone(&core), Arc::clone(&admin), request)
    });
    let mut server = auto::Builder::new(requests);
    server.http2().max_concurrent_streams(CONCURRENT_REQUESTS_MAX);
    let serving = server.serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        biased;
        () = cut.cancelled() => {}
        // Whatever ended it, there is nobody left to tell.
        _ = serving => {}
    }
    cut.cancel();
}

/// An answer on its way. It is on the heap, so that the task of its request is small to move.
type Answer = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

fn answer(core: Arc<Core>, admin: Arc<Admin>, request: http::Request<Incoming>) -> Answer {
    // gRPC needs HTTP/2, and Google's Rust client administers an emulator that isn't on the usual
    // port over REST on this one.
    if request.version() < http::Version::HTTP_2 {
        return Box::pin(
            async move { Ok(admin::rest::answer(&admin, request).await.map(Body::new)) },
        );
    }
    match request.uri().path().split('/').nth(1) {
        Some(spanner::NAME) => Box::pin(async { Ok(spanner::answer(core, request).await) }),
        _ => Box::pin(async { Ok(admin::grpc::answer(admin, request).await) }),
    }
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
