#![doc = include_str!("../README.md")]

mod admin;
mod control;
mod emulator;
pub mod engine;
mod faults;
mod flow;
mod grpc;
mod http1;
mod port;
mod random;
mod rpc;
mod running;
mod server;
mod service;
pub mod sql;

pub use emulator::{Emulator, EmulatorBuilder};
pub use faults::{Effect, Fault, FaultHandle};
pub use port::Port;
pub use rpc::{RequestCounts, Rpc};
pub use running::Restart;
