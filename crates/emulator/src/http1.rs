//! Requests and replies in JSON, over HTTP/1.1.

use std::net::IpAddr;

use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tonic::body::Body;

use crate::engine::{Code, Error};

/// The longest request: the longest DDL, and room for how JSON escapes it.
const BODY_BYTES_MAX: usize = 32 << 20;

/// Returns a request with its whole body, unless a web page sent it.
pub(crate) async fn whole(request: Request<Incoming>) -> Result<(Parts, Bytes), Error> {
    let (head, body) = request.into_parts();
    refuse_web_page(&head)?;
    let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
    let body = body.map_err(|error| Error::invalid_argument(error.to_string()))?;
    Ok((head, body.to_bytes()))
}

/// Reads the JSON of a request; nothing at all is an object without fields, and NULL is a field that was left
/// out.
///
/// # Errors
/// `unknown` for a field that `T` doesn't have, INVALID_ARGUMENT for anything else; both name the field.
pub(crate) fn parse<T: DeserializeOwned>(
    body: &[u8],
    unknown: fn(String) -> Error,
) -> Result<T, Error> {
    let body = if body.is_empty() { b"{}" } else { body };
    let mut fields: Map<String, Value> = serde_json::from_slice(body).map_err(|error| {
        Error::invalid_argument(format!("the request is no JSON object: {error}"))
    })?;
    without_nulls(&mut fields);
    serde_path_to_error::deserialize(fields).map_err(|error| {
        // Nothing else of the error tells.
        match error.inner().to_string().starts_with("unknown field") {
            true => unknown(error.to_string()),
            false => Error::invalid_argument(error.to_string()),
        }
    })
}

fn without_nulls(fields: &mut Map<String, Value>) {
    fields.retain(|_, value| !value.is_null());
    fields.values_mut().filter_map(Value::as_object_mut).for_each(without_nulls);
}

/// Returns the status of an error, as Google's HTTP APIs have it.
pub(crate) fn status(error: &Error) -> StatusCode {
    match error.code() {
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
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
fn refuse_web_page(head: &Parts) -> Result<(), Error> {
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
pub(crate) fn reply(status: StatusCode, body: &Value) -> Response<Body> {
    let body = Full::new(Bytes::from(format!("{body}\n")));
    let mut response = Response::new(Body::new(body));
    *response.status_mut() = status;
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    response
}
