//! The count of the requests that locks send to Spanner, by the `metrics` facade; nothing without
//! the feature.

/// A request to Spanner, as its RPCs go.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Request {
    Read,
    Query,
    Commit,
    Rollback,
}

/// Notes that a request is sent.
#[cfg(feature = "metrics")]
pub(crate) fn count(request: Request) {
    let rpc = match request {
        Request::Read => "read",
        Request::Query => "query",
        Request::Commit => "commit",
        Request::Rollback => "rollback",
    };
    // A recorder that panics loses the number, and harms no request. The panic hook has reported it.
    let _ = std::panic::catch_unwind(|| {
        metrics::counter!("spindle_requests_total", "rpc" => rpc).increment(1);
    });
}

#[cfg(not(feature = "metrics"))]
pub(crate) fn count(_: Request) {}
