//! The state that the loop publishes: the term, its gains and losses.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use spindle_protocol::{Moment, Observation, Row, Seen, Writer};
use tokio::sync::watch;

use super::health::Health;
use super::health_record::HealthRecord;
use super::validity::Validity;
use super::watch::TermWatch;
use super::{Term, moment, nanoseconds};
use crate::error::TermEnd;
use crate::system::Clock;
use crate::token::FencingToken;

/// The state that the loop writes and everybody reads.
#[derive(Debug)]
pub(crate) struct Published {
    clock: Clock,
    lock: Arc<str>,
    table: Arc<str>,
    validity: Validity,
    present: Mutex<Present>,
    health_record: Mutex<HealthRecord>,
    /// The last poll's answer, and when it came.
    polled: Mutex<Option<(Observation, Moment)>>,
    /// The one process that may believe, where a child by `fork` must not: an agent may release as soon as its parent
    /// is gone.
    process_id: OnceLock<u32>,
}

/// The term that is held now.
#[derive(Debug, Default)]
struct Present {
    term: Option<Term>,
    /// The same for those who watch, once there are any.
    watched: Option<watch::Sender<Option<Term>>>,
    has_loop_ended: bool,
}

impl Published {
    pub(crate) fn new(clock: Clock, lock: Arc<str>, table: Arc<str>) -> Published {
        let health_record = Mutex::new(HealthRecord::new(clock.clone()));
        Published {
            clock,
            lock,
            table,
            validity: Validity::default(),
            present: Mutex::default(),
            health_record,
            polled: Mutex::default(),
            process_id: OnceLock::new(),
        }
    }

    /// Has a child by `fork` of this process believe nothing.
    pub(crate) fn is_of_this_process(&self) {
        self.process_id.get_or_init(std::process::id);
    }

    pub(super) fn lock(&self) -> &str {
        &self.lock
    }

    /// Judged by the clock at the moment of the call, not by a timer that has fired or not.
    pub(crate) fn has_lock(&self) -> Option<FencingToken> {
        if self.process_id.get().is_some_and(|process_id| *process_id != std::process::id()) {
            return None;
        }
        let (token, valid_until) = self.validity.get()?;
        let valid = self.clock.now() < moment(valid_until);
        valid.then(|| FencingToken::from_nanoseconds(token))
    }

    pub(crate) fn term(&self) -> Option<Term> {
        self.present().term.clone()
    }

    pub(crate) fn watch(&self) -> TermWatch {
        let Present { term, watched, has_loop_ended } = &mut *self.present();
        if *has_loop_ended {
            // Its sender is gone, which tells the reader.
            return TermWatch::new(watch::channel(None).1);
        }
        let watched = watched.get_or_insert_with(|| watch::Sender::new(term.clone()));
        TermWatch::new(watched.subscribe())
    }

    pub(crate) fn began(&self, token: FencingToken, writer: Writer, valid_until: Moment) {
        let (lock, table) = (Arc::clone(&self.lock), Arc::clone(&self.table));
        let term = Term::begin(lock, table, token, writer, valid_until, self.clock.clone());
        self.validity.begin(token.as_nanoseconds(), nanoseconds(valid_until));
        self.tell(Some(term));
    }

    pub(crate) fn extended(&self, valid_until: Moment) {
        if let Some(term) = &self.present().term {
            term.extend(valid_until);
        }
        self.validity.extend(nanoseconds(valid_until));
    }

    /// Says that the term is over: first the truth, then the cancellation, then the news (I7).
    pub(crate) fn ended(&self, end: TermEnd) {
        self.validity.end();
        let Some(term) = self.term() else { return };
        term.end(end);
        self.tell(None);
    }

    /// Notes that the loop is gone, whatever the reason; no reader may believe in a term after it.
    pub(crate) fn loop_ended(&self, by_itself: bool) {
        self.ended(TermEnd::Abandoned);
        let mut present = self.present();
        (present.watched, present.has_loop_ended) = (None, true);
        drop(present);
        self.health_record().loop_ended(by_itself);
    }

    pub(crate) fn health(&self) -> Health {
        let held = self.has_lock();
        self.health_record().health(&self.lock, held)
    }

    pub(crate) fn observed(&self, observation: &Observation) {
        let polled = Some((observation.clone(), self.clock.now()));
        *self.polled.lock().unwrap_or_else(PoisonError::into_inner) = polled;
    }

