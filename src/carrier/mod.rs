//! The carrier: acts of many locks travel together.
//!
//! One for each connection and runtime. It collects the acts of the instances there. It sends what
//! is due at about the same time as one read, or as one transaction over many rows. The protocol
//! knows nothing of it. Each row is judged alone by its act's own definition, and an instance's
//! validity counts from its decision, before its act gets here.

mod budget;
pub(crate) mod judge;
mod lanes;
mod parcel;
mod post;
mod record;
mod seat;
mod step;
mod store;
mod trip;
mod window;

pub(crate) use budget::{Budget, Charge, Repeats};
pub(crate) use parcel::Load;
pub(crate) use seat::{Carriers, Seat};
pub(crate) use step::Step;
pub(crate) use store::{Fate, Sight, Store, Verdict};
