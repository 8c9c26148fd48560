//! One process of a group.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use spindle::health::Health;
use spindle::rows::Rows;
use spindle::{Error, FencingToken, LockBuilder, LockTable, Result, RunHandle, Spindle};

use crate::builder::{Builder, Settings, with_info};
use crate::members::{MemberState, Members};
use crate::names::{check_part, member_key, members_prefix};
use crate::tidy::{remove_released, search_and_tidy, tidy_pause};

/// One process of a group. A cheap clone is another handle to the same member.
///
/// [`run`](Member::run) joins the group, [`shards`](Member::shards) shares work out among its
/// members. Each does nothing without the other: run what you need.
///
/// ```
/// use spindle::{CancellationToken, Database, Ddl, LockTable};
/// use spindle_fleet::{Member, Members};
/// # use spindle_emulator::Emulator;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let database = "projects/p/instances/i/databases/d";
/// # let emulator = Emulator::start().await?;
/// # emulator.create_database(database, LockTable::ddl(Ddl::GoogleSql)).await?;
/// let table = LockTable::new(Database::at(emulator.endpoint(), database), "locktable");
/// let member = Member::new(&table, "orders").id("node-1").info("http://10.0.0.1").build()?;
/// let cancel = CancellationToken::new();
/// let running = member.run(cancel.clone());
///
/// let mut members = Members::new(&table, "orders");
/// while members.next().await?.is_empty() {}
/// assert_eq!(member.members().await?[0].info.as_deref(), Some("http://10.0.0.1"));
///
/// cancel.cancel();
/// running.await?;
/// assert!(member.members().await?.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Member(Arc<Inner>);

struct Inner {
    table: LockTable,
    group: String,
    id: String,
    /// True if the id was chosen, so that it can be the same after a restart.
    is_named: bool,
    /// Settings for this member's other rows.
    lock: LockBuilder,
    lease: Duration,
    /// Its row in the group.
    own: Spindle,
}

impl Member {
    /// Begins to describe this process as a member of a group.
    ///
    /// Groups need no set-up: a group is there when it has a member. A name has no `/` and no
    /// control character, and at most 256 bytes; likewise ids.
    pub fn new(table: &LockTable, group: impl Into<String>) -> Builder<Member> {
        Builder::new(table, group, Member::build)
    }

    fn build(settings: Settings) -> Result<Member> {
        let Settings { table, name: group, mut lock, info } = settings;
        let is_named = lock.chosen_id().is_some();
        let id = lock.fix_id();
        check_part("group", &group)?;
        check_part("member id", &id)?;
        let own = with_info(lock.row(member_key(&group, &id)), info);
        let (lease, own) = (own.timing()?.lease, own.build()?);
        Ok(Member(Arc::new(Inner { table, group, id, is_named, lock, lease, own })))
    }

    /// Joins the group, and stays in it until `cancel` is cancelled.
    ///
    /// The returned future resolves once this member has left, and its row is deleted. Dropping that
    /// future lets the member go on. Its cost is that of a held lock: a heartbeat each third of a
    /// lease. Outages are no errors: a member that could not be heard for a lease joins again under
    /// a new token.
    ///
    /// # Errors
    ///
    /// It resolves to an error with [`is_config`](Error::is_config) if `run` was called before, or
    /// outside of a tokio runtime.
    pub fn run(&self, cancel: CancellationToken) -> RunHandle {
        let running = self.0.own.run(cancel);
        let Ok(runtime) = Handle::try_current() else {
            // It resolves to what is wrong.
            return running;
        };
        let (done, result) = oneshot::channel();
        let lock = self.0.own.name().to_string();
        // It holds no handle: the member ends with the last of its user's.
        let (table, key) = (self.0.table.clone(), lock.clone());
        let lease = self.0.lease;
        let members = table.rows().prefix(members_prefix(&self.0.group));
        runtime.spawn(async move {
            let ended = tokio::select! {
                biased;
                ended = running => ended,
                never = tidy(&members, lease) => match never {},
            };
            if ended.is_ok() {
                remove_released(table.rows(), &key).await;
            }
            // Nobody waits any more if it can't be delivered.
            let _ = done.send(ended);
        });
        RunHandle::new(result, lock)
    }

    /// Returns the live members of the group, this one among them while it runs: one strong read.
    ///
    /// # Errors
    ///
    /// The reason why Spanner could not be asked within 5 s.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future changes nothing.
    pub async fn members(&self) -> Result<Vec<MemberState>> {
        self.watch().list().await
    }

    /// Returns a watch on the group, as [`Members::new`] makes it.
    pub fn watch(&self) -> Members {
        Members::new(&self.0.table, &*self.0.group)
    }

    /// Returns the token of this member's row while it is live by its own clock. Local, as
    /// [`Spindle::has_lock`].
    pub fn token(&self) -> Option<FencingToken> {
        self.0.own.has_lock()
    }

    /// Returns the health of the loop that keeps this member's row, for probes.
    pub fn health(&self) -> Health {
        self.0.own.health()
    }

    /// Returns the name of this member.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// Returns the name of the group.
    pub fn group(&self) -> &str {
        &self.0.group
    }

    pub(crate) fn is_named(&self) -> bool {
        self.0.is_named
    }

    pub(crate) fn table(&self) -> &LockTable {
        &self.0.table
    }

    pub(crate) fn settings_of_rows(&self) -> &LockBuilder {
        &self.0.lock
    }

    pub(crate) fn refuse(&self, rule: impl fmt::Display) -> Error {
        Error::config(format!("group `{}`: {rule}", self.0.group))
    }
}

/// Deletes the rows of members that are long gone, now and then.
async fn tidy(members: &Rows, lease: Duration) -> Infallible {
    loop {
        sleep(tidy_pause()).await;
        search_and_tidy(members, lease).await;
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { group, id, own, .. } = &*self.0;
        let mut member = f.debug_struct("Member");
        member.field("group", group).field("id", id).field("token", &own.has_lock());
        member.finish_non_exhaustive()
    }
}
