#![doc = include_str!("../README.md")]

mod admin;
mod control;
mod door;
mod emulator;
pub mod engine;
mod faults;
mod grpc;
mod http1;
mod random;
mod rpc;
mod running;
mod server;
mod service;
pub mod sql;

pub use door::Door;
pub use emulator::{Emulator, EmulatorBuilder};
pub use faults::{Effect, Fault, FaultHandle};
pub use rpc::{RequestCounts, Rpc};
pub use running::Restart;
