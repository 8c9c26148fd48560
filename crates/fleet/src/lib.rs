//! Members, shards, permits, readers and writers: work that is divided by locks, on Cloud Spanner.
//!
//! It stands on [`spindle`], the lock library (`cargo add spindle-lock`), and its
//! [`rows`](spindle::rows). Each row here is an ordinary lock under the ordinary protocol, with a term, a
//! token and a fence of its own. So a wrong or an old view of the fleet costs time and never safety.
//!
//! - [`Member`] is one process of a group, [`Members`] shows who lives. [`Member::shards`] shares pieces
//!   of work out among them, [`ShardCount`] moves a group to another count.
//! - [`Semaphore`] gives so many permits at a time.
//! - [`RwLock`] lets many read, or one write.
//!
//! ```
//! use spindle::{Database, Ddl, LockTable};
//! use spindle_fleet::Semaphore;
//! # use spindle_emulator::Emulator;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let database = "projects/p/instances/i/databases/d";
//! # let emulator = Emulator::start().await?;
//! # emulator.create_database(database, LockTable::ddl(Ddl::GoogleSql)).await?;
//! let table = LockTable::new(Database::at(emulator.endpoint(), database), "locktable");
//! let uploads = Semaphore::new(&table, "uploads", 2).build()?;
//! let permit = uploads.acquire().await?;
//! // … upload, under permit.fence(), until permit.cancelled() …
//! permit.release().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! - `metrics`: what its locks count, and how long shards take to settle. The feature `metrics` of
//!   `spindle-lock` goes with it.
//!
//! The guides `choosing.md`, `fleets.md` and `operating.md` are those of
//! [`spindle-lock`](https://docs.rs/spindle-lock).

mod builder;
mod controller;
mod count_row;
mod error;
mod failures;
mod member;
mod members;
mod metrics;
mod names;
mod permit;
mod poll;
mod pool;
mod rw_guards;
mod rw_lock;
mod rw_roles;
mod rw_write;
mod semaphore;
mod shard;
mod shard_count;
mod shards;
mod shards_view;
mod tasks;
mod tidy;

pub use builder::Builder;
pub use error::is_other_count;
pub use member::Member;
pub use members::{MemberState, Members};
pub use permit::Permit;
pub use rw_guards::{ReadGuard, WriteGuard};
pub use rw_lock::RwLock;
pub use semaphore::Semaphore;
pub use shard::Shard;
pub use shard_count::ShardCount;
pub use shards::Shards;
pub use shards_view::{ShardEvent, ShardEvents};
pub use spindle_protocol::fleet::{Move, Plan, plan};
