//! Readers and writers: many who read, or one who writes.
//!
//! Each reader has a row of its own, and the writers share one, the writers' row. All of them are ordinary
//! instances, which heartbeat and expire as a lock's do. Two things differ, and stand here. A
//! [`Reader`] begins only where the writers' row is vacant. A writer's first commit takes the writers' row, which
//! stops new readers and gives nothing else; once it is [`Stopped`], a second commit begins its
//! term.

mod reader;
mod stopped;

pub use reader::{Reader, is_left_to_readers, left_to_readers};
pub use stopped::{Stopped, WriterDecision, Writing};

#[cfg(test)]
mod tests;
