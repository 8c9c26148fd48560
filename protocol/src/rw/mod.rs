//! Readers and writers: many who read, or one who writes.
//!
//! Each reader has a row of its own, and the writers share one, the gate. All of them are ordinary
//! instances, which heartbeat and expire as a lock's do. Two things differ, and stand here. A
//! [`Reader`] begins only where the gate is vacant. A writer's first commit takes the gate, which
//! stops new readers and gives nothing else; once it is [`Stopped`], a second commit begins its
//! term.

mod reader;
mod stopped;

pub use reader::Reader;
pub use stopped::{Sight, Stopped, Writing};

#[cfg(test)]
mod tests;