    /// Notes that another holds now: its commit came after the last poll, and it has been heard of
    /// since.
    pub(crate) fn lost_race_to(&self, winner: &Seen) {
        let Seen { token, writer } = winner.clone();
        let polled_until = self.polled().map(|(observation, age)| observation.read_at + age);
        if writer.id().is_some() {
            let read_at = polled_until.map_or(token, |read_at| read_at.max(token));
            let row = Some(Row { heartbeat: read_at, token, writer, lease: None });
            self.observed(&Observation { row, next: None, read_at });
        }
    }

    /// Returns what the last poll saw, and how long ago.
    pub(crate) fn polled(&self) -> Option<(Observation, Duration)> {
        let polled = self.polled.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (observation, at) = polled?;
        Some((observation, self.clock.now().since(at)))
    }

    fn tell(&self, term: Option<Term>) {
        let mut present = self.present();
        if let Some(watched) = &present.watched {
            watched.send_replace(term.clone());
        }
        present.term = term;
    }

    fn present(&self) -> MutexGuard<'_, Present> {
        // Nothing that is done under it can panic halfway.
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the instance's account of itself, locked: for one statement.
    pub(crate) fn health_record(&self) -> MutexGuard<'_, HealthRecord> {
        // Nothing that is done under it can panic halfway.
        self.health_record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_in_a_log_is_a_short_line() {
        let published = Published::new(Clock::system(), "job".into(), "locktable".into());
        let token = FencingToken::from_nanoseconds(7);
        published.began(token, Writer::successor("a"), Moment(Duration::MAX));
        let term = published.term().unwrap();
        let identity = "Term { lock: \"job\", token: FencingToken(7), writer: \">a\", ended: ";
        assert_eq!(format!("{term:?}"), format!("{identity}None, .. }}"));
        published.ended(TermEnd::OutOfContact { contact: None });
        assert_eq!(
            format!("{term:?}"),
            format!("{identity}Some(OutOfContact {{ contact: None }}), .. }}")
        );
    }

    /// Asks the published state at each wake, and keeps the answers.
    #[derive(Debug)]
    struct Asks(Arc<Published>, Mutex<Vec<Option<FencingToken>>>);

    impl std::task::Wake for Asks {
        fn wake(self: Arc<Asks>) {
            self.1.lock().unwrap().push(self.0.has_lock());
        }
    }

    #[test]
    fn who_hears_of_an_end_finds_that_nothing_is_held() {
        let published = Published::new(Clock::system(), "job".into(), "locktable".into());
        let published = Arc::new(published);
        let token = FencingToken::from_nanoseconds(7);
        published.began(token, Writer::successor("a"), Moment(Duration::MAX));
        let term = published.term().unwrap();
        let asks = Arc::new(Asks(Arc::clone(&published), Mutex::default()));
        let waker = std::task::Waker::from(Arc::clone(&asks));
        let mut context = std::task::Context::from_waker(&waker);
        let mut cancelled = std::pin::pin!(term.cancelled());
        assert!(cancelled.as_mut().poll(&mut context).is_pending());
        let mut watch = published.watch();
        let mut changes = std::pin::pin!(async {
            watch.next().await;
            watch.next().await
        });
        assert!(changes.as_mut().poll(&mut context).is_pending());
        published.ended(TermEnd::OutOfContact { contact: None });
        let answers = asks.1.lock().unwrap();
        assert!(answers.len() >= 2 && answers.iter().all(Option::is_none), "{answers:?}");
    }

    /// Nothing runs here that could end the term when its time is over.
    #[tokio::test(start_paused = true)]
    async fn a_term_is_cancelled_by_the_clock_before_anybody_says_so() {
        let clock = Clock::runtime();
        let published = Published::new(clock.clone(), "job".into(), "locktable".into());
        let lease = Duration::from_secs(10);
        let token = FencingToken::from_nanoseconds(7);
        let writer = Writer::successor("a");
        published.began(token, writer, clock.now() + lease);
        let term = published.term().unwrap();
        assert!(!term.is_cancelled() && published.has_lock() == Some(token));
        tokio::time::advance(lease).await;
        assert!(term.is_cancelled() && term.remaining().is_zero());
        assert_eq!(published.has_lock(), None);
        assert!(term.ended().is_none() && !term.cancellation().is_cancelled());
    }
}
