//! The shards and those who share them, at one timestamp.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use spindle_protocol::fleet::{
    CountNamed, Declaration, Join, Life, Participant, ShardState, Share, View, agreed_costs,
};
use spindle_protocol::{Row, StoredRow, Timestamp};

use super::count_row::CountRow;
use crate::batch::Repeats;
use crate::error::Result;
use crate::names::number;
use crate::store::Table;
use crate::store::membership::{Rows, holder, lives, poll_in_turn, taken_until};

/// The shards and those who share them, where a member finds them.
#[derive(Clone, Debug)]
pub(super) struct ShardRows {
    pub(super) table: Arc<Table>,
    pub(super) shares: String,
    pub(super) shards: String,
    pub(super) count_row: Arc<CountRow>,
    /// So many shards are shared, as the last poll of all showed it.
    pub(super) count: usize,
    /// The token of the row that said so: a row of another token gives the numbers another meaning.
    pub(super) count_token: Timestamp,
    /// The member's own declaration: how many shards its code names, its weight, and their costs.
    pub(super) declares: Declaration,
    pub(super) lease: Duration,
    pub(super) repeats: Arc<Repeats>,
}

/// One poll of a [`ShardRows`].
#[derive(Debug)]
pub(super) struct Polled {
    pub(super) view: View,
    /// The row of the count.
    pub(super) count: Option<Row>,
    /// True if nobody has a shard, of whatever count.
    pub(super) is_drained: bool,
    /// True if all members plan by weight.
    pub(super) is_by_weight: bool,
    /// The rows of the members, the gone ones' too.
    pub(super) shares: Rows,
}

impl Polled {
    /// Returns true if a count is named, and no move to it goes on.
    pub(super) fn is_shared(&self) -> bool {
        let named = CountNamed::by(self.count.as_ref());
        matches!(named, CountNamed::Count(count) if !count.is_draining)
    }
}

impl ShardRows {
    pub(super) fn shard_key(&self, shard: usize) -> String {
        format!("{}{shard}", self.shards)
    }

    pub(super) fn share_key(&self, id: &str) -> String {
        format!("{}{id}", self.shares)
    }

    pub(super) async fn poll(&self) -> Result<Polled> {
        let prefixes = [&*self.shares, &*self.shards];
        let rows = poll_in_turn(&self.table, &self.repeats, &[], &prefixes).await?;
        let Rows { rows, takeovers, read_at, is_lease_read } = rows;
        let (shard_rows, shares): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| row.key.starts_with(&self.shards));
        let count = shard_rows.iter().find(|full| full.key == self.count_row.key());
        let count = count.map(StoredRow::row);
        let shared = match CountNamed::by(count.as_ref()) {
            CountNamed::Count(count) => count.shards,
            CountNamed::Nothing | CountNamed::Unreadable => self.count,
        };
        let mut shards = vec![ShardState::Vacant; shared];
        self.note(&mut shards, &shard_rows, read_at);
        let (mut members, mut declared) = (Vec::new(), Vec::new());
        let lives = self.lives(&shares, read_at);
        for full in &shares {
            let row = full.row();
            let (Some(id), Some(until), Some((_, join))) = (
                holder(&row, self.lease, read_at),
                taken_until(&row, self.lease, read_at),
                lives.get(&*full.key),
            ) else {
                continue;
            };
            let (id, since, counts_from) = (id.to_string(), row.token, join.counts_from);
            let declares = full.info.as_deref().and_then(Declaration::read);
            let weight = declares.as_ref().map_or(1, |it| it.weight);
            members.push(Participant { id, since, until, counts_from, weight });
            declared.push(declares);
        }
        let declared = members.iter().zip(&declared);
        let costs = agreed_costs(declared.map(|(it, says)| (it.since, &*it.id, says.as_ref())));
        let (is_by_weight, costs) = (costs.is_some(), costs.cloned().unwrap_or_default());
        for member in members.iter_mut().filter(|_| !is_by_weight) {
            member.weight = 1;
        }
        let takeovers = takeovers.into_iter().filter(|key| key.starts_with(&self.shares)).collect();
        let view = View { read_at, members, shards, costs };
        let is_held = |full: &StoredRow| {
            matches!(ShardState::of(&full.row(), self.lease, read_at), ShardState::Held { .. })
        };
        let is_drained = !shard_rows.iter().any(is_held);
        let shares = Rows { rows: shares, takeovers, read_at, is_lease_read };
        Ok(Polled { view, count, is_drained, is_by_weight, shares })
    }

    fn lives<'r>(
        &self,
        shares: &'r [StoredRow],
        read_at: Timestamp,
    ) -> BTreeMap<&'r str, (Life, Join)> {
        lives(shares, Share::usual_settling(self.lease), self.lease, read_at)
    }

    /// Returns how many lives of this member ended early, in a row, before the one that begins.
    pub(super) fn early_lives(&self, id: &str, polled: &Polled) -> u32 {
        let lives = self.lives(&polled.shares.rows, polled.view.read_at);
        lives.get(&*self.share_key(id)).map_or(0, |(life, join)| join.early_with(life))
    }

    /// Polls these shards alone; all else is as it was seen last.
    pub(super) async fn poll_some(&self, last: &View, shards: &[usize]) -> Result<Polled> {
        let keys: Vec<String> = shards.iter().map(|shard| self.shard_key(*shard)).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let found = poll_in_turn(&self.table, &self.repeats, &keys, &[]).await?;
        let Rows { rows, read_at, is_lease_read, .. } = found;
        let mut view = View { read_at, ..last.clone() };
        for shard in shards {
            view.shards[*shard] = ShardState::Vacant;
        }
        self.note(&mut view.shards, &rows, read_at);
        let shares = Rows { rows: Vec::new(), takeovers: Vec::new(), read_at, is_lease_read };
        Ok(Polled { view, count: None, is_drained: false, is_by_weight: true, shares })
    }

    fn note(&self, shards: &mut [ShardState], rows: &[StoredRow], read_at: Timestamp) {
        for full in rows {
            let shard = full.key.strip_prefix(&self.shards).and_then(number);
            if let Some(state) = shard.and_then(|shard| shards.get_mut(shard)) {
                *state = ShardState::of(&full.row(), self.lease, read_at);
            }
        }
    }
}
