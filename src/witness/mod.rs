//! Tells the agent of this host which instances this process has, so that it releases for them once the kernel says
//! that the process is gone.
//!
//! It costs Spanner no request. Where no agent listens, or one of another table, the locks work as ever.

mod registration;
mod speaker;
mod stream;

pub(crate) use registration::{Registration, Witness};
pub(crate) use speaker::Place;
