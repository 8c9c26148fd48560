//! Services over HTTP/1.1 and JSON, each on a port of its own.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};

use crate::engine::{Code, Error};
use crate::service::Core;
use crate::socket::bind;

/// A reply, whole.
pub(crate) type Reply = Response<Full<Bytes>>;

/// A service's answer to a request. All services have this one type, so the server is compiled once.
pub(crate) type Answering =
    Arc<dyn Fn(Request<Incoming>) -> Pin<Box<dyn Future<Output = Reply> + Send>> + Send + Sync>;

/// Starts to answer requests, and says where. It ends with the server.
pub(crate) fn start(
    core: &Arc<Core>,
    address: SocketAddr,
    answer: Answering,
) -> io::Result<SocketAddr> {
    let listener = bind(address)?;
    let address = listener.local_addr()?;
    core.tasks.spawn(accept(listener, Arc::clone(core), answer));
    Ok(address)
}

/// Returns the status of an error, as Google's HTTP APIs have it.
pub(crate) fn status(error: &Error) -> StatusCode {
    match error.code() {
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Refuses a request that may be one that a web page makes its visitor's browser send.
///
/// A page can reach every port of the machine. Its requests name it as their origin, or have one
/// of the content types that need nobody's leave. Or their host's name leads here by a trick.
pub(crate) fn refuse_web_page(head: &http::request::Parts) -> Result<(), Error> {
    let refused = |reason| Err(Error::new(Code::PermissionDenied, reason));
    let text = |name| head.headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if let Some(origin) = text(http::header::ORIGIN) {
        return refused(format!("a request from the web page {origin} is refused"));
    }
    let host = text(http::header::HOST).or(head.uri.host()).unwrap_or_default();
    let has_port = |(_, port): &(&str, &str)| port.bytes().all(|next| next.is_ascii_digit());
    let name = host.rsplit_once(':').filter(has_port).map_or(host, |(name, _)| name);
    let address = name.trim_start_matches('[').trim_end_matches(']');
    // Anybody can point a public name, which has a dot, to this machine.
    let is_private =
        |name: &str| [".localhost", ".local", ".internal"].iter().any(|zone| name.ends_with(zone));
    if address.contains('.') && address.parse::<IpAddr>().is_err() && !is_private(address) {
        return refused(format!("the host {host} is a public name, not this machine's address"));
    }
    match text(http::header::CONTENT_TYPE) {
        Some(kind) if kind.split(';').next().map(str::trim) != Some("application/json") => {
            refused(format!("the content type {kind} is not application/json"))
        }
        _ => Ok(()),
    }
}

/// Returns a reply of this status with a JSON body.
pub(crate) fn reply(status: StatusCode, body: &Value) -> Reply {
    let mut response = Response::new(Full::new(Bytes::from(format!("{body}\n"))));
    *response.status_mut() = status;
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    response
}

async fn accept(listener: TcpListener, core: Arc<Core>, answer: Answering) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = core.stopped.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                core.tasks.spawn(serve(stream, Arc::clone(&core), Arc::clone(&answer)));
            }
            // Out of file descriptors, or the peer gone already: the next one may do better.
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

async fn serve(stream: TcpStream, core: Arc<Core>, answer: Answering) {
    let service = service_fn(move |request| {
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        biased;
        () = core.stopped.cancelled() => {}
        // Whatever ended it, there is nobody left to tell.
        _ = serving => {}
    }
}
