//! A member's own row among those that share shards.

use spindle::rows::RowRole;
use spindle_protocol::fleet::Declaration;
use spindle_protocol::line::Standing;
use spindle_protocol::{Act, Change, Holder, Writer};

use crate::poll::is_unreleased;

/// The row in which a member says how it shares.
#[derive(Debug)]
pub(crate) struct ShareRow {
    pub(crate) count: usize,
    pub(crate) weight: u32,
}

impl RowRole for ShareRow {
    fn standing(&self) -> Standing {
        Standing::Plain
    }

    /// A begin says if another process's term ran out before it, under the same id. It says nothing of its
    /// own: an outage pauses most members at once, and then those that are left would have all for long.
    fn change(&self, act: &Act, holder: &Holder) -> Option<Change> {
        let ShareRow { count, weight } = *self;
        let ran_out = match act {
            Act::Takeover { seen, writer, .. } => {
                is_unreleased(seen) && !is_of_one_process(&seen.writer, writer)
            }
            _ => false,
        };
        let info = Some(Declaration { count, weight, ran_out }.to_string());
        act.change(&Holder { info, ..holder.clone() })
    }
}

fn is_of_one_process(one: &Writer, other: &Writer) -> bool {
    let instance = |writer: &Writer| writer.nonce().map(|nonce| nonce.instance);
    instance(one) == instance(other)
}
