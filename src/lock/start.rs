//! Starting the loop of an instance, and waiting for its end.

use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};

use futures_channel::mpsc;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::handle::{Spindle, Started};
use crate::error::{Error, Kind, Result};
use crate::names::subject;
use crate::runloop::{BatchedRow, Command, Demand, Driver, overdue_limit};
use crate::system::{random, runtime};
use crate::term::say;

/// A loop that is made, so that it says that it is gone even if never polled.
type Loop = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Spindle {
    /// Starts the loop. The returned handle resolves once the loop has ended and the lock is
    /// released. If you drop it, the loop goes on by itself.
    ///
    /// The loop ends when `cancel` is cancelled, or when the last handle to this instance is
    /// gone; releasing is bounded by the release limit. Whatever Spanner does meanwhile is no
    /// error: the loop goes on trying, and says so in [`health`](Spindle::health) and the log.
    ///
    /// # Errors
    ///
    /// It resolves to an error with [`is_config`](Error::is_config) if the settings can't work,
    /// or if there is no tokio runtime to run on. It does so too if `run` was called before, or
    /// something that takes the lock for its own: [`acquire`](Spindle::acquire),
    /// [`try_acquire`](Spindle::try_acquire), [`lead`](Spindle::lead).
    pub fn run(&self, cancel: CancellationToken) -> RunHandle {
        let (sender, result) = oneshot::channel();
        let lock = self.name().to_string();
        if let Err(error) = self.begin(Demand::Always, cancel, sender) {
            // A service may await the handle no sooner than at its end.
            let id = self.id();
            say(|| tracing::warn!(lock, id, %error, "run is refused"));
            let (sender, result) = oneshot::channel();
            // The receiver is right here.
            let _ = sender.send(Err(error));
            return RunHandle { result, lock };
        }
        RunHandle { result, lock }
    }

    /// Starts the loop that wants the lock while somebody here wants it, unless it runs already.
    pub(super) fn start_on_demand(&self) -> Result<()> {
        if self.started_by() == Some(Demand::OfWaiters) {
            return Ok(());
        }
        let (done, _nobody_waits) = oneshot::channel();
        match self.begin(Demand::OfWaiters, CancellationToken::new(), done) {
            // Another caller came first.
            Err(_) if self.started_by() == Some(Demand::OfWaiters) => Ok(()),
            started => started,
        }
    }

    fn started_by(&self) -> Option<Demand> {
        self.shared().started.get().map(|started| started.demand)
    }

    fn begin(
        &self,
        demand: Demand,
        cancel: CancellationToken,
        done: oneshot::Sender<Result<()>>,
    ) -> Result<()> {
        let settings = self.shared().settings.clone()?;
        let runtime = self.runtime(&settings.name)?;
        let inbox = self.inbox(demand)?;
        let published = Arc::clone(&self.shared().published);
        published.health_record().starts(overdue_limit(settings.timing.lease));
        self.shared().table.instances.add(&published);
        let role = self.shared().role.clone();
        let runs = self.shared().table.loops.subscribe();
        let table = &self.shared().table;
        let registration = table.registration(&settings.name).map(Arc::new);
        if let Some(registration) = &registration {
            published.is_of_this_process();
            published.health_record().is_left_to(registration.trouble());
        }
        let row = BatchedRow::new(table, &settings, role, registration.clone());
        let warnings = Arc::clone(&table.warnings);
        let driver = Driver::new(row, settings, published, warnings, inbox, random::draw());
        let looping: Loop = Box::pin(Box::new(driver.for_demand(demand)).run(cancel));
        runtime.spawn(async move {
            looping.await;
            if let Some(registration) = registration {
                registration.is_over();
            }
            drop(runs);
            // Nobody waits any more if it can't be delivered.
            let _ = done.send(Ok(()));
        });
        Ok(())
    }

    /// Takes the loop's end of the channel; fails if a loop has it already.
    fn inbox(&self, demand: Demand) -> Result<mpsc::UnboundedReceiver<Command>> {
        let mut inbox = self.shared().inbox.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inbox) = inbox.take() {
            // Under the same lock, so that another caller that finds the inbox gone finds this.
            let started = Started { demand, process_id: std::process::id() };
            let _ = self.shared().started.set(started);
            return Ok(inbox);
        }
        let before = match self.started_by() {
            Some(Demand::OfWaiters) => {
                "`run` after `acquire`, `try_acquire` or `lead`; one of them drives an instance, so \
                 build a second one for `run`"
            }
            _ => "`run` was called before; it drives the instance, so build a second one",
        };
        Err(Error::config(format!("{}: {before}", subject(self.name()))))
    }

    /// Finds the runtime for the loop, before anything is taken that a refusal would lose.
    fn runtime(&self, lock: &str) -> Result<Handle> {
        let subject = subject(lock);
        let runtime = runtime(&subject)?;
        self.shared().table.store.check_runtime(&subject)?;
        Ok(runtime)
    }
}

/// The end of an instance's loop, to wait for. Dropping it lets the loop go on.
#[derive(Debug)]
pub struct RunHandle {
    result: oneshot::Receiver<Result<()>>,
    lock: String,
}

impl RunHandle {
    /// Returns the end of something that does more than the loop of `lock`, for crates that build on locks.
    pub fn new(result: oneshot::Receiver<Result<()>>, lock: String) -> RunHandle {
        RunHandle { result, lock }
    }
}

impl Future for RunHandle {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.result).poll(context).map(|received| {
            let abandoned = || Error::new(Kind::Abandoned { lock: self.lock.clone() });
            received.unwrap_or_else(|_| Err(abandoned()))
        })
    }
}
