//! A process, so to speak: a runtime of its own, which may crash.

use spindle::CancellationToken;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::server::Failure;

pub struct Process {
    /// None once it has ended: a runtime must not be dropped among tasks.
    runtime: Option<Runtime>,
    cancel: CancellationToken,
    work: JoinHandle<Result<(), Failure>>,
}

impl Process {
    /// Starts what `work` does until it is cancelled.
    pub fn start<F>(work: impl FnOnce(CancellationToken) -> F) -> Result<Process, Failure>
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let cancel = CancellationToken::new();
        let work = runtime.spawn(work(cancel.clone()));
        Ok(Process { runtime: Some(runtime), cancel, work })
    }

    /// Nothing of it gets a chance to say anything.
    pub fn crash(self) {}

    pub async fn leave(mut self) -> Result<(), Failure> {
        self.cancel.cancel();
        (&mut self.work).await?
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
