//! Many locks, many members: what stands on top of the lock.
//!
//! Each row here is an ordinary lock under the ordinary protocol, with a term, a token and a fence
//! of its own. A wrong or an old view of the fleet costs time and never safety.

mod builder;
mod controller;
mod count_row;
mod failures;
mod member;
mod members;
mod permit;
mod poll;
mod pool;
mod rw_guards;
mod rw_lock;
mod rw_write;
mod semaphore;
mod shard;
mod shard_count;
mod shards;
mod shards_view;
mod tasks;

pub use builder::Builder;
pub use member::Member;
pub use members::{MemberState, Members};
pub use permit::Permit;
pub use rw_guards::{ReadGuard, WriteGuard};
pub use rw_lock::RwLock;
pub use semaphore::Semaphore;
pub use shard::Shard;
pub use shard_count::ShardCount;
pub(crate) use shard_count::{resize_shards, shard_count};
pub use shards::Shards;
pub use shards_view::{ShardEvent, ShardEvents};
pub use spindle_protocol::fleet::{Move, Plan, plan};
