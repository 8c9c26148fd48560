//! A member's knowledge of its shards and of everybody's, for its own process.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use spindle_protocol::fleet::{ShardState, View};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use spindle::FencingToken;

use crate::metrics::Meter;

/// So many events a reader may be behind.
const EVENTS_MAX: usize = 1_024;

/// A change of a member's shards. Made by [`Shards::events`](super::Shards::events).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShardEvent {
    /// This member has the shard, and its task begins.
    Gained {
        /// The number of the shard.
        shard: usize,
        /// The token of its term.
        token: FencingToken,
    },
    /// The task was told to stop. This member has the shard until the task has ended.
    GivingUp {
        /// The number of the shard.
        shard: usize,
        /// The id of the next owner; nothing if that is whoever comes first.
        to: Option<String>,
    },
    /// The shard's task has ended, and the shard was released.
    GivenUp {
        /// The number of the shard.
        shard: usize,
    },
    /// The term was lost, or the task could not be stopped: the shard goes on elsewhere.
    Lost {
        /// The number of the shard.
        shard: usize,
    },
    /// The group has moved to another count of shards, and this member goes by it from now on.
    Resized {
        /// So many shards are shared.
        count: usize,
    },
    /// Every shard has an owner, this member takes part, and by the plan none will move.
    Settled,
    /// So many events came and went before they were read.
    Missed(u64),
}

/// The changes of a member's shards, one after the other. Made by
/// [`Shards::events`](super::Shards::events).
#[derive(Debug)]
pub struct ShardEvents(broadcast::Receiver<ShardEvent>);

impl ShardEvents {
    /// Waits for the next event; nothing once the last [`Shards`](super::Shards) is gone and its `run`
    /// has ended.
    ///
    /// A reader that is more than 1,024 events behind is told how many it has
    /// [missed](ShardEvent::Missed).
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<ShardEvent> {
        match self.0.recv().await {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(events)) => Some(ShardEvent::Missed(events)),
            Err(RecvError::Closed) => None,
        }
    }
}

/// The last known state, shared by the clones of one [`Shards`](super::Shards).
#[derive(Debug)]
pub(crate) struct ShardsView {
    state: Mutex<State>,
    events: broadcast::Sender<ShardEvent>,
}

#[derive(Debug, Default)]
struct State {
    mine: BTreeSet<usize>,
    owners: Vec<Option<String>>,
    is_settled: bool,
    unsettled_since: Option<Instant>,
}

impl Default for ShardsView {
    fn default() -> ShardsView {
        let (events, _) = broadcast::channel(EVENTS_MAX);
        ShardsView { state: Mutex::default(), events }
    }
}

impl ShardsView {
    pub(crate) fn mine(&self) -> Vec<usize> {
        self.state().mine.iter().copied().collect()
    }

    pub(crate) fn owners(&self) -> Vec<Option<String>> {
        self.state().owners.clone()
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.state().is_settled
    }

    pub(crate) fn events(&self) -> ShardEvents {
        ShardEvents(self.events.subscribe())
    }

    /// Tells an event, and notes what it changes.
    pub(crate) fn tell(&self, event: ShardEvent) {
        let mut state = self.state();
        match event {
            ShardEvent::Gained { shard, .. } => drop(state.mine.insert(shard)),
            ShardEvent::GivenUp { shard } | ShardEvent::Lost { shard } => {
                state.mine.remove(&shard);
            }
            _ => {}
        }
        // Nobody may be listening.
        let _ = self.events.send(event);
    }

    /// Takes note of a poll.
    pub(crate) fn polled(&self, view: &View) {
        let owner = |state: &ShardState| match state {
            ShardState::Held { by, .. } => by.clone(),
            ShardState::Vacant | ShardState::Promised { .. } => None,
        };
        self.state().owners = view.shards.iter().map(owner).collect();
    }

    /// Takes note of what was decided by it: all shards are settled, or they aren't.
    pub(crate) fn settles(&self, is_settled: bool, meter: &Meter) {
        let mut state = self.state();
        let was_settled = std::mem::replace(&mut state.is_settled, is_settled);
        let now = Instant::now();
        if !is_settled {
            state.unsettled_since.get_or_insert(now);
        } else if !was_settled {
            let since = state.unsettled_since.take().unwrap_or(now);
            meter.settled(now.duration_since(since));
            // Nobody may be listening.
            let _ = self.events.send(ShardEvent::Settled);
        }
    }

    /// Forgets what a poll showed: nobody polls any more.
    pub(crate) fn ended(&self) {
        let mut state = self.state();
        (state.owners, state.is_settled, state.unsettled_since) = (Vec::new(), false, None);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
