//! The writers' row as one writer has it, and the turns of writers and readers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use spindle_protocol::rw::{Writing, is_left_to_readers, left_to_readers};
use spindle_protocol::{Act, Answer, Change, Holder, Succession, TermId};
use tokio::time::Instant;

/// The number of polls for which the writers of a process may follow each other before they let
/// readers begin.
const TENURE_POLLS: u32 = 10;

/// The writers' row as one writer has it.
#[derive(Debug)]
pub(crate) struct WriterRow {
    writing: Mutex<Writing>,
    turns: Arc<WritersTurns>,
    /// The succession to its last term, as the first release of that said.
    next: Mutex<Option<(TermId, Succession)>>,
}

/// Since when the writers of a process have followed each other. All writers of a handle share it.
#[derive(Debug)]
pub(crate) struct WritersTurns {
    poll: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// When writers began to leave readers no time to begin, as far as this process knows.
    since: Instant,
    /// When the last writer here ended.
    ended: Option<Instant>,
    /// Before that, no writer of this process contends.
    rests_until: Instant,
}

impl WriterRow {
    pub(crate) fn new(turns: &Arc<WritersTurns>) -> WriterRow {
        WriterRow { writing: Mutex::default(), turns: Arc::clone(turns), next: Mutex::default() }
    }

    /// Notes that the second term has begun after the first.
    pub(crate) fn begins(&self, first: TermId, second: TermId) {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner).begins(first, second);
    }

    /// Returns the change that an act asks for; none for one that changes nothing.
    pub(super) fn change(&self, act: &Act, holder: &Holder) -> Option<Change> {
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let Act::Release { term, .. } = act else {
            return writing.change(act, holder);
        };
        let next = self.succession_to(term);
        let release = Act::Release { term: term.clone(), next };
        writing.change(&release, holder)
    }

    fn succession_to(&self, term: &TermId) -> Succession {
        let mut last = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_none_or(|(of, _)| of != term) {
            *last = Some((term.clone(), self.turns.ends()));
        }
        last.as_ref().map(|(_, next)| next.clone()).unwrap_or_default()
    }

    /// Takes note of an answer while it waits.
    pub(super) fn hears(&self, answer: &Answer) {
        let Answer::Observed(observation) = answer else { return };
        if observation.row.as_ref().is_some_and(is_left_to_readers) {
            self.turns.state().since = Instant::now();
        }
    }
}

impl WritersTurns {
    pub(crate) fn new(poll: Duration) -> WritersTurns {
        let now = Instant::now();
        WritersTurns {
            poll,
            state: Mutex::new(State { since: now, ended: None, rests_until: now }),
        }
    }

    /// Takes note that a writer of this process is the next one. Returns when it may contend.
    pub(crate) fn begins(&self) -> Instant {
        let (now, time) = (Instant::now(), self.readers_time());
        let mut state = self.state();
        if state.ended.is_none_or(|ended| now.duration_since(ended) >= time) {
            // Readers had the time to see that nobody here writes.
            state.since = now;
        }
        state.rests_until
    }

    /// Takes note that a writer of this process ends. Returns what follows.
    fn ends(&self) -> Succession {
        let (now, time) = (Instant::now(), self.readers_time());
        let mut state = self.state();
        state.ended = Some(now);
        if now.duration_since(state.since) < self.poll * TENURE_POLLS {
            return Succession::Anyone;
        }
        // Writers of other processes go first.
        (state.since, state.rests_until) = (now, now + time + self.poll / 4);
        left_to_readers(time)
    }

    /// Returns the time in which each process that waits polls once.
    fn readers_time(&self) -> Duration {
        self.poll * 5 / 4
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use spindle_protocol::{Nonce, Timestamp, Writer};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_term_of_a_writer_ends_by_its_own_turn_and_its_repeats_say_the_same() {
        let poll = Duration::from_secs(1);
        let row = WriterRow::new(&Arc::new(WritersTurns::new(poll)));
        let holder = Holder { lease: poll, info: None };
        let release = |token| {
            let writer = Writer::term("a", Nonce { instance: 1, attempt: 1 });
            let (term, next) = (TermId { token: Timestamp(token), writer }, Succession::Anyone);
            row.change(&Act::Release { term, next }, &holder)
        };
        let first = release(1);
        tokio::time::advance(poll * TENURE_POLLS).await;
        assert_eq!(first, release(1), "a repeat of a release whose answer is missing");
        let [left, anyone] = [release(2), release(3)].map(|change| match change {
            Some(Change::EndWriting { next, .. }) => next,
            other => panic!("{other:?}"),
        });
        assert_eq!(left, left_to_readers(row.turns.readers_time()));
        assert_eq!(anyone, Succession::Anyone, "it has just left readers their time");
    }
}
