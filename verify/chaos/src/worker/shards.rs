//! A member of a group that shares shards out.

use std::sync::Arc;

use spindle::CancellationToken;
use spindle::fleet::{Shard, Shards};
use tokio::time::timeout;

use super::claims::say_who_holds;
use super::holders::Holders;
use super::{FAREWELL, Order, Worker};
use crate::clerk::Clerk;
use crate::history::Failure;
use crate::setup::{GROUP, SHARDS};

impl Worker {
    /// Takes part until it is told to leave. A member that resigns takes part no more, and at once
    /// again.
    pub(super) async fn share(mut self, count: usize) -> Result<(), Failure> {
        let member = self.table.member(GROUP).id(&*self.id).lease(self.target.lease()).build()?;
        let holders = Holders::new(count, &self.journal);
        say_who_holds(holders.clone(), Arc::clone(&self.journal));
        let cancel = CancellationToken::new();
        let running = member.run(cancel.clone());
        let shards = member.shards(SHARDS, count);
        let shards = match self.target.restart(&self.id) {
            Some(limit) => shards.restart_within(limit),
            None => shards,
        };
        let mut goes_on = true;
        while goes_on {
            let stop = CancellationToken::new();
            let workload = Workload { clerk: Arc::clone(&self.clerk), holders: holders.clone() };
            let mut sharing = tokio::spawn(share(shards.clone(), stop.clone(), workload));
            tokio::select! {
                // It ends before it is told to only if it can't go on.
                ended = &mut sharing => return ended?,
                order = self.orders.recv() => goes_on = matches!(order, Some(Order::Resign)),
            }
            stop.cancel();
            // A shard that is not released by then is left to its lease.
            let _ = timeout(FAREWELL, sharing).await;
        }
        cancel.cancel();
        let _ = timeout(FAREWELL, running).await;
        Ok(())
    }
}

async fn share(shards: Shards, stop: CancellationToken, workload: Workload) -> Result<(), Failure> {
    Ok(shards.run(stop, move |shard| workload.clone().work(shard)).await?)
}

/// The task of each shard.
#[derive(Clone)]
struct Workload {
    clerk: Arc<Clerk>,
    holders: Holders,
}

impl Workload {
    async fn work(self, shard: Shard) {
        let _at_work = self.holders.enter(shard.number(), &shard);
        loop {
            tokio::select! {
                biased;
                () = shard.cancelled() => return,
                () = self.clerk.pause() => {}
            }
            // It takes its time even if it is told to stop meanwhile.
            self.clerk.write(shard.number(), shard.fence()).await;
        }
    }
}
