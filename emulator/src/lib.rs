//! An embedded Cloud Spanner for tests: in-process, serializable, with faults on demand.

mod control;
mod emulator;
pub mod engine;
mod faults;
mod rpc;
mod server;
mod service;
pub mod sql;

pub use emulator::{Emulator, EmulatorBuilder, Restart};
pub use faults::{Effect, Fault, FaultHandle};
pub use rpc::{RequestCounts, Rpc};
