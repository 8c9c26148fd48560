//! Tells when a client that was given is dead.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use spindle_protocol::Moment;

use crate::error::Error;
use crate::system::random;

/// The leases without an answer after which a client counts as dead, and the least time.
const LEASES: u32 = 10;
const LIMIT_MIN: Duration = Duration::from_secs(120);

/// The longest pause between two requests without an answer that still counts as one silence, and the
/// least: an instance that wants its lock asks more often.
const PAUSE_LEASES: u32 = 1;
const PAUSE_MIN: Duration = Duration::from_secs(60);

/// A client that was given, as all who use it know it.
#[derive(Debug, Default)]
pub(crate) struct GivenClient {
    answers: AtomicU64,
    /// True if the log has said of the present silence that the client is dead.
    is_told: AtomicBool,
}

impl GivenClient {
    /// Notes that Spanner has answered somebody.
    pub(crate) fn answered(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        self.is_told.store(false, Ordering::Relaxed);
    }

    /// Returns true for the first who asks in a silence.
    fn is_to_tell(&self) -> bool {
        !self.is_told.swap(true, Ordering::Relaxed)
    }
}

/// The requests of one instance that a given client leaves without an answer.
#[derive(Debug)]
pub(crate) struct Silence {
    client: Arc<GivenClient>,
    limit: Duration,
    pause_max: Duration,
    unanswered: Option<Unanswered>,
}

/// Requests without an answer, one after the other.
#[derive(Debug)]
struct Unanswered {
    /// The answers that anybody had had by then.
    answers: u64,
    since: Moment,
    last: Moment,
    count: u64,
    error: Error,
}

/// A client that is of no use any more.
#[derive(Clone, Debug)]
pub(super) struct DeadClient {
    pub(super) lasting: Duration,
    pub(super) count: u64,
    pub(super) error: Error,
}

impl Silence {
    /// For an instance with such a lease.
    pub(crate) fn new(client: Arc<GivenClient>, lease: Duration) -> Silence {
        // One draw a process: the first of its many locks must not be the one that counts.
        static SPREAD: OnceLock<f64> = OnceLock::new();
        let limit = limit(lease, *SPREAD.get_or_init(random::draw));
        let pause_max = (lease * PAUSE_LEASES).max(PAUSE_MIN);
        Silence { client, limit, pause_max, unanswered: None }
    }

    /// Notes an answer to this instance.
    pub(super) fn answered(&mut self) {
        self.unanswered = None;
    }

    /// Notes a request that came to nothing. Returns true if the log is to say that the client is
    /// dead.
    pub(super) fn failed(&mut self, now: Moment, error: &Error) -> bool {
        if !error.is_silence() {
            self.answered();
            return false;
        }
        let (error, answers) = (error.clone(), self.client.answers.load(Ordering::Relaxed));
        let goes_on =
            |it: &Unanswered| it.answers == answers && now.since(it.last) <= self.pause_max;
        let before = self.unanswered.take().filter(goes_on);
        let (since, count) = before.map_or((now, 0), |it| (it.since, it.count));
        self.unanswered = Some(Unanswered { answers, since, last: now, count: count + 1, error });
        self.dead_client(now).is_some() && self.client.is_to_tell()
    }

    /// Returns how long the client has been of no use, once that is for too long.
    pub(super) fn dead_client(&self, now: Moment) -> Option<DeadClient> {
        let Unanswered { answers, since, last, count, error } = self.unanswered.as_ref()?;
        let is_dead = last.since(*since) >= self.limit
            && now.since(*last) <= self.pause_max
            && *answers == self.client.answers.load(Ordering::Relaxed);
        is_dead.then(|| DeadClient {
            lasting: now.since(*since),
            count: *count,
            error: error.clone(),
        })
    }
}

/// Spread by a fifth, so that replicas that lost Spanner together aren't restarted together.
fn limit(lease: Duration, spread: f64) -> Duration {
    (lease * LEASES).max(LIMIT_MIN).mul_f64(1.0 + spread / 5.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    fn silent() -> Error {
        Error::timed_out("read", Duration::from_secs(5))
    }

    /// Whose limit is 120 s to 144 s.
    fn silence(client: &Arc<GivenClient>) -> Silence {
        Silence::new(Arc::clone(client), Duration::from_secs(10))
    }

    /// Notes a request without an answer every 10 s.
    fn fails(silence: &mut Silence, from: u64, until: u64) -> Vec<u64> {
        let times = (from..=until).step_by(10);
        times.filter(|at| silence.failed(seconds(*at), &silent())).collect()
    }

    #[test]
    fn a_client_is_dead_after_ten_leases_or_two_minutes_and_up_to_a_fifth() {
        let seconds = Duration::from_secs;
        for (lease, spread, expected) in [
            (seconds(10), 0.0, seconds(120)),
            (seconds(10), 0.5, seconds(132)),
            (seconds(1), 1.0, seconds(144)),
            (seconds(60), 0.0, seconds(600)),
            (seconds(60), 1.0, seconds(720)),
        ] {
            assert_eq!(limit(lease, spread), expected, "{lease:?}");
        }
    }

    #[test]
    fn the_log_is_told_once_whoever_asks() {
        let client = Arc::default();
        let (mut one, mut other) = (silence(&client), silence(&client));
        let told = fails(&mut one, 0, 600);
        assert!(told.len() == 1 && (120..=150).contains(&told[0]), "{told:?}");
        assert!(fails(&mut other, 0, 600).is_empty());
        assert!(one.dead_client(seconds(600)).is_some_and(|dead| dead.count == 61));
        assert!(other.dead_client(seconds(600)).is_some());
    }

    #[test]
    fn an_answer_to_anybody_ends_it() {
        let client = Arc::default();
        let (mut one, mut other) = (silence(&client), silence(&client));
        assert_eq!(fails(&mut one, 0, 200).len(), 1);
        client.answered();
        assert!(one.dead_client(seconds(200)).is_none());
        assert!(fails(&mut one, 210, 300).is_empty());
        assert!(fails(&mut other, 0, 90).is_empty());
        other.answered();
        assert!(fails(&mut other, 100, 210).is_empty());
        let refused = Error::new(crate::error::Kind::Schema("no such column".into()));
        assert!(!other.failed(seconds(215), &refused));
        assert!(fails(&mut other, 220, 330).is_empty());
    }

    #[test]
    fn a_pause_in_which_nobody_asks_is_no_silence() {
        let client = Arc::default();
        let mut silence = silence(&client);
        assert!(fails(&mut silence, 0, 10).is_empty());
        assert!(fails(&mut silence, 3_600, 3_700).is_empty());
        assert!(silence.dead_client(seconds(3_700)).is_none());
        assert_eq!(fails(&mut silence, 3_710, 3_760).len(), 1);
        assert!(silence.dead_client(seconds(3_760)).is_some());
        assert!(silence.dead_client(seconds(3_900)).is_none(), "nobody asks any more");
    }
}
