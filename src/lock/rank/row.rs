//! The row of a ranked lock: a poll that shows it vacant also asks whose turn it is.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use spindle_protocol::fleet::{Contest, Life, Ranked, Standing as Joined};
use spindle_protocol::{Act, Answer, StoredRow, Timestamp};
use tokio::time::{Instant, timeout};

use crate::batch::{Columns, Repeats, Snapshot, Ticks};
use crate::error::{Error, Outcome, Result};
use crate::names::subject;
use crate::runloop::{BatchedRow, LockRow, UnderWay};
use crate::store::Table;
use crate::store::membership::{holder, lives, poll_in_turn};
use crate::term::Published;

/// A ranked lock's row, as the loop reaches it.
pub(super) struct RankedRow {
    pub(super) row: BatchedRow,
    pub(super) judge: Arc<Judge>,
}

/// A ranked contender's knowledge of its rivals, and where it finds them.
pub(super) struct Judge {
    pub(super) table: Arc<Table>,
    /// With this the keys of all members begin.
    pub(super) members: String,
    pub(super) lease: Duration,
    pub(super) contest: Mutex<Contest>,
    /// Says if this contender is a member.
    pub(super) holding: Arc<Published>,
    /// Of its polls of the members.
    pub(super) repeats: Repeats,
}

/// How well a contender has proved itself, the best first. Ranks decide among those of the best
/// standing there is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Counts,
    /// It came before the last early death, which was none of its own.
    OlderThanLastDeath,
    Any,
}

impl LockRow for RankedRow {
    fn carry_out(&self, act: Act, limit: Duration) -> UnderWay {
        let acting = self.row.carry_out(act.clone(), limit);
        let judge = Arc::clone(&self.judge);
        Box::pin(async move {
            let begun = Instant::now();
            let mut outcome = acting.await;
            if let Answer::Observed(observation) = &mut outcome.answer {
                let is_vacant = judge.contest().sees(observation);
                if is_vacant {
                    match judge.wait(limit.saturating_sub(begun.elapsed())).await {
                        Ok(wait) => observation.wait = wait,
                        Err(error) => return Outcome::failed(Answer::NotApplied, error),
                    }
                }
            } else {
                judge.contest().acted(&act, &outcome.answer);
            }
            outcome
        })
    }

    fn ticks(&self) -> Ticks {
        self.row.ticks()
    }
}

impl Judge {
    pub(super) fn contest(&self) -> std::sync::MutexGuard<'_, Contest> {
        // Nothing that is done under it can panic halfway.
        self.contest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how long this contender leaves the vacant lock to others.
    async fn wait(&self, limit: Duration) -> Result<Duration> {
        let begun = Instant::now();
        if self.holding.has_lock().is_none() {
            // To be a member is to contend, and the first poll comes before that. A contender that
            // can't be one goes on without.
            let _ = timeout(limit / 2, self.holding.watch().next()).await;
        }
        let left = limit.saturating_sub(begun.elapsed());
        let polled = timeout(left, self.poll()).await;
        let (_, members, read_at) = polled.unwrap_or_else(|_| {
            let doing = format!("{}: read the members", subject(&self.members));
            Err(Error::timed_out(doing, left))
        })?;
        Ok(self.contest().wait(members, read_at))
    }

    /// Returns how many lives of the member of this key ended early, in a row, before the one that
    /// begins; none where that can't be read.
    pub(super) async fn early_lives(&self, key: &str) -> u32 {
        let Ok(found) = self.read().await else { return 0 };
        let lives = lives(&found.rows, Duration::ZERO, self.lease, found.read_at);
        lives.get(key).map_or(0, |(life, join)| join.early_with(life))
    }

    /// Reads the rows of all members, the gone ones' too.
    async fn read(&self) -> Result<Snapshot> {
        poll_in_turn(&self.table, &self.repeats, &[], &[&self.members], Columns::All).await
    }

    /// Reads the members: all rows, and those of the live ones that declare a rank, and count.
    pub(super) async fn poll(&self) -> Result<(Snapshot, Vec<Ranked>, Timestamp)> {
        let found = self.read().await?;
        let lives = lives(&found.rows, Duration::ZERO, self.lease, found.read_at);
        let died =
            |(life, join): &(Life, Joined)| (!life.is_live && join.is_young).then_some(life.heard);
        let last_death = lives.values().filter_map(died).max();
        let standing = |full: &StoredRow| match lives.get(&*full.key) {
            Some((_, join)) if join.counts_from <= found.read_at => Standing::Counts,
            Some((life, _)) if last_death.is_some_and(|at| life.since < at) => {
                Standing::OlderThanLastDeath
            }
            _ => Standing::Any,
        };
        let ranked = found.rows.iter().filter_map(|full| {
            let id = holder(&full.row(), self.lease, found.read_at)?.to_string();
            let rank = full.info.as_deref().and_then(declared)?;
            Some((standing(full), Ranked { id, rank, since: full.row().token }))
        });
        let ranked: Vec<_> = ranked.collect();
        // Those of the best standing alone.
        let best = ranked.iter().map(|(standing, _)| *standing).min();
        let ranked = ranked.into_iter().filter(|(it, _)| Some(*it) == best).map(|(_, it)| it);
        let (ranked, read_at) = (ranked.collect(), found.read_at);
        Ok((found, ranked, read_at))
    }
}

/// Reads the rank that a member declares; text may follow it.
fn declared(info: &str) -> Option<u32> {
    info.strip_prefix("rank ")?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_says_its_rank() {
        assert_eq!(declared("rank 3"), Some(3));
        assert_eq!(declared("rank 0 and more"), Some(0));
        for info in ["", "rank", "rank x", "rank -1", "http://10.0.0.1"] {
            assert_eq!(declared(info), None, "{info}");
        }
    }
}
