//! The rules of admission, and the headers that every answer gives to the browser.
//!
//! A page of another site may resolve its own name to this machine. Then it could read what is here
//! as if it were its own (DNS rebinding). It can't choose the `Host` of its requests, so a name
//! that is not this program's is turned away; an address can't be rebound.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

/// The names by which this program may be called, besides addresses and `localhost`.
#[derive(Clone, Debug)]
pub struct AllowedHosts(Arc<[String]>);

impl AllowedHosts {
    pub fn new(names: &[String]) -> AllowedHosts {
        AllowedHosts(names.iter().map(|name| name.to_ascii_lowercase()).collect())
    }

    fn allows(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        let Ok(host) = host.to_str() else { return false };
        let Some(name) = without_port(host) else { return false };
        let name = name.to_ascii_lowercase();
        let address = name.trim_start_matches('[').trim_end_matches(']');
        name == "localhost" || address.parse::<IpAddr>().is_ok() || self.0.contains(&name)
    }
}

fn without_port(host: &str) -> Option<&str> {
    let (name, port) = match host.rfind(']') {
        Some(end) => host.split_at(end + 1),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let is_well_formed = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
    is_well_formed.then_some(name)
}

pub async fn check_host(
    State(allowed): State<AllowedHosts>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = if allowed.allows(request.headers()) {
        next.run(request).await
    } else {
        let text = "this host name is not known here; start with --allow-host NAME to allow it\n";
        (StatusCode::MISDIRECTED_REQUEST, text).into_response()
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_known_names_are_let_in_and_no_others() {
        let allowed = AllowedHosts::new(&["Locks.example.com".to_string()]);
        let allows = |host: &str| {
            let host = HeaderValue::from_str(host).unwrap();
            allowed.allows(&HeaderMap::from_iter([(header::HOST, host)]))
        };
        for host in [
            "127.0.0.1:9464",
            "10.0.0.7",
            "[::1]:9464",
            "localhost",
            "LOCALHOST:1",
            "locks.example.com:80",
        ] {
            assert!(allows(host), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:9464", ""] {
            assert!(!allows(host), "{host}");
        }
        for host in ["locks.example.com:80@evil", "localhost:x", "[::1]x"] {
            assert!(!allows(host), "{host}");
        }
        assert!(!allowed.allows(&HeaderMap::new()));
    }
}
