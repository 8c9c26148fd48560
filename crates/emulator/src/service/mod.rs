//! gRPC: requests become calls of the engine, and its answers replies.

mod calls;
mod commits;
mod convert;
mod core;
mod names;
mod reads;
mod replays;
mod results;
mod select;
mod sessions;
pub(crate) mod spanner;
mod statements;
mod status;
mod transactions;

use googleapis_tonic_google_spanner_v1::google::spanner::v1 as proto;
use tokio_util::sync::CancellationToken;

pub(crate) use convert::encode_timestamp;
pub(crate) use core::Core;
pub(crate) use names::shaped;
pub(crate) use sessions::page;
pub(crate) use status::status;

/// The connection that a request came on.
#[derive(Clone, Debug)]
pub(crate) struct Connection(pub CancellationToken);
