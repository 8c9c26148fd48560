//! A writer's way from its first commit, which stops new readers, to its second.

use std::sync::Arc;
use std::time::Duration;

use spindle_protocol::rw::{Stopped, WriterDecision};
use spindle_protocol::{Change, Holder, Row, TermId};
use tokio::sync::OwnedRwLockWriteGuard;
use tokio::time::{sleep, sleep_until};

use super::rw_guards::{Reading, WriteGuard};
use super::rw_lock::{Inner, RwLock};
use crate::batch::{Charge, Columns, Repeats};
use crate::error::{Error, Result};
use crate::lock::{Guard, Spindle};
use crate::names::subject;
use crate::runloop::{RowRole, WriterRow};
use crate::store::REQUEST_LIMIT;
use crate::store::membership::poll;
use crate::system::{random, runtime};
use crate::term::{Term, say};
use crate::token::FencingToken;

/// So many readers' rows are deleted in the second commit, at the most.
const READERS_MAX: usize = 1_000;
/// Pauses after failures: at first, and at most, unless a poll is longer.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
const PAUSE_LONGEST: Duration = Duration::from_secs(10);
/// So many times a caller that only tries repeats a second commit that lost to other transactions.
const RACES_MAX: u32 = 3;

/// The result of a try to begin the second term.
enum Tried {
    Began(TermId),
    /// Readers are at work; the last of them expires after so long, if no more is heard of them.
    Read(Duration),
    /// Rows of readers that are gone were deleted, and there are more.
    Cleared,
    /// A row has changed just now.
    Again,
    Lost,
}

impl RwLock {
    /// Returns an instance for the writers' row.
    pub(super) fn writer(&self) -> (Spindle, Arc<WriterRow>) {
        let row = Arc::new(WriterRow::new(&self.0.writers));
        let (table, settings) = (Arc::clone(&self.0.table), Ok(self.0.settings.clone()));
        (Spindle::in_role(table, settings, RowRole::Writer(Arc::clone(&row))), row)
    }

    /// Writes by this instance, in its turn among the callers of this handle.
    pub(super) async fn write_by(&self, writer: &Spindle, row: &WriterRow) -> Result<WriteGuard> {
        runtime(&subject(&self.0.writer_row))?;
        let mut turn = self.turn_to_write().await;
        sleep_until(self.0.writers.begins()).await;
        loop {
            self.0.failures.end();
            let guard = writer.acquire().await?;
            if let Some(term) = self.second(&guard, row, true).await? {
                return Ok(WriteGuard::new(guard, term, turn));
            }
            if self.reads_here() {
                guard.release().await;
                drop(turn);
                turn = self.turn_to_write().await;
            }
        }
    }

    /// Waits for a turn among the callers of this handle, and until nobody reads by this table. Who
    /// reads may have to read once more before it ends: until then the turn is left to readers.
    async fn turn_to_write(&self) -> OwnedRwLockWriteGuard<()> {
        loop {
            let turn = Arc::clone(&self.0.queue).write_owned().await;
            if !self.reads_here() {
                return turn;
            }
            drop(turn);
            Reading::none_is_left(&self.0.table, &self.0.writer_row).await;
        }
    }

    /// Returns true if somebody reads by this table, perhaps by another handle.
    pub(super) fn reads_here(&self) -> bool {
        Reading::is_any(&self.0.table, &self.0.writer_row)
    }

    fn failed(&self, error: &Error) {
        let (lock, id) = (&*self.0.writer_row, &*self.0.settings.id);
        self.0.failures.failed(error, || {
            tracing::warn!(lock, id, %error, "has stopped new readers, and can't begin to write yet");
        });
    }

