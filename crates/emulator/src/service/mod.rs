//! gRPC: requests become calls of the engine, and its answers replies.

mod calls;
pub(crate) mod codec;
mod commits;
mod convert;
mod core;
mod names;
mod reads;
mod replays;
mod results;
mod select;
mod sessions;
mod spanner;
mod statements;
mod status;
mod transactions;

use googleapis_tonic_google_spanner_v1::google::spanner::v1 as proto;
use tokio_util::sync::CancellationToken;

pub(crate) use core::Core;
pub(crate) use spanner::Spanner;
pub(crate) use status::status;

/// The reply that says nothing but that it was done.
pub(crate) type Empty = ();

/// The server half of the service, which `build.rs` writes.
#[allow(clippy::all, clippy::too_many_lines, reason = "generated")]
pub(crate) mod generated {
    include!(concat!(env!("OUT_DIR"), "/google.spanner.v1.Spanner.rs"));
}

/// The connection that a request came on.
#[derive(Clone, Debug)]
pub(crate) struct Connection(pub CancellationToken);

/// The largest request; Cloud Spanner's limit for a commit.
pub(crate) const REQUEST_BYTES_MAX: usize = 100 << 20;
