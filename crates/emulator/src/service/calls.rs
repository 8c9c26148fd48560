//! The steps of every request: it is counted, may meet a fault, and has a deadline.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use googleapis_tonic_google_spanner_v1::google::spanner::v1::transaction_options::Mode;
use hyper::body::Bytes;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response};

use super::select::OfSession;
use super::status::status;
use super::{Connection, Core};
use crate::engine::{Code, Error, Handle, Result};
use crate::faults::{Effect, Named, Selectable};
use crate::grpc::{self, Answering, Messages};
use crate::rpc::Rpc;

/// The future that applies a request.
pub(super) type Applied = Pin<Box<dyn Future<Output = Result<Messages>> + Send>>;

/// A request with the code that applies it.
pub(super) struct Asked<Q> {
    pub message: Q,
    pub apply: fn(Arc<Core>, Q) -> Applied,
}

/// A request of any kind with the code that applies it.
pub(super) trait Call: Send {
    fn message(&mut self) -> &mut dyn Selectable;
    fn apply(self: Box<Self>, core: Arc<Core>) -> Applied;
}

impl<Q: Selectable + Send> Call for Asked<Q> {
    fn message(&mut self) -> &mut dyn Selectable {
        &mut self.message
    }

    fn apply(self: Box<Self>, core: Arc<Core>) -> Applied {
        (self.apply)(core, self.message)
    }
}

impl Core {
    /// Answers a request: does what it asks, unless a fault decides otherwise.
    pub(super) fn call(
        self: &Arc<Core>,
        rpc: Rpc,
        mut call: Box<dyn Call>,
        request: &Request<Bytes>,
    ) -> Answering {
        let limit = time_limit(request.metadata());
        let connection = request.extensions().get::<Connection>().cloned();
        let message = call.message();
        let session = message.named().session;
        self.counts.count(rpc, session);
        let known = OfSession { core: self, session: session.unwrap_or_default() };
        let answer = match self.faults.meet(rpc, message, &known) {
            None => call.apply(Arc::clone(self)),
            Some(effect) => Box::pin(Arc::clone(self).affected(effect, call, connection)),
        };
        Box::pin(async move {
            let answer = match limit {
                None => answer.await,
                Some(limit) => match tokio::time::timeout(limit, answer).await {
                    Ok(answer) => answer,
                    Err(_) => Err(Error::new(Code::DeadlineExceeded, "Deadline exceeded.")),
                },
            };
            let answer = answer.map_err(|error| status(&error));
            // A stream begins before its error, as Cloud Spanner's does: Node's client takes an error
            // without a reply for a connection that failed, and tries twice more by itself.
            match rpc.is_streamed() {
                true => Ok(Response::new(answer.unwrap_or_else(grpc::failed))),
                false => answer.map(Response::new),
            }
        })
    }

    /// Answers a request that meets a fault.
    async fn affected(
        self: Arc<Core>,
        effect: Effect,
        mut call: Box<dyn Call>,
        connection: Option<Connection>,
    ) -> Result<Messages> {
        let core = Arc::clone(&self);
        match effect {
            Effect::Delay(delay) => tokio::time::sleep(delay).await,
            Effect::Queue(delay) => {
                let turn = self.queue.lock().await;
                tokio::time::sleep(delay).await;
                drop(turn);
            }
            Effect::DelayReply(delay) => {
                let answer = call.apply(core).await;
                tokio::time::sleep(delay).await;
                return answer;
            }
            Effect::Fail(code) => return Err(injected(code)),
            Effect::FailAfterApplying(code) => {
                // The sender never learns the answer.
                let _ = call.apply(core).await;
                return Err(injected(code));
            }
            Effect::LoseReply => {
                let _ = call.apply(core).await;
                return cut(connection).await;
            }
            Effect::ApplyLate { after } => {
                self.apply_late(after, call);
                return Err(injected(Code::Unavailable));
            }
            Effect::DropConnection => return cut(connection).await,
            Effect::Stall => return std::future::pending().await,
            Effect::StallReply => {
                let _ = call.apply(core).await;
                return std::future::pending().await;
            }
            // None that has committed can be aborted.
            Effect::Abort => self.abort(call.message()).map_or(Ok(()), Err)?,
            Effect::EndEarlier => {
                let message = call.message();
                let Named { session, begins, .. } = message.named();
                if let Some(session) = session.filter(|_| begins) {
                    self.end_latest(session)?;
                }
            }
            Effect::HideReadTimestamp => {
                let options = call.message().options();
                if let Some(Mode::ReadOnly(read)) = options.and_then(|it| it.mode.as_mut()) {
                    read.return_read_timestamp = false;
                }
            }
        }
        call.apply(core).await
    }

    fn apply_late(self: &Arc<Core>, after: Duration, call: Box<dyn Call>) {
        let core = Arc::clone(self);
        self.tasks.spawn(async move {
            let late = async {
                tokio::time::sleep(after).await;
                drop(call.apply(Arc::clone(&core)).await);
            };
            tokio::select! {
                () = core.stopped.cancelled() => {}
                () = late => {}
            }
        });
    }

    /// Aborts the transaction that a request names; none if that one has committed.
    fn abort(&self, message: &dyn Selectable) -> Option<Error> {
        let error = Error::aborted("Transaction aborted by an injected fault.");
        let Named { session, transaction, .. } = message.named();
        let handle = transaction.zip(session);
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
}

/// Breaks the connection that the request came on, and with it the request.
async fn cut(connection: Option<Connection>) -> Result<Messages> {
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
