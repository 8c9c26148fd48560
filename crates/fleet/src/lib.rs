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
//! A service whose processes share a queue. Each row has a bucket of its own, a number from 0 to 999:
//!
//! ```no_run
//! use std::time::Duration;
//! use spindle::google_cloud_spanner::client::DatabaseClient;
//! use spindle::google_cloud_spanner::key;
//! use spindle::google_cloud_spanner::key::KeySet;
//! use spindle::google_cloud_spanner::mutation::Mutation;
//! use spindle::google_cloud_spanner::statement::Statement;
//! use spindle::{CancellationToken, LockTable};
//! use spindle_fleet::{Member, Shard};
//!
//! type Failure = Box<dyn std::error::Error + Send + Sync>;
//!
//! async fn serve(table: LockTable, client: DatabaseClient, stop: CancellationToken) -> spindle::Result<()> {
//!     let member = Member::new(&table, "workers").build()?;
//!     let task = move |shard: Shard| drain(client.clone(), shard);
//!     member.shards("queue", 12).run(stop, task).await
//! }
//!
//! /// Works the rows of one shard until that is another's.
//! async fn drain(client: DatabaseClient, shard: Shard) -> Result<(), Failure> {
//!     while !shard.is_cancelled() {
//!         let mine = "SELECT bucket, id FROM queue WHERE MOD(bucket, @count) = @shard LIMIT 100";
//!         let mine = Statement::builder(mine)
//!             .add_param("count", i64::try_from(shard.count())?)
//!             .add_param("shard", i64::try_from(shard.number())?);
//!         let mut rows = client.single_use().build().execute_query(mine.build()).await?;
//!         let mut done = Vec::new();
//!         while let Some(row) = rows.next().await.transpose()? {
//!             let (bucket, id): (i64, String) = (row.get("bucket")?, row.get("id")?);
//!             // … the work …
//!             let keys = KeySet::builder().add_key(key![bucket, id]).build();
//!             done.push(Mutation::delete("queue", keys));
//!         }
//!         if !done.is_empty() {
//!             // Refused if the shard is another's by now.
//!             shard.fence().write(&client, done).await?;
//!         }
//!         let pause = tokio::time::sleep(Duration::from_secs(1));
//!         shard.cancellation().run_until_cancelled(pause).await;
//!     }
//!     Ok(())
//! }
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
mod share_row;
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
