//! The laws of members, shards, permits, readers and writers, on the embedded Spanner and on virtual time.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

/// The modules that tests of locks stand on, too.
macro_rules! shared {
    ($($module:ident at $path:literal),*) => {$(
        #[path = $path]
        #[allow(dead_code, reason = "what the tests of locks alone use")]
        mod $module;
    )*};
}

shared!(
    line at "../../../../tests/behaviour/line.rs",
    log at "../../../../tests/behaviour/log.rs",
    threads at "../../../../tests/behaviour/threads.rs",
    world at "../../../../tests/behaviour/world.rs"
);

mod fleet;

mod deploys;
mod in_turn;
mod members;
mod permits;
mod polls;
mod readers_and_writers;
mod shard_count;
mod shards;
mod shards_blocked;
mod shards_seen;
mod weights;
