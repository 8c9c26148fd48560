//! Distributed lock and leader election on Cloud Spanner, with fencing tokens.
//!
//! One process of a fleet holds a named lock; the others stand by; when the holder dies, exactly
//! one of them takes over. Every *term* of a holder carries a [`FencingToken`] that Spanner itself
//! orders. So the database rejects writes from a leader that has been replaced and does not know it
//! yet.
//!
//! - [`LockTable`] is the root: a table of locks in a [`Database`].
//! - [`Spindle`] is one instance: it contends for one lock. [`run`](Spindle::run) contends for it
//!   in the background, [`has_lock`](Spindle::has_lock) says whether it holds.
//! - [`Term`] is what it holds: the token, a cancellation, and a [`Fence`] that makes a
//!   transaction in the same database conditional on it.
//!
//! [`run`](Spindle::run) contends in the background, and [`has_lock`](Spindle::has_lock) gives the
//! token of the term, at no request:
//!
//! ```no_run
//! use spindle::{CancellationToken, Spindle};
//!
//! # async fn service(cancel: CancellationToken) -> spindle::Result<()> {
//! let lock = Spindle::new("projects/p/instances/i/databases/d", "locktable", "billing");
//! let running = lock.run(cancel.clone());
//!
//! // The service works here, and asks wherever it matters:
//! if let Some(token) = lock.has_lock() {
//!     println!("leading under {token}");
//! }
//!
//! cancel.cancel();
//! running.await?; // the lock is released
//! # Ok(())
//! # }
//! ```
//!
//! [`lead`](Spindle::lead) runs a task while this process leads, and stops it when it doesn't:
//!
//! ```no_run
//! # async fn service(lock: spindle::Spindle, cancel: spindle::CancellationToken) -> spindle::Result<()> {
//! lock.lead(cancel, |term| async move {
//!     println!("leading under {}", term.token());
//!     term.cancelled().await;
//! })
//! .await?;
//! # Ok(())
//! # }
//! ```
//!
//! # From nothing to a fenced write
//!
//! On the embedded Spanner, which needs nothing but this process. In production the database's path
//! is enough, `LockTable::new(database, "locktable")`, and the client is that of your service.
//!
//! ```
//! use spindle::{Database, Ddl, LockTable};
//! use spindle::google_cloud_spanner::client::Spanner;
//! use spindle::google_cloud_spanner::mutation::Mutation;
//! use spindle_emulator::Emulator;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A database with the lock table, and a table of the service's own.
//! let database = "projects/p/instances/i/databases/d";
//! let orders = "CREATE TABLE orders (id INT64 NOT NULL) PRIMARY KEY (id)";
//! let emulator = Emulator::start().await?;
//! emulator.create_database(database, &format!("{}; {orders}", LockTable::ddl(Ddl::GoogleSql))).await?;
//! let spanner = Spanner::builder().with_endpoint(emulator.endpoint()).build().await?;
//! let client = spanner.database_client(database).build().await?;
//!
//! // Hold the lock: it is renewed in the background for as long as the guard lives.
//! let table = LockTable::new(Database::at(emulator.endpoint(), database), "locktable");
//! let lock = table.lock("billing").build()?;
//! let guard = lock.acquire().await?;
//!
//! // Write under its fence: committed while this term goes on, or not at all.
//! let order = |id: i64| [Mutation::new_insert_builder("orders").set("id").to(id).build()];
//! guard.fence().write(&client, order(7)).await?;
//!
//! // The next holder has a greater token, and what the last one sends late is refused.
//! let late = guard.fence();
//! guard.release().await;
//! let next = table.lock("billing").build()?.acquire().await?;
//! assert!(next.token() > late.token());
//! let refused = late.write(&client, order(8)).await.unwrap_err();
//! assert!(refused.is_fenced(), "{refused}");
//! # Ok(())
//! # }
//! ```
//!
//! A [`Guard`] is one way to hold. [`lead`](Spindle::lead) runs a task while this process leads.
//! [`run_once`](LockBuilder::run_once) runs a scheduled job once for each slot, on one process of a
//! fleet, and tries it again where that fails. For a service of [`run`](Spindle::run), [`watch`](Spindle::watch) tells each change,
//! and [`verify`](Spindle::verify) asks Spanner:
//!
//! ```
//! use spindle::{CancellationToken, Database, Ddl, LockTable, TermChange};
//! # use spindle_emulator::Emulator;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let database = "projects/p/instances/i/databases/d";
//! # let emulator = Emulator::start().await?;
//! # emulator.create_database(database, LockTable::ddl(Ddl::GoogleSql)).await?;
//! let table = LockTable::new(Database::at(emulator.endpoint(), database), "locktable");
//! let lock = table.lock("billing").build()?;
//! let cancel = CancellationToken::new();
//! let running = lock.run(cancel.clone());
//!
//! let mut changes = lock.watch();
//! if let Some(TermChange::Gained(term)) = changes.next().await {
//!     assert_eq!(lock.has_lock(), Some(term.token()));
//!     assert_eq!(lock.verify().await?, term.token());
//! }
//!
//! // Ends the term, releases the lock, and leaves nothing running.
//! cancel.cancel();
//! running.await?;
//! assert_eq!(lock.has_lock(), None);
//! # Ok(())
//! # }
//! ```
//!
//! Without an instance, [`LockTable`] tells who leads, lists, observes, evicts, seizes and removes.
//!
//! # Guides
//!
//! The repository and the package have them in `docs/`:
//!
//! - `choosing.md`: which way to hold, and how they differ;
//! - `service.md`: axum, SIGTERM, probes, metrics, locks that come and go;
//! - `testing.md`: a service with two replicas on virtual time;
//! - `operating.md`: log, metrics, alerts, bad days;
//! - `moving.md`: from other implementations;
//! - `design.md` and `safety.md`: how it works, and why to believe it;
//! - `batching.md`, `fleets.md`, `jobs.md`, `modules.md`: how the rest works, and where it is.
//!
//! # What to rely on
//!
//! [`Spindle`] lists what is promised and what is not. In short: the lock is exclusive by every
//! process's own clock, tokens only grow, and a *fenced* write can't come late. A write that
//! ignores the token can, because any process may be paused between looking and acting.
//!
//! # Time
//!
//! Spanner's clock alone judges if a lease has run out: commit timestamps against the timestamps of
//! strong reads. A holder's own [`Clock`](testing::Clock) alone judges if it may still call itself
//! holder, counted from before its last heartbeat was sent. The two never mix, and no clocks need
//! to be synchronised.
//!
//! # Runtime
//!
//! Each call that waits, holds or asks Spanner needs a tokio runtime with its timers and its I/O, as
//! `#[tokio::main]` makes it. Outside of any runtime, or on one without these, it gives an error, which
//! [`is_config`](Error::is_config). A table of a given client needs no I/O of the caller's runtime.
//!
//! Code that blocks a runtime starves the heartbeats of its locks. Where a service can't rule that out,
//! it runs its locks on a runtime beside its own; each runtime has a connection and a batcher to itself:
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let table = spindle::LockTable::new("projects/p/instances/i/databases/d", "locktable");
//! # let cancel = spindle::CancellationToken::new();
//! use tokio::runtime::Builder;
//!
//! // It lives as long as the process does.
//! let beside = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
//! let lock = table.lock("billing").build()?;
//! let _entered = beside.enter();
//! let running = lock.run(cancel);
//! # drop(running);
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! - `tls` (default): gives Google's client its crypto provider. Without one, `https` endpoints
//!   panic inside the client. Switch it off only if the service installs a `rustls` provider
//!   itself, or talks to a plain-text endpoint.
//! - `serde`: tokens and fences travel, in any of serde's formats.
//! - `metrics`: what each instance counts and measures, by the [`metrics`](https://docs.rs/metrics)
//!   facade; `docs/operating.md` lists them.
//! - `admin`: `LockTable::create` makes the table, and `upgrade` adds columns, through Google's
//!   admin client.

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
compile_error!(
    "spindle-lock supports Linux and macOS: on this system no clock is known to count the time that the machine sleeps"
);

