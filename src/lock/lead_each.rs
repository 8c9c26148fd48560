//! Leading for each of a changing set of names.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use tokio::task::{AbortHandle, Id, JoinSet};
use tokio_util::sync::CancellationToken;

use super::handle::Spindle;
use super::lead_options::TaskResult;
use super::work::joined;
use crate::error::Result;
use crate::settings::LockBuilder;
use crate::system::runtime;
use crate::term::Term;

type Running<T> = Pin<Box<dyn Future<Output = Result<Option<T>>> + Send>>;
type Begin<T> = dyn Fn(&str, CancellationToken) -> (Result<Spindle>, Running<T>) + Send + Sync;

/// Leads for each of a set of names that changes, such as a service's tenants: a lock and a task for each.
///
/// [`set`](LeadEach::set) says which names there are now. For each new one it contends and leads, as
/// [`lead`](Spindle::lead) does; each that is gone is stopped and released as by its `cancel`. So errors
/// of a task are repeated with pauses, and a panic ends the lead of its own name alone.
/// [`next`](LeadEach::next) tells each end. A name that has ended is led again by the next `set` that has
/// it.
///
/// **Dropping** it aborts the tasks, without the time to stop, and releases their locks once they have ended.
/// [`stop`](LeadEach::stop) gives them that time.
///
/// ```no_run
/// # async fn bill(tenant: &str, fence: spindle::Fence) -> spindle::Result<()> { Ok(()) }
/// # async fn tenants() -> Vec<String> { Vec::new() }
/// # async fn service(table: spindle::LockTable, shutdown: spindle::CancellationToken) -> spindle::Result<()> {
/// use std::time::Duration;
/// use spindle::{LeadEach, Term};
///
/// let lock = move |tenant: &str| table.lock(format!("tenant/{tenant}"));
/// let mut leads = LeadEach::new(lock, |tenant: String, term: Term| async move {
///     while !term.is_cancelled() {
///         bill(&tenant, term.fence()).await?;
///     }
///     Ok::<(), spindle::Error>(())
/// });
/// let mut looks = tokio::time::interval(Duration::from_secs(60));
/// loop {
///     tokio::select! {
///         () = shutdown.cancelled() => break,
///         _ = looks.tick() => leads.set(tenants().await)?,
///         Some((tenant, led)) = leads.next() => println!("{tenant}: {led:?}"),
///     }
/// }
/// leads.stop().await;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping it aborts its tasks"]
pub struct LeadEach<T> {
    begin: Box<Begin<T>>,
    leads: BTreeMap<String, Led>,
    tasks: JoinSet<Result<Option<T>>>,
    /// The names of the tasks, also of those that are gone from the set.
    names: HashMap<Id, String>,
}

/// The lead of one name.
struct Led {
    task: AbortHandle,
    lock: Option<Spindle>,
    cancel: CancellationToken,
}

impl<T: Send + 'static> LeadEach<T> {
    /// Leads for no name yet. The function `lock` describes the lock of a name, and `task` is called with
    /// the name and the term each time that its lock is won.
    pub fn new<R, F, Fut>(
        lock: impl Fn(&str) -> LockBuilder + Send + Sync + 'static,
        task: F,
    ) -> LeadEach<T>
    where
        F: Fn(String, Term) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: TaskResult<Value = T>,
    {
        let task = Arc::new(task);
        let begin = move |name: &str, cancel| -> (Result<Spindle>, Running<T>) {
            let lock = lock(name).build();
            let (task, name) = (Arc::clone(&task), name.to_string());
            let running: Running<T> = match lock.clone() {
                Ok(lock) => Box::pin(lock.lead(cancel, move |term| task(name.clone(), term))),
                Err(error) => Box::pin(std::future::ready(Err(error))),
            };
            (lock, running)
        };
        LeadEach {
            begin: Box::new(begin),
            leads: BTreeMap::new(),
            tasks: JoinSet::new(),
            names: HashMap::new(),
        }
    }

    /// Leads for these names, and for no others, from now on. It waits for nothing. Each end is kept until
    /// [`next`](LeadEach::next) tells it, so a caller that never does gathers them.
    ///
    /// # Errors
    ///
    /// [`is_config`](crate::Error::is_config) outside of a tokio runtime; nothing changes then. A name
    /// that no lock can have is told by [`next`](LeadEach::next), and keeps no other from being led.
    pub fn set(&mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Result<()> {
        let runtime = runtime("leading for each")?;
        let names: BTreeSet<String> = names.into_iter().map(Into::into).collect();
        self.leads.retain(|name, led| {
            let stays = names.contains(name);
            if !stays {
                led.cancel.cancel();
            }
            stays
        });
        for name in names {
            if self.leads.get(&name).is_some_and(|led| !led.task.is_finished()) {
                continue;
            }
            let cancel = CancellationToken::new();
            let (lock, running) = (self.begin)(&name, cancel.clone());
            let task = self.tasks.spawn_on(running, &runtime);
            self.names.insert(task.id(), name.clone());
            self.leads.insert(name, Led { task, lock: lock.ok(), cancel });
        }
        Ok(())
    }

    /// Waits for the next end of a lead, and tells its name and what came of it, as
    /// [`lead`](Spindle::lead) returns it. Nothing if none is left.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future loses no end.
    pub async fn next(&mut self) -> Option<(String, Result<Option<T>>)> {
        let (task, led) = match self.tasks.join_next_with_id().await? {
            Ok((task, led)) => (task, Ok(led)),
            Err(error) => (error.id(), Err(error)),
        };
        let name = self.names.remove(&task).unwrap_or_default();
        // A name that has come back has another task by now.
        if self.leads.get(&name).is_some_and(|led| led.task.id() == task) {
            self.leads.remove(&name);
        }
        let led = joined(led, &name);
        Some((name, led))
    }

    /// Returns the instance that contends for this name, if it is led for.
    pub fn lock(&self, name: &str) -> Option<&Spindle> {
        self.leads.get(name)?.lock.as_ref()
    }

    /// Tells all tasks to stop, and waits until they have ended and their locks are released.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future aborts the tasks, as dropping the value does.
    pub async fn stop(mut self) {
        self.leads.values().for_each(|led| led.cancel.cancel());
        while self.next().await.is_some() {}
    }
}

impl<T> fmt::Debug for LeadEach<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut each = f.debug_struct("LeadEach");
        each.field("names", &self.leads.keys()).finish_non_exhaustive()
    }
}
