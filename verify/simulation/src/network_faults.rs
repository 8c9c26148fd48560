//! The network's faults, and what becomes of a request in them.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use rand::rngs::SmallRng;
use spindle_emulator::engine::{Code, Database, Error, TransactionId};
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::flow::Flow;

/// The state of the network and the server.
#[derive(Clone, Debug)]
pub(crate) struct NetworkFaults {
    pub(crate) loss: f64,
    pub(crate) outage: Option<Outage>,
    /// For each connection.
    pub(crate) lines: Vec<Line>,
}

/// How requests on one connection go.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    pub(crate) cut: Option<Cut>,
    /// Its reads come back so late.
    pub(crate) stale: Option<Duration>,
    /// It commits nothing about these rows.
    pub(crate) unable: Vec<String>,
}

/// A cut between one process and the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cut {
    /// Nothing it sends arrives.
    Requests,
    /// It hears nothing back.
    Replies,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outage {
    /// Connections are refused at once.
    Refused,
    /// Nothing comes back.
    Silent,
}

/// The delivery of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Delivery {
    Deliver {
        out: Duration,
        back: Duration,
    },
    LoseRequest,
    LoseReply {
        out: Duration,
    },
    Refuse,
    /// Answered as if the row, the table or the session were gone, which is not so.
    DenyExistence,
    /// Applied, and answered with an error that leaves the outcome open.
    FailAfterApplying,
    /// Answered with such an error, and applied long after.
    ApplyLate {
        after: Duration,
    },
    Abort,
}

impl Delivery {
    /// Draws how one goes wrong; what takes long takes up to one and a half times as long as
    /// `longest`.
    pub(crate) fn bad(
        random: &mut SmallRng,
        longest: Duration,
        (out, back): (Duration, Duration),
    ) -> Delivery {
        let long = longest.mul_f64(random.random_range(0.0..1.5));
        match random.random_range(0..10) {
            0 => Delivery::Deliver { out: long, back },
            1 => Delivery::Deliver { out, back: long },
            2 => Delivery::LoseRequest,
            3 => Delivery::LoseReply { out },
            4 => Delivery::Refuse,
            5 | 6 => Delivery::FailAfterApplying,
            7 => Delivery::ApplyLate { after: long * 2 },
            8 => Delivery::DenyExistence,
            _ => Delivery::Abort,
        }
    }
}

/// Draws how long a request is under way to the server and back.
pub(crate) fn delays(random: &mut SmallRng, longest: Duration) -> (Duration, Duration) {
    let longest = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
    let mut delay = || {
        let quick = random.random_bool(0.5);
        Duration::from_millis(if quick { 0 } else { random.random_range(0..=longest) })
    };
    (delay(), delay())
}

/// Aborts the transaction that is to be committed, and says what its sender is told.
pub(crate) fn abort(database: &Database, commit: Option<TransactionId>) -> Code {
    let Some(id) = commit else { return Code::Unavailable };
    database.fail(id, Error::aborted("Transaction aborted by the simulation."));
    Code::Aborted
}

/// Carries a request on a flow as its delivery says. Once it is sent it is on its way whether or not its sender
/// lives to hear the answer, which may never come. `landed` is told of one that is applied late.
pub(crate) async fn carry<T: Send + 'static>(
    (flow, delivery): (Arc<Flow>, Delivery),
    serving: impl Future<Output = Result<T, Code>> + Send + 'static,
    aborted: impl FnOnce() -> Code + Send + 'static,
    landed: impl FnOnce() + Send + 'static,
) -> Result<T, Code> {
    let (sender, answer) = oneshot::channel();
    tokio::spawn(async move {
        if let Some(answer) = travel(&flow, delivery, serving, aborted, landed).await {
            // Nobody listens any more if the sender gave up.
            let _ = sender.send(answer);
        }
    });
    match answer.await {
        Ok(answer) => answer,
        Err(_) => std::future::pending().await,
    }
}

async fn travel<T: Send + 'static>(
    flow: &Flow,
    delivery: Delivery,
    serving: impl Future<Output = Result<T, Code>> + Send + 'static,
    aborted: impl FnOnce() -> Code,
    landed: impl FnOnce() + Send + 'static,
) -> Option<Result<T, Code>> {
    let (out, back) = match delivery {
        Delivery::LoseRequest => return None,
        Delivery::Deliver { out, back } => (out, Some(back)),
        Delivery::LoseReply { out } => (out, None),
        _ => (Duration::ZERO, Some(Duration::ZERO)),
    };
    if !flow.carries(out).await {
        return None;
    }
    let reply = match delivery {
        Delivery::Deliver { .. } | Delivery::LoseReply { .. } | Delivery::LoseRequest => {
            serving.await
        }
        Delivery::Refuse => Err(Code::Unavailable),
        Delivery::DenyExistence => Err(Code::NotFound),
        Delivery::FailAfterApplying => {
            let _ = serving.await;
            Err(Code::Unavailable)
        }
        Delivery::ApplyLate { after } => {
            tokio::spawn(async move {
                sleep(after).await;
                if serving.await.is_ok() {
                    landed();
                }
            });
            Err(Code::Unavailable)
        }
        Delivery::Abort => Err(aborted()),
    };
    flow.carries(back?).await.then_some(reply)
}
