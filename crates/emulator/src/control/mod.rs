//! The control service: faults, restarts and the clock for tests that aren't in Rust.
//!
//! HTTP/1.1 with JSON, on a port of its own, so that it answers while the server is paused.

mod request;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};

use crate::engine::{Code, Error, Result};
use crate::http1;
use crate::running::Running;
use crate::server::{Answer, Listening};
use request::{Advance, Copy, Creation, Injection, described, parse};

/// Starts the service, and says where it listens. It ends with the server.
pub(crate) fn start(running: &Arc<Running>, address: SocketAddr) -> io::Result<SocketAddr> {
    let shared = Arc::clone(running);
    let answering = move |request| answer(Arc::clone(&shared), request);
    Ok(Listening::start(&running.core, address, Arc::new(answering))?.address)
}

fn answer(running: Arc<Running>, request: Request<Incoming>) -> Answer {
    Box::pin(async move {
        match done(&running, request).await {
            Ok(body) => http1::reply(StatusCode::OK, &body),
            Err(error) => http1::reply(http1::status(&error), &json!({ "error": error.message() })),
        }
    })
}

async fn done(running: &Arc<Running>, request: Request<Incoming>) -> Result<Value> {
    let (head, body) = http1::whole(request).await?;
    let faults = &running.core.faults;
    let path: Vec<&str> = head.uri.path().trim_matches('/').split('/').collect();
    match (&head.method, path.as_slice()) {
        (&Method::POST, ["faults"]) => {
            let fault = parse::<Injection>(&body)?.fault()?;
            Ok(json!({ "id": running.core.inject(fault)?.id() }))
        }
        (&Method::GET, ["faults"]) => Ok(active(running)),
        (&Method::GET, ["faults", id]) => {
            let hits = id.parse().ok().and_then(|id| faults.hits(id));
            Ok(json!({ "hits": hits.ok_or_else(|| missing("that fault"))? }))
        }
        (&Method::DELETE, ["faults", id]) => {
            Ok(json!({ "removed": id.parse().is_ok_and(|id| faults.remove(id)) }))
        }
        (&Method::DELETE, ["faults"]) => {
            faults.clear();
            Ok(json!({}))
        }
        (&Method::GET, ["requests"]) => Ok(requests(running)),
        (&Method::DELETE, ["requests"]) => {
            running.core.counts.reset();
            Ok(json!({}))
        }
        (&Method::POST, ["clock", "advance"]) => {
            let Advance { ms } = parse(&body)?;
            running.core.clock().advance(Duration::from_millis(ms));
            Ok(json!({ "now": running.core.clock().now().to_string() }))
        }
        (&Method::POST, ["pause"]) => {
            running.ports.pause().await;
            Ok(json!({}))
        }
        (&Method::POST, ["resume"]) => {
            running.ports.resume().await.map(|()| json!({})).map_err(unavailable)
        }
        (&Method::POST, ["swallow_connections"]) => {
            Ok(json!({ "connections": running.ports.swallow().await }))
        }
        (method, ["ports", path @ ..]) => ports(running, method, path).await,
        (&Method::POST, ["restart"]) => {
            running.restart(parse(&body)?).await.map(|()| json!({})).map_err(unavailable)
        }
        (&Method::POST, ["databases"]) => {
            let Creation { name, dialect, ddl } = parse(&body)?;
            running.create_database(&name, dialect, &ddl)?;
            Ok(json!({}))
        }
        (&Method::POST, ["databases", "copy"]) => {
            let Copy { from, to } = parse(&body)?;
            running.admin.copy_database(&from, &to)?;
            Ok(json!({}))
        }
        (&Method::DELETE, ["databases", name @ ..]) => {
            Ok(json!({ "removed": running.admin.remove_database(&name.join("/")) }))
        }
        _ => Err(missing(&format!("{} {}", head.method, head.uri.path()))),
    }
}

/// Answers what is about the ports that this service opens.
async fn ports(running: &Running, method: &Method, path: &[&str]) -> Result<Value> {
    if let (&Method::POST, []) = (method, path) {
        let address = running.open_port().await.map_err(unavailable)?;
        return Ok(json!({ "port": address.port(), "address": address.to_string() }));
    }
    if let (&Method::DELETE, [number]) = (method, path) {
        return Ok(json!({ "removed": running.close_port(number) }));
    }
    let (&Method::POST, [number, act]) = (method, path) else {
        return Err(missing(&format!("{method} /ports/{}", path.join("/"))));
    };
    let port = running.port(number).ok_or_else(|| missing("that port"))?;
    match *act {
        "cut_off" => port.cut_off().await,
        "restore" => port.restore().await.map_err(unavailable)?,
        "swallow_connections" => {
            return Ok(json!({ "connections": port.swallow_connections().await }));
        }
        _ => return Err(missing(&format!("{method} /ports/{number}/{act}"))),
    }
    Ok(json!({}))
}

fn active(running: &Running) -> Value {
    let described = |(id, fault, hits)| {
        let mut fields = described(&fault);
        fields["id"] = json!(id);
        fields["hits"] = json!(hits);
        fields
    };
    running.core.faults.active().into_iter().map(described).collect()
}

fn missing(what: &str) -> Error {
    Error::new(Code::NotFound, format!("{what} is not there"))
}

fn unavailable(error: io::Error) -> Error {
    Error::new(Code::Unavailable, error.to_string())
}

fn requests(running: &Running) -> Value {
    let counts = &running.core.counts;
    let mut each = json!({ "total": counts.total() });
    for (rpc, count) in counts.each() {
        each[rpc.to_string()] = count.into();
    }
    each
}
