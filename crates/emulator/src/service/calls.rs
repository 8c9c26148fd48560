//! The steps of every request: it is counted, may meet a fault, and has a deadline.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use super::status::status;
use super::transactions::Handle;
use super::{Connection, Core};
use crate::engine::{Code, Error, Result};
use crate::faults::{Effect, Selectable};
use crate::rpc::Rpc;

/// The future that applies a request.
pub(super) type Applied<R> = Pin<Box<dyn Future<Output = Result<R>> + Send>>;

impl Core {
    /// Answers a request: `apply` does what it asks, unless a fault decides otherwise.
    ///
    /// The future is small, since each layer above makes a copy of it.
    pub fn call<Q, R>(
        self: &Arc<Core>,
        rpc: Rpc,
        request: Request<Q>,
        apply: fn(Arc<Core>, Q) -> Applied<R>,
    ) -> impl Future<Output = Result<Response<R>, Status>> + Send + use<Q, R>
    where
        Q: Selectable + Send + Sync + 'static,
        R: Send + 'static,
    {
        let limit = time_limit(request.metadata());
        let connection = request.extensions().get::<Connection>().cloned();
        let message = request.into_inner();
        self.counts.count(rpc, message.session());
        let answer = self.answer(rpc, message, connection, apply);
        async move {
            let answer = match limit {
                None => answer.await,
                Some(limit) => match tokio::time::timeout(limit, answer).await {
                    Ok(answer) => answer,
                    Err(_) => Err(Error::new(Code::DeadlineExceeded, "Deadline exceeded.")),
                },
            };
            answer.map(Response::new).map_err(|error| status(&error))
        }
    }

    fn answer<Q, R>(
        self: &Arc<Core>,
        rpc: Rpc,
        message: Q,
        connection: Option<Connection>,
        apply: fn(Arc<Core>, Q) -> Applied<R>,
    ) -> Applied<R>
    where
        Q: Selectable + Send + Sync + 'static,
        R: Send + 'static,
    {
        let core = Arc::clone(self);
        let session = message.session();
        let key_column = |table: &str| self.first_key_column(session?, table);
        match self.faults.meet(rpc, &message, &key_column) {
            None => apply(core, message),
            Some(effect) => Box::pin(core.affected(effect, message, connection, apply)),
        }
    }

    /// Answers a request that meets a fault.
    async fn affected<Q, R>(
        self: Arc<Core>,
        effect: Effect,
        mut message: Q,
        connection: Option<Connection>,
        apply: fn(Arc<Core>, Q) -> Applied<R>,
    ) -> Result<R>
    where
        Q: Selectable + Send + Sync + 'static,
        R: Send + 'static,
    {
        let core = Arc::clone(&self);
        match effect {
            Effect::Delay(delay) => {
                tokio::time::sleep(delay).await;
                apply(core, message).await
            }
            Effect::Queue(delay) => {
                let turn = self.queue.lock().await;
                tokio::time::sleep(delay).await;
                drop(turn);
                apply(core, message).await
            }
            Effect::DelayReply(delay) => {
                let answer = apply(core, message).await;
                tokio::time::sleep(delay).await;
                answer
            }
            Effect::Fail(code) => Err(injected(code)),
            Effect::FailAfterApplying(code) => {
                // The sender never learns the answer.
                let _ = apply(core, message).await;
                Err(injected(code))
            }
            Effect::LoseReply => {
                let _ = apply(core, message).await;
                cut(connection).await
            }
            Effect::ApplyLate { after } => {
                let applied = apply(core, message);
                self.apply_late(after, Box::pin(async { drop(applied.await) }));
                Err(injected(Code::Unavailable))
            }
            Effect::DropConnection => cut(connection).await,
            Effect::Stall => std::future::pending().await,
            Effect::StallReply => {
                let _ = apply(core, message).await;
                std::future::pending().await
            }
            // None that has committed can be aborted.
            Effect::Abort => match self.abort(&message) {
                Some(error) => Err(error),
                None => apply(core, message).await,
            },
            Effect::EndEarlier => {
                if let Some(session) = message.session().filter(|_| message.begins()) {
                    core.end_latest(session)?;
                }
                apply(core, message).await
            }
            Effect::HideReadTimestamp => {
                message.hide_read_timestamp();
                apply(core, message).await
            }
        }
    }

    fn apply_late(&self, after: Duration, applied: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let stopped = self.stopped.clone();
        self.tasks.spawn(async move {
            let late = async {
                tokio::time::sleep(after).await;
                applied.await;
            };
            tokio::select! {
                () = stopped.cancelled() => {}
                () = late => {}
            }
        });
    }

    /// Aborts the transaction that a request names; none if that one has committed.
    fn abort(&self, message: &impl Selectable) -> Option<Error> {
        let error = Error::aborted("Transaction aborted by an injected fault.");
        let session = message.session();
        let handle = message.transaction().zip(session);
        let handle = handle.and_then(|(id, session)| Handle::decode(id, session).ok());
        let database = session.and_then(|session| self.database_of(session).ok());
        if let (Some(Handle::ReadWrite(id)), Some(database)) = (handle, database) {
            if database.has_committed(id) {
                return None;
            }
            database.fail(id, error.clone());
        }
        Some(error)
    }

    fn first_key_column(&self, session: &str, table: &str) -> Option<String> {
        let schema = self.database_of(session).ok()?.schema();
        let table = schema.table(table)?;
        let first = table.primary_key.first()?;
        Some(table.columns[first.position].name.clone())
    }
}

/// Breaks the connection that the request came on, and with it the request.
async fn cut<R>(connection: Option<Connection>) -> Result<R> {
    if let Some(Connection(connection)) = connection {
        connection.cancel();
    }
    std::future::pending().await
}

fn injected(code: Code) -> Error {
    let message = "injected fault";
    if code == Code::Aborted { Error::aborted(message) } else { Error::new(code, message) }
}

/// The time that the sender gives the request, which travels as digits and a unit.
fn time_limit(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let amount: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(amount.saturating_mul(3_600)),
        "M" => Duration::from_secs(amount.saturating_mul(60)),
        "S" => Duration::from_secs(amount),
        "m" => Duration::from_millis(amount),
        "u" => Duration::from_micros(amount),
        "n" => Duration::from_nanos(amount),
        _ => return None,
    })
}
