//! The settings of what stands on locks, before they are checked.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use spindle::testing::Clock;
use spindle::{LockBuilder, LockTable, Result};

use crate::member::Member;

/// Checks the settings, and makes it.
type Make<T> = Arc<dyn Fn(Settings) -> Result<T> + Send + Sync>;

/// Adds the text of this process, if it has one.
pub(crate) fn with_info(lock: LockBuilder, info: Option<String>) -> LockBuilder {
    match info {
        Some(info) => lock.info(info),
        None => lock,
    }
}

/// The settings of what has this name.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) table: LockTable,
    pub(crate) name: String,
    /// Those of its rows.
    pub(crate) lock: LockBuilder,
    pub(crate) info: Option<String>,
}

/// The settings of a [`Member`], a [`Semaphore`](crate::Semaphore) or an
/// [`RwLock`](crate::RwLock) before they are checked. Made by their `new`.
#[derive(Clone)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder<T> {
    settings: Settings,
    make: Make<T>,
}

impl<T> Builder<T> {
    pub(crate) fn new(
        table: &LockTable,
        name: impl Into<String>,
        make: impl Fn(Settings) -> Result<T> + Send + Sync + 'static,
    ) -> Builder<T> {
        let (table, name) = (table.clone(), name.into());
        let settings = Settings { lock: table.lock(""), table, name, info: None };
        Builder { settings, make: Arc::new(make) }
    }

    fn lock(mut self, set: impl FnOnce(LockBuilder) -> LockBuilder) -> Builder<T> {
        self.settings.lock = set(self.settings.lock);
        self
    }

    /// Sets the name of this process in its rows, in plans and in logs. By default
    /// `host-pid-random`. As [`LockBuilder::id`]; only that of a semaphore may have a `/`.
    ///
    /// It should be another one for each process. Of two members with the same id one is a member
    /// and the other waits until the first is gone.
    pub fn id(self, id: impl Into<String>) -> Builder<T> {
        self.lock(|lock| lock.id(id))
    }

    /// Sets a text in the rows of this process, such as an address; at most 4 KiB. The other
    /// members read that of a member, and the rows of its shards have none. As [`LockBuilder::info`].
    pub fn info(mut self, info: impl Into<String>) -> Builder<T> {
        self.settings.info = Some(info.into());
        self
    }

    /// Sets the time for which a process that says nothing counts as live, and keeps a permit or
    /// the lock; by default 10 s. As [`LockBuilder::lease`].
    ///
    /// Give all members of a group the same: it also sets the pace of hand-overs.
    pub fn lease(self, lease: Duration) -> Builder<T> {
        self.lock(|lock| lock.lease(lease))
    }

    /// Sets the time from one poll to the next: of a member, and of callers that wait. As
    /// [`LockBuilder::poll_interval`].
    pub fn poll_interval(self, interval: Duration) -> Builder<T> {
        self.lock(|lock| lock.poll_interval(interval))
    }

    /// Sets the clock by which validity is judged; for tests. As [`LockBuilder::clock`].
    pub fn clock(self, clock: Clock) -> Builder<T> {
        self.lock(|lock| lock.clock(clock))
    }

    /// Checks the settings; nothing is sent.
    ///
    /// # Errors
    ///
    /// [`is_config`](spindle::Error::is_config) for settings that can't work; the text names the rule.
    pub fn build(self) -> Result<T> {
        (self.make)(self.settings)
    }
}

impl Builder<Member> {
    /// Sets the time that a shard's task has to stop once it was told to. As
    /// [`LockBuilder::stop_limit`].
    pub fn stop_limit(self, limit: Duration) -> Builder<Member> {
        self.lock(|lock| lock.stop_limit(limit))
    }
}

impl<T> fmt::Debug for Builder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut builder = f.debug_struct("Builder");
        builder.field("settings", &self.settings).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RwLock, Semaphore};

    #[test]
    fn a_refusal_names_what_its_user_made_and_no_row_of_the_librarys_own() {
        let table = LockTable::new("projects/p/instances/i/databases/d", "locktable");
        // A table's settings are the defaults of all that is made from it.
        let table = table.id("pod-1").lease(Duration::ZERO);
        for (refused, expected) in [
            (Semaphore::new(&table, "s", 1).build().map(drop), "semaphore `s`: lease 0ns"),
            (RwLock::new(&table, "c").build().map(drop), "writers' lock `c`: lease 0ns"),
            (Member::new(&table, "g").build().map(drop), "group `g`: lease 0ns"),
        ] {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains(expected) && !refused.contains("spindle:"), "{refused}");
        }
        let member = Member::new(&table, "g").lease(Duration::from_secs(5)).build().unwrap();
        assert_eq!(member.id(), "pod-1");
    }
}
