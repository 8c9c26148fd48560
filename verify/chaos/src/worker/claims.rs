//! The claims of a worker to hold, made by a thread that no runtime can hold up.

use std::sync::Arc;
use std::time::Duration;

use spindle::FencingToken;

use crate::history::{Event, Failure, Journal, must, nanoseconds, now};

/// How often a holder of one lock says that it holds; one of many says so about each lock less often.
const SAMPLE: Duration = Duration::from_millis(5);
/// A claim that took longer says too little of when it was made.
const PRECISE: Duration = Duration::from_millis(1);

/// The locks that a worker may hold.
pub trait Held: Send + 'static {
    fn count(&self) -> usize;
    /// The token under which the lock is held at this moment.
    fn token(&self, lock: usize) -> Option<FencingToken>;
    /// For how long it is held under this token if nothing more is heard.
    fn remaining(&self, lock: usize, token: FencingToken) -> Option<Duration>;
}

/// Writes down what is held, again and again.
pub fn say_who_holds(held: impl Held, journal: Arc<Journal>) {
    std::thread::spawn(move || {
        let count = held.count();
        let few = u32::try_from(count.div_ceil(16)).unwrap_or(u32::MAX);
        // A thousand lines a second, however many locks there are.
        let pause = count as u64 * 1_000_000;
        let mut said: Vec<Option<Claim>> = vec![None; count];
        loop {
            std::thread::sleep(SAMPLE.max(Duration::from_millis(2) * few));
            for (lock, said) in said.iter_mut().enumerate() {
                let Some(claim) = Claim::of(&held, lock) else { continue };
                if said.is_none_or(|said| claim.is_worth_saying(said, pause)) {
                    *said = Some(claim);
                    must(claim.write(lock, &journal));
                }
            }
        }
    });
}

#[derive(Clone, Copy)]
struct Claim {
    token: FencingToken,
    asked: u64,
    at: u64,
    until: u64,
}

impl Claim {
    fn of(held: &impl Held, lock: usize) -> Option<Claim> {
        let asked = now();
        let token = held.token(lock);
        let at = now();
        let token = token.filter(|_| at - asked <= nanoseconds(PRECISE))?;
        // Read after the claim: at worst it says too little.
        let read = now();
        let until = held.remaining(lock, token).map_or(at, |left| read + nanoseconds(left));
        let until = if now() - read > nanoseconds(PRECISE) { at } else { until };
        Some(Claim { token, asked, at, until })
    }

    /// A claim beyond what was said to be its end is always said.
    fn is_worth_saying(self, said: Claim, pause: u64) -> bool {
        self.token != said.token || self.at > said.until || self.at - said.at >= pause
    }

    fn write(self, lock: usize, journal: &Journal) -> Result<(), Failure> {
        let Claim { token, asked, at, until } = self;
        let claim = Event::Claim { token: token.as_nanoseconds(), asked, until };
        journal.write_at(at, Some(lock), claim)
    }
}
