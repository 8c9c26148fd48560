//! Distributed lock and leader election on Cloud Spanner, with fencing tokens.

mod check;
mod clock;
mod config;
mod connection;
mod driver;
mod error;
mod fence;
mod locks;
mod row;
mod spindle;
mod status;
mod table;
mod token;
mod transact;

/// Google's client, at the exact version that this library is built on.
pub use google_cloud_spanner;
pub use tokio_util::sync::CancellationToken;

pub use clock::Clock;
pub use config::LockBuilder;
pub use error::{Error, Result};
pub use fence::Fence;
pub use locks::{Leader, LockTable};
pub use spindle::{Running, Spindle};
pub use status::{Change, Health, Loss, Role, Term, Trouble, Watch};
pub use token::FencingToken;
