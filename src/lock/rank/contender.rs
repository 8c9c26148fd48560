//! A ranked contender as a member of its lock, and the hand-over to a higher one.

use std::sync::{Arc, Mutex, Weak};

use futures_channel::mpsc;
use spindle_protocol::fleet::{Contest, Ranked, declare_early};
use spindle_protocol::{Succession, Timestamp};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::row::{Judge, RankedRow};
use crate::batch::Repeats;
use crate::names::members_prefix;
use crate::runloop::{BatchedRow, Command, Driver, LockRow, RowRole, overdue_limit};
use crate::settings::{Rank, Settings};
use crate::store::Table;
use crate::store::membership::{TIDY_SEARCH_INTERVAL, remove_released, tidy};
use crate::system::random;
use crate::term::{Published, say};

/// A ranked contender, which is a member of its lock while somebody wants it.
pub(crate) struct RankedContender {
    judge: Arc<Judge>,
    rank: Rank,
    /// The state that the loop of the lock publishes.
    lock: Arc<Published>,
    /// It holds no handle: the loop ends with the last of the user's.
    commands: Weak<mpsc::UnboundedSender<Command>>,
    /// How many in this process want the lock.
    wanted: watch::Receiver<usize>,
}

impl RankedContender {
    pub(crate) fn new(
        table: &Arc<Table>,
        settings: &Settings,
        rank: Rank,
        lock: Arc<Published>,
        commands: Weak<mpsc::UnboundedSender<Command>>,
        wanted: watch::Receiver<usize>,
    ) -> RankedContender {
        let Settings { name, id, timing, clock, .. } = settings;
        let holding =
            Published::new(clock.clone(), Arc::clone(&rank.member.name), Arc::clone(&table.name));
        let judge = Arc::new(Judge {
            table: Arc::clone(table),
            members: members_prefix(name),
            lease: timing.lease,
            contest: Mutex::new(Contest::new(id, rank.rank, timing)),
            holding: Arc::new(holding),
            repeats: Repeats::default(),
        });
        RankedContender { judge, rank, lock, commands, wanted }
    }

    /// Returns the lock's row with turns.
    pub(crate) fn row(&self, row: BatchedRow) -> impl LockRow + use<> {
        RankedRow { row, judge: Arc::clone(&self.judge) }
    }

    /// Runs the loop of the lock, and is a member while somebody wants the lock.
    pub(crate) async fn beside<R: LockRow>(self, driver: Driver<R>, cancel: CancellationToken) {
        let over = CancellationToken::new();
        let contending = async {
            Box::new(driver).run(cancel).await;
            over.cancel();
        };
        tokio::join!(contending, self.keep(&over));
    }

    async fn keep(&self, over: &CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = over.cancelled() => return,
                is_wanted = self.is_wanted() => if !is_wanted { return },
            }
            let leave = over.child_token();
            let until = async {
                let has_handed_over = tokio::select! {
                    biased;
                    () = leave.cancelled() => false,
                    () = self.is_unwanted() => false,
                    () = self.minds() => true,
                };
                leave.cancel();
                has_handed_over
            };
            let ((), has_handed_over) = tokio::join!(self.member(&leave), until);
            if has_handed_over {
                // It backs off, so it is no contender; then it has a claim to the lock again.
                tokio::select! {
                    biased;
                    () = over.cancelled() => return,
                    () = sleep(self.judge.lease) => {}
                }
            }
        }
    }

    /// Waits until somebody wants the lock; false if nobody can any more.
    async fn is_wanted(&self) -> bool {
        let mut wanted = self.wanted.clone();
        wanted.wait_for(|waiters| *waiters > 0).await.is_ok() && wanted.has_changed().is_ok()
    }

    /// Waits until nobody wants the lock, or can.
    async fn is_unwanted(&self) {
        // Its sender is gone with the last handle.
        let _ = self.wanted.clone().wait_for(|waiters| *waiters == 0).await;
    }

    /// Is a member until told to leave, then deletes the row.
    async fn member(&self, leave: &CancellationToken) {
        let Judge { table, holding, .. } = &*self.judge;
        let mut settings = Settings::clone(&self.rank.member);
        if self.rank.may_have_past {
            let early = tokio::select! {
                biased;
                () = leave.cancelled() => return,
                early = self.judge.early_lives(&settings.name) => early,
            };
            settings.info = settings.info.map(|rank| declare_early(&rank, early));
        }
        let settings = Arc::new(settings);
        let row = BatchedRow::new(table, &settings, RowRole::Lock, Arc::default());
        holding.health_record().starts(overdue_limit(settings.timing.lease));
        let key = Arc::clone(&settings.name);
        // Nobody sends it anything, and it ends when the sender is gone.
        let (_commands, inbox) = mpsc::unbounded();
        let holding = Arc::clone(holding);
        let driver = Driver::new(row, settings, holding, inbox, random::draw());
        Box::new(driver).run(leave.clone()).await;
        remove_released(table, &key).await;
    }

    /// Looks after the other members, now and then; a leader that preempts does at every poll.
    /// Ends once it has handed over.
    async fn minds(&self) {
        let poll = self.rank.member.timing.poll_interval;
        let interval = if self.rank.preempts { poll } else { TIDY_SEARCH_INTERVAL };
        let mut tidied = Instant::now();
        loop {
            sleep(random::jittered(interval)).await;
            let is_leading = self.rank.preempts && self.lock.has_lock().is_some();
            let is_untidy = tidied.elapsed() >= TIDY_SEARCH_INTERVAL / 2;
            if !is_leading && !is_untidy {
                continue;
            }
            // A poll that failed is made good by the next one.
            let Ok((found, members, read_at)) = self.judge.poll().await else { continue };
            if is_untidy {
                tidied = Instant::now();
                tidy(&self.judge.table, &found, self.judge.lease).await;
            }
            if self.rank.preempts && self.hand_over(&members, read_at).await {
                return;
            }
        }
    }

    /// Resigns for a live member of higher rank, and waits for the end of the term; false if there
    /// is none, or nothing was led.
    async fn hand_over(&self, members: &[Ranked], read_at: Timestamp) -> bool {
        let Some(token) = self.lock.has_lock() else { return false };
        let (successor, grace) = {
            let mut contest = self.judge.contest();
            (contest.successor(members, read_at), contest.grace())
        };
        let (Some(to), Some(commands)) = (successor, self.commands.upgrade()) else { return false };
        let (lock, id) = (self.lock.lock(), &*self.rank.member.id);
        say(|| tracing::info!(lock, id, %token, to, "hands over to a higher rank"));
        let next = Succession::Successor { id: to, grace };
        let (done, resigned) = oneshot::channel();
        // Without a loop nothing is led.
        let is_told = commands.unbounded_send(Command::Resign { next, done }).is_ok();
        // While it waits it must not keep the loop.
        drop(commands);
        is_told && resigned.await.unwrap_or(false)
    }
}