mod batch;
mod budget;
mod error;
mod fence;
mod lock;
mod names;
pub mod operate;
pub mod rows;
mod runloop;
mod settings;
#[cfg(feature = "__simulation")]
#[doc(hidden)]
#[path = "../verify/inside.rs"]
pub mod simulation;
mod store;
mod system;
mod table;
mod term;
mod token;
mod witness;

/// Google's client, at the exact version that this library is built on.
pub use google_cloud_spanner;
pub use tokio_util::sync::CancellationToken;

pub use error::{Error, ReleaseOutcome, Result, TermEnd, is_fenced};
#[doc(hidden)]
pub use error::{is_answer, told_by_client};
pub use fence::{Fence, FencedTransaction, HighWaterMark};
pub use lock::{Acquire, Guard, Lead, LeadEach, Resign, RunHandle, Spindle, TaskResult};
pub use operate::state::{Holding, LockState};
pub use settings::LockBuilder;
pub use store::{Database, Ddl};
pub use table::LockTable;
pub use term::{Term, TermChange, TermWatch};
pub use token::FencingToken;

/// A scheduled job: its slots, what came of a [`run_once`](LockBuilder::run_once), and the records.
pub mod job {
    pub use crate::lock::{Job, JobOutcome, JobRun, Skip, Slot, SlotRecord, SlotState};
    pub use crate::operate::jobs::JobState;
}

/// Tasks that run under a guard's term: what [`lead`](Spindle::lead) and the shards of a fleet stand on.
pub mod task {
    pub use crate::error::TaskError;
    pub use crate::lock::{Ended, Orders, Why, joined, released_after_error, run, say_dropped};
    pub use crate::term::say;
}

/// The health of an instance: for probes, dashboards and people.
pub mod health {
    pub use crate::error::Contact;
    pub use crate::term::{Failing, Health, Role, TableHealth, Trouble};
}

/// For tests: locks that follow the runtime's clock, which a test can pause and advance.
pub mod testing {
    pub use crate::system::Clock;
}

/// The README's code, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
