//! The shards and those who share them, at one timestamp.

use std::sync::Arc;
use std::time::Duration;

use spindle_protocol::fleet::{
    CountNamed, Declaration, Join, Participant, ShardState, View, counts_from,
};
use spindle_protocol::{Row, StoredRow, Timestamp};

use spindle::Result;
use spindle::rows::{Rows, Snapshot};

use crate::count_row::CountRow;
use crate::names::number;

/// The shards and those who share them, where a member finds them.
#[derive(Clone, Debug)]
pub(crate) struct ShardRows {
    /// All of them.
    pub(crate) all: Rows,
    pub(crate) shards: String,
    pub(crate) count_row: Arc<CountRow>,
    /// So many shards are shared, as the last poll of all showed it.
    pub(crate) count: usize,
    /// The token of the row that said so: a row of another token gives the numbers another meaning.
    pub(crate) count_token: Timestamp,
    pub(crate) lease: Duration,
}

/// One poll of a [`ShardRows`].
#[derive(Debug)]
pub(crate) struct Polled {
    pub(crate) view: View,
    /// The row of the count.
    pub(crate) count: Option<Row>,
    /// True if nobody has a shard, of whatever count.
    pub(crate) is_drained: bool,
    /// The rows that somebody who is gone may have left: those of members, and of shards beyond the count.
    pub(crate) left: Snapshot,
}

impl ShardRows {
    pub(crate) fn shard_key(&self, shard: usize) -> String {
        format!("{}{shard}", self.shards)
    }

    pub(crate) async fn poll(&self) -> Result<Polled> {
        let Snapshot { rows, read_at } = self.all.poll().await?;
        let (shard_rows, mut left): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| row.key.starts_with(&self.shards));
        let members = self.members(&left, read_at);
        let count = shard_rows.iter().find(|full| full.key == self.count_row.key());
        let count = count.map(StoredRow::row);
        let shared = match CountNamed::by(count.as_ref()) {
            CountNamed::Count(count) => count.shards,
            CountNamed::Nothing | CountNamed::Unreadable => self.count,
        };
        let mut shards = vec![ShardState::Vacant; shared];
        let mut is_drained = true;
        for full in shard_rows {
            let state = ShardState::of(&full.row(), self.lease, read_at);
            is_drained &= !matches!(state, ShardState::Held { .. });
            let Some(shard) = full.key.strip_prefix(&self.shards).and_then(number) else {
                continue;
            };
            match shards.get_mut(shard) {
                Some(shard) => *shard = state,
                None => left.push(full),
            }
        }
        let view = View { read_at, members, shards };
        let left = Snapshot { rows: left, read_at };
        Ok(Polled { view, count, is_drained, left })
    }

    /// Returns the live members.
    fn members(&self, shares: &[StoredRow], read_at: Timestamp) -> Vec<Participant> {
        let (mut members, mut joins, mut ran_out) = (Vec::new(), Vec::new(), Vec::new());
        for full in shares {
            let row = full.row();
            let until = row.taken_until(self.lease, read_at);
            let (Some(id), Some(until)) = (row.holder(self.lease, read_at), until) else {
                ran_out.extend(self.ran_out_at(&row));
                continue;
            };
            let declares = full.info.as_deref().and_then(Declaration::read);
            let (weight, displaced) = declares.map_or((1, false), |it| (it.weight, it.ran_out));
            joins.push(Join { since: row.token, ran_out: displaced });
            members.push(Participant { id: id.to_string(), until, counts_from: read_at, weight });
        }
        let counts_from = counts_from(&joins, &ran_out, self.lease);
        members.iter_mut().zip(counts_from).for_each(|(member, at)| member.counts_from = at);
        members
    }

    /// Returns when the term in a member's row ran out, unless it was released.
    fn ran_out_at(&self, row: &Row) -> Option<Timestamp> {
        is_unreleased(row).then(|| row.vacant_for_all_from(self.lease))
    }
}

/// Returns true if a member's row names a term that nobody has released.
pub(crate) fn is_unreleased(row: &Row) -> bool {
    row.writer.id().is_some() && !row.is_released()
}
