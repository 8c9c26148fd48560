//! How a running member follows the count that the group's row names.

use spindle_protocol::Succession;
use spindle_protocol::fleet::{Count, CountNamed, CountStep};

use super::poll::{Place, Polled};
use super::shards_view::{ShardEvent, ShardsView};
use super::tasks::Tasks;
use crate::term::say;

/// The rest that a member is to do after it saw the row.
pub(super) enum Followed {
    /// It shares, as the place says now.
    Shares,
    /// It takes no shard after this poll, and writes the count, if there is one to write.
    Idle(Option<Count>),
}

/// Does as the row of the count says, in a poll of all shards.
pub(super) fn follow(
    place: &mut Place,
    polled: &Polled,
    tasks: &Tasks,
    view: &ShardsView,
    lock: &str,
) -> Followed {
    let ours = place.count;
    match CountNamed::by(polled.count.as_ref()).step(ours, polled.is_drained) {
        CountStep::Share(Count { shards: count, numbers_since, .. }) => {
            if count != ours {
                say(|| {
                    tracing::info!(
                        lock,
                        from = ours,
                        to = count,
                        "another count of shards from now on"
                    )
                });
                view.tell(ShardEvent::Resized { count });
            }
            place.count = count;
            place.numbers_since = numbers_since.unwrap_or(place.numbers_since);
            tasks.leave_from(count, &Succession::Anyone);
            Followed::Shares
        }
        CountStep::Drain => {
            tasks.leave_from(0, &Succession::Anyone);
            Followed::Idle(None)
        }
        CountStep::Keep(next) => Followed::Idle(next),
        CountStep::Finish(next) => Followed::Idle(Some(next)),
    }
}
