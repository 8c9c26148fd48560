//! A member of a group that shares shards out.

use std::sync::Arc;

use spindle::CancellationToken;
use spindle_fleet::Member;
use spindle_fleet::{Shard, Shards};
use tokio::time::timeout;

use super::claims::say_who_holds;
use super::holders::Holders;
use super::{LEAVE_LIMIT, Worker};
use crate::counters::Counters;
use crate::history::Failure;
use crate::setup::{GROUP, SHARDS};

impl Worker {
    /// Takes part until it is told to leave. A member that resigns takes part no more, and at once
    /// again.
    pub(super) async fn share(mut self, count: usize) -> Result<(), Failure> {
        let member =
            Member::new(&self.table, GROUP).id(&*self.id).lease(self.target.lease()).build()?;
        let holders = Holders::new(count, &self.journal);
        say_who_holds(holders.clone(), Arc::clone(&self.journal));
        let cancel = CancellationToken::new();
        let running = member.run(cancel.clone());
        let shards = member.shards(SHARDS, count);
        let shards = match self.target.restart(&self.id) {
            Some(limit) => shards.restart_within(limit),
            None => shards,
        };
        let workload = Workload { counters: Arc::clone(&self.counters), holders };
        self.again_and_again(|stop| share(shards.clone(), stop, workload.clone())).await?;
        cancel.cancel();
        let _ = timeout(LEAVE_LIMIT, running).await;
        Ok(())
    }
}

async fn share(shards: Shards, stop: CancellationToken, workload: Workload) -> Result<(), Failure> {
    Ok(shards.run(stop, move |shard| workload.clone().work(shard)).await?)
}

/// The task of each shard.
#[derive(Clone)]
struct Workload {
    counters: Arc<Counters>,
    holders: Holders,
}

impl Workload {
    async fn work(self, shard: Shard) {
        let _at_work = self.holders.enter(shard.number(), &shard);
        loop {
            tokio::select! {
                biased;
                () = shard.cancelled() => return,
                () = self.counters.pause() => {}
            }
            // It takes its time even if it is told to stop meanwhile.
            self.counters.write(shard.number(), shard.fence()).await;
        }
    }
}