    /// Waits until nobody reads any more, and begins the writer's own term. Returns nothing if the
    /// first term is lost, if somebody reads by this table, or if somebody reads and it `waits` for nobody.
    pub(super) async fn second(
        &self,
        guard: &Guard,
        row: &WriterRow,
        waits: bool,
    ) -> Result<Option<Term>> {
        let token = guard.token().to_timestamp();
        let first = TermId { token, writer: guard.writer().clone() };
        let stopped = Stopped::new(first.clone(), self.0.settings.timing.lease);
        let (mut fruitless, repeats) = (0, Repeats::default());
        loop {
            let tried = tokio::select! {
                biased;
                () = guard.cancelled() => return Ok(None),
                tried = self.try_in_turn(&stopped, &repeats) => tried,
            };
            match &tried {
                Ok(_) => drop(self.0.failures.end()),
                Err(error) => self.failed(error),
            }
            let poll = self.0.settings.timing.poll_interval;
            let pause = match tried {
                Ok(Tried::Began(second)) => {
                    return Ok(Some(self.begins(guard, row, first, second)));
                }
                Ok(Tried::Lost) => return Ok(None),
                Ok(Tried::Read(_)) if !waits || self.reads_here() => return Ok(None),
                Ok(Tried::Cleared) => {
                    fruitless = 0;
                    // Three requests a poll at the most (I8).
                    poll
                }
                Ok(Tried::Read(longest)) => {
                    fruitless = 0;
                    longest.saturating_add(Duration::from_millis(1)).min(poll)
                }
                Err(error) if error.is_config() || error.is_schema() => return Err(error),
                Err(error) if !waits && (fruitless >= RACES_MAX || !error.may_be_anothers()) => {
                    return Err(error);
                }
                Ok(Tried::Again) | Err(_) => {
                    fruitless += 1;
                    let pause = PAUSE_FIRST * 2_u32.pow((fruitless - 1).min(10));
                    pause.min(PAUSE_LONGEST.max(poll))
                }
            };
            tokio::select! {
                biased;
                () = guard.cancelled() => return Ok(None),
                () = sleep(random::jittered(pause)) => {}
            }
        }
    }

    /// Tries once; a try that repeats a failure is charged.
    async fn try_in_turn(&self, stopped: &Stopped, repeats: &Repeats) -> Result<Tried> {
        let budget = self.0.table.budget();
        let turn = repeats.turn(budget, Charge::ReadAndTransaction).await;
        let tried = Box::pin(self.try_second(stopped)).await;
        turn.ends(!matches!(tried, Err(_) | Ok(Tried::Again)));
        tried
    }

    /// Polls the readers, and commits a second time if there are none.
    async fn try_second(&self, stopped: &Stopped) -> Result<Tried> {
        let Inner { table, writer_row, readers: prefix, settings, .. } = &*self.0;
        let found = poll(table, &[writer_row], &[prefix], Columns::ButInfo).await?;
        let (mut seen_row, mut readers) = (None, Vec::new());
        for full in found.rows {
            if full.key == *writer_row {
                seen_row = Some(full.row());
            } else {
                let row = full.row();
                readers.push((full.key, row));
            }
        }
        let holder = Holder { lease: settings.timing.lease, info: settings.info.clone() };
        let change = match stopped.sees(seen_row.as_ref(), &readers, found.read_at, &holder) {
            WriterDecision::Began(second) => return Ok(Tried::Began(second)),
            WriterDecision::Lost => return Ok(Tried::Lost),
            WriterDecision::Wait(longest) => return Ok(Tried::Read(longest)),
            WriterDecision::Begin(change) => change,
        };
        if readers.len() > READERS_MAX {
            return self.clear(readers).await;
        }
        let limit = Duration::from_secs(10).min(settings.timing.lease / 3);
        let (outcome, _) = table.carry_out(writer_row, change, limit).await;
        match (stopped.answered(&outcome.answer), outcome.error) {
            (Some(second), _) => Ok(Tried::Began(second)),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(Tried::Again),
        }
    }

    /// Deletes some of the rows of readers that are gone, where they are more than one commit should
    /// delete. Each goes on the condition that nothing has changed it.
    async fn clear(&self, readers: Vec<(String, Row)>) -> Result<Tried> {
        let change = |(key, row): (String, Row)| {
            let remove = Change::Remove { seen: Some(row), takeovers: Vec::new() };
            (Arc::from(&*key), remove)
        };
        let changes: Vec<_> = readers.into_iter().take(READERS_MAX).map(change).collect();
        let rows = changes.len();
        let verdict = self.0.table.store.transact(changes, REQUEST_LIMIT).await;
        match verdict.error {
            Some(error) => Err(error),
            None if verdict.refused.iter().flatten().count() < rows => Ok(Tried::Cleared),
            None => Ok(Tried::Again),
        }
    }

    fn begins(&self, guard: &Guard, row: &WriterRow, first: TermId, second: TermId) -> Term {
        let token = FencingToken::from_timestamp(second.token);
        let waited = second.token.since(first.token);
        // By which the row's other lines, of heartbeats and of the end, know the term.
        let first_token = guard.token();
        let term = guard.second(token, second.writer.clone());
        row.begins(first, second);
        let (lock, id) = (&*self.0.writer_row, &*self.0.settings.id);
        say(
            || tracing::info!(lock, id, %token, %first_token, ?waited, "nobody reads any more: the writer begins"),
        );
        term
    }
}
