#![doc = include_str!("../README.md")]

mod admin;
mod control;
mod door;
mod emulator;
pub mod engine;
mod faults;
mod http1;
mod rpc;
mod server;
mod service;
pub mod sql;

pub use door::Door;
pub use emulator::{Emulator, EmulatorBuilder, Restart};
pub use faults::{Effect, Fault, FaultHandle};
pub use rpc::{RequestCounts, Rpc};
