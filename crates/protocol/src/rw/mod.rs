//! Readers and writers: many who read, or one who writes.
//!
//! Each reader has a row of its own. A writer holds two ordinary locks: the *gate*, which stops new
//! readers, and then, once nobody reads any more, the *write lock*. Its term is that of the write
//! lock. All of them are ordinary instances, which heartbeat and expire as a lock's do. Two begins
//! differ, and stand here: a [`Reader`] begins only where gate and write lock are vacant, and a
//! [`WriteLock`] only where nobody reads.

mod reader;
mod write_lock;

pub use reader::{Reader, is_left_to_readers};
pub use write_lock::WriteLock;

#[cfg(test)]
mod tests;
