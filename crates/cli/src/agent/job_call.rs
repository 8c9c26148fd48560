//! A slot of a job, for which a client does the work.

use std::future::ready;
use std::pin::Pin;

use spindle::job::{Job, JobOutcome, JobRun, Slot};
use spindle::{CancellationToken, Result};
use tokio::sync::{mpsc, oneshot};

/// The call of the library, until the slot is recorded.
pub type Running = Pin<Box<dyn Future<Output = Result<JobOutcome<()>>> + Send>>;

/// A slot that is asked for.
pub struct JobCall {
    pub running: Running,
    /// Its starts, one after the other.
    pub begun: mpsc::Receiver<Start>,
    /// Ends the call once the start of the moment has ended.
    pub cancel: CancellationToken,
}

/// A start of the slot.
pub struct Start {
    pub run: JobRun,
    /// True if the client has done it; nothing, if nobody can say.
    pub end: oneshot::Sender<bool>,
}

impl JobCall {
    /// Asks for a slot. Settings that can't work are refused before anything is sent.
    pub async fn begin(job: Job, slot: Slot) -> Result<JobCall> {
        let cancel = CancellationToken::new();
        let (begin, begun) = mpsc::channel(1);
        let task = move |run: JobRun| {
            let begin = begin.clone();
            async move {
                let (end, ended) = oneshot::channel();
                // The receiver lives longer than the call.
                let _ = begin.send(Start { run, end }).await;
                match ended.await {
                    Ok(true) => Ok(()),
                    Ok(false) => Err("its client says so"),
                    Err(_) => Err("nobody knows how it ended"),
                }
            }
        };
        let mut running: Running = Box::pin(job.until(cancel.clone()).run_once(slot, task));
        let running = tokio::select! {
            biased;
            outcome = &mut running => Box::pin(ready(Ok(outcome?))),
            () = ready(()) => running,
        };
        Ok(JobCall { running, begun, cancel })
    }
}
