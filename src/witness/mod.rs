//! Tells the agent of this host which instances this process has, so that it releases for them once the kernel says
//! that the process is gone.
//!
//! It costs Spanner no request. Where no agent listens, or one of another table, the locks work as ever.

mod registration;
#[cfg_attr(not(unix), allow(dead_code, reason = "nothing is said there"))]
mod speaker;
#[cfg(unix)]
mod stream;

pub(crate) use registration::{Registration, Witness};
pub(crate) use speaker::Place;
