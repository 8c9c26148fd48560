//! One process of a group.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::members::{MemberState, Members};
use crate::error::{Error, Result};
use crate::lock::{RunHandle, Spindle};
use crate::names::{check_part, member_key, members_prefix};
use crate::settings::LockBuilder;
use crate::store::Table;
use crate::store::membership::{remove_released, search_and_tidy, tidy_pause};
use crate::system::Clock;
use crate::term::Health;
use crate::token::FencingToken;

/// The settings of a member before they are checked. Made by [`LockTable::member`](crate::LockTable::member).
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct MemberBuilder {
    table: Arc<Table>,
    group: String,
    lock: LockBuilder,
}

impl MemberBuilder {
    pub(crate) fn new(table: Arc<Table>, group: String) -> MemberBuilder {
        let lock = LockBuilder::new(Arc::clone(&table), String::new());
        MemberBuilder { table, group, lock }
    }

    /// Sets the name of this member in the table, in plans and in logs. By default
    /// `host-pid-random`.
    ///
    /// It should be another one for each process. Of two processes with the same id one is a member
    /// and the other waits until the first is gone.
    pub fn id(mut self, id: impl Into<String>) -> MemberBuilder {
        self.lock = self.lock.id(id);
        self
    }

    /// Sets a text for the other members, such as an address; at most 4 KiB.
    pub fn info(mut self, info: impl Into<String>) -> MemberBuilder {
        self.lock = self.lock.info(info);
        self
    }

    /// Sets the time for which a member that says nothing counts as live; by default 10 s. As
    /// [`LockBuilder::lease`].
    ///
    /// Give all members of a group the same: it also sets the pace of hand-overs.
    pub fn lease(mut self, lease: Duration) -> MemberBuilder {
        self.lock = self.lock.lease(lease);
        self
    }

    /// Sets the time from one poll of the fleet to the next. As [`LockBuilder::poll_interval`].
    pub fn poll_interval(mut self, interval: Duration) -> MemberBuilder {
        self.lock = self.lock.poll_interval(interval);
        self
    }

    /// Sets the time that a shard's task has to stop once it was told to. As
    /// [`LockBuilder::stop_limit`].
    pub fn stop_limit(mut self, limit: Duration) -> MemberBuilder {
        self.lock = self.lock.stop_limit(limit);
        self
    }

    /// Sets the clock by which validity is judged; for tests. As [`LockBuilder::clock`].
    pub fn clock(mut self, clock: Clock) -> MemberBuilder {
        self.lock = self.lock.clock(clock);
        self
    }

    /// Checks the settings and makes the member; nothing is sent before it runs.
    ///
    /// # Errors
    ///
    /// [`is_config`](Error::is_config) for settings that can't work; the text names the rule.
    pub fn build(self) -> Result<Member> {
        let MemberBuilder { table, group, mut lock } = self;
        let is_named = lock.has_id();
        let id = lock.fix_id();
        check_part("group", &group)?;
        check_part("member id", &id)?;
        let own = lock.for_row(member_key(&group, &id)).build()?;
        Ok(Member(Arc::new(Inner { table, group, id, is_named, lock, own })))
    }
}

/// One process of a group. A cheap clone is another handle to the same member.
///
/// [`run`](Member::run) joins the group, [`shards`](Member::shards) shares work out among its
/// members. Each does nothing without the other: run what you need.
///
/// ```
/// use spindle::{CancellationToken, LockTable};
/// # use spindle_emulator::Emulator;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let database = "projects/p/instances/i/databases/d";
/// # let emulator = Emulator::start().await?;
/// # emulator.create_database(database, LockTable::DDL).await?;
/// let table = LockTable::connect_to(emulator.endpoint(), database, "locktable");
/// let member = table.member("orders").id("node-1").info("http://10.0.0.1").build()?;
/// let cancel = CancellationToken::new();
/// let running = member.run(cancel.clone());
///
/// let mut members = table.members("orders");
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
    table: Arc<Table>,
    group: String,
    id: String,
    /// True if the id was chosen, so that it can be the same after a restart.
    is_named: bool,
    /// Settings for this member's other rows.
    lock: LockBuilder,
    /// Its row in the group.
    own: Spindle,
}

impl Member {
    /// Joins the group, and stays in it until `cancel` is cancelled.
    ///
    /// The returned future resolves once this member has left, and its row is deleted. Dropping that
    /// future lets the member go on. Its cost is that of a held lock: a heartbeat each half of a
    /// lease. Outages are no errors: a member that could not be heard for a lease joins again under
    /// a new token.
    ///
    /// # Errors
    ///
    /// It resolves to an error with [`is_config`](Error::is_config) if `run` was called before, or
    /// outside of a tokio runtime.
    pub fn run(&self, cancel: CancellationToken) -> RunHandle {
        let running = self.0.own.run(cancel);
        let (Ok(settings), Ok(runtime)) = (self.0.own.settings(), Handle::try_current()) else {
            // It resolves to what is wrong.
            return running;
        };
        let (done, result) = oneshot::channel();
        let lock = self.0.own.name().to_string();
        // It holds no handle: the member ends with the last of its user's.
        let (table, key) = (Arc::clone(&self.0.table), lock.clone());
        let (members, lease) = (members_prefix(&self.0.group), settings.timing.lease);
        runtime.spawn(async move {
            let ended = tokio::select! {
                biased;
                ended = running => ended,
                never = tidy(&table, &members, lease) => match never {},
            };
            if ended.is_ok() {
                remove_released(&table, &key).await;
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

    /// Returns a watch on the group, as [`LockTable::members`](crate::LockTable::members) makes it.
    pub fn watch(&self) -> Members {
        let members = Members::new(Arc::clone(&self.0.table), self.0.group.clone());
        // A member was checked when it was built.
        match self.0.own.settings() {
            Ok(settings) => members.by_lease(settings.timing.lease),
            Err(_) => members,
        }
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

    pub(super) fn is_named(&self) -> bool {
        self.0.is_named
    }

    pub(super) fn table(&self) -> &Arc<Table> {
        &self.0.table
    }

    pub(super) fn settings_of_rows(&self) -> &LockBuilder {
        &self.0.lock
    }

    pub(super) fn refuse(&self, rule: impl fmt::Display) -> Error {
        Error::config(format!("group `{}`: {rule}", self.0.group))
    }
}

/// Deletes the rows of members that are long gone, now and then.
async fn tidy(table: &Table, members: &str, lease: Duration) -> Infallible {
    loop {
        sleep(tidy_pause()).await;
        search_and_tidy(table, members, lease).await;
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
