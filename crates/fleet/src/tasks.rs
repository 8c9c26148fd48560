//! The tasks of one member: one for each shard that it takes or has.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use spindle_protocol::Succession;
use spindle_protocol::fleet::Part;
use tokio::task::{Id, JoinSet};

use crate::shard::{Finished, Outcome, Shard, TaskHandle, Worker};

/// The tasks of one member, by their shards. Dropping this aborts the
/// workers, and with that releases the shards. It ends none of the tasks that they have started.
#[derive(Default)]
pub(crate) struct Tasks {
    set: JoinSet<Finished>,
    shards: HashMap<Id, usize>,
    handles: BTreeMap<usize, TaskHandle>,
}

/// A task that has ended.
pub(crate) struct EndedTask {
    pub(crate) shard: usize,
    pub(crate) finished: Finished,
}

impl Tasks {
    pub(crate) fn start<F, Fut>(&mut self, worker: Worker, task: Arc<F>)
    where
        F: Fn(Shard) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        let (shard, handle) = (worker.number, worker.handle.clone());
        let id = self.set.spawn(worker.work(task)).id();
        self.shards.insert(id, shard);
        self.handles.insert(shard, handle);
    }

    /// Waits for the next end of a task; none if there is no task. Cancellation safe.
    pub(crate) async fn next_end(&mut self) -> Option<EndedTask> {
        loop {
            let (id, finished) = match self.set.join_next_with_id().await? {
                Ok((id, finished)) => (id, finished),
                // Nothing in a worker panics but a log, which is caught.
                Err(error) => (error.id(), Finished::Failed(Duration::ZERO)),
            };
            let Some(shard) = self.shards.remove(&id) else { continue };
            self.handles.remove(&shard);
            return Some(EndedTask { shard, finished });
        }
    }

    pub(crate) fn parts(&self) -> BTreeMap<usize, Part> {
        self.handles.iter().map(|(shard, task)| (*shard, task.part())).collect()
    }

    /// Has the shard given up, if there is a task of it.
    pub(crate) fn leave(&self, shard: usize, next: Succession) {
        if let Some(task) = self.handles.get(&shard) {
            task.leave(next);
        }
    }

    /// Has the shards from this number on given up, those that aren't yet.
    pub(crate) fn leave_from(&self, first: usize, next: &Succession) {
        let beyond = self.handles.range(first..).map(|(_, task)| task);
        beyond.filter(|task| !task.is_leaving()).for_each(|task| task.leave(next.clone()));
    }

    /// Has all shards given up.
    pub(crate) fn leave_all(&self, next: &Succession) {
        self.handles.values().for_each(|task| task.leave(next.clone()));
    }
}
