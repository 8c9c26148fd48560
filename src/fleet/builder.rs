//! The settings of what stands on locks, before they are checked.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::member::Member;
use crate::error::Result;
use crate::settings::LockBuilder;
use crate::system::Clock;

/// Checks the settings, and makes what has this name and such rows.
type Make<T> = Arc<dyn Fn(String, LockBuilder) -> Result<T> + Send + Sync>;

/// The settings of a [`Member`], a [`Semaphore`](super::Semaphore) or an
/// [`RwLock`](super::RwLock) before they are checked. Made by [`LockTable`](crate::LockTable).
#[derive(Clone)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder<T> {
    name: String,
    /// The settings of its rows.
    lock: LockBuilder,
    make: Make<T>,
}

impl<T> Builder<T> {
    pub(crate) fn new(
        lock: LockBuilder,
        name: String,
        make: impl Fn(String, LockBuilder) -> Result<T> + Send + Sync + 'static,
    ) -> Builder<T> {
        Builder { name, lock, make: Arc::new(make) }
    }

    /// Sets the name of this process in its rows, in plans and in logs. By default
    /// `host-pid-random`. As [`LockBuilder::id`]; only that of a semaphore may have a `/`.
    ///
    /// It should be another one for each process. Of two members with the same id one is a member
    /// and the other waits until the first is gone.
    pub fn id(mut self, id: impl Into<String>) -> Builder<T> {
        self.lock = self.lock.id(id);
        self
    }

    /// Sets a text in the rows of this process, such as an address; at most 4 KiB. The other
    /// members read that of a member, and the rows of its shards have none. As [`LockBuilder::info`].
    pub fn info(mut self, info: impl Into<String>) -> Builder<T> {
        self.lock = self.lock.info(info);
        self
    }

    /// Sets the time for which a process that says nothing counts as live, and keeps a permit or
    /// the lock; by default 10 s. As [`LockBuilder::lease`].
    ///
    /// Give all members of a group the same: it also sets the pace of hand-overs.
    pub fn lease(mut self, lease: Duration) -> Builder<T> {
        self.lock = self.lock.lease(lease);
        self
    }

    /// Sets the time from one poll to the next: of a member, and of callers that wait. As
    /// [`LockBuilder::poll_interval`].
    pub fn poll_interval(mut self, interval: Duration) -> Builder<T> {
        self.lock = self.lock.poll_interval(interval);
        self
    }

    /// Sets the clock by which validity is judged; for tests. As [`LockBuilder::clock`].
    pub fn clock(mut self, clock: Clock) -> Builder<T> {
        self.lock = self.lock.clock(clock);
        self
    }

    /// Checks the settings; nothing is sent.
    ///
    /// # Errors
    ///
    /// [`is_config`](crate::Error::is_config) for settings that can't work; the text names the rule.
    pub fn build(self) -> Result<T> {
        (self.make)(self.name, self.lock)
    }
}

impl Builder<Member> {
    /// Sets the time that a shard's task has to stop once it was told to. As
    /// [`LockBuilder::stop_limit`].
    pub fn stop_limit(mut self, limit: Duration) -> Builder<Member> {
        self.lock = self.lock.stop_limit(limit);
        self
    }
}

impl<T> fmt::Debug for Builder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut builder = f.debug_struct("Builder");
        builder.field("name", &self.name).field("lock", &self.lock).finish_non_exhaustive()
    }
}
