//! The highest token that a system outside of the database has seen.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Kind, Result};
use crate::token::FencingToken;

/// Guards a system that isn't Spanner: admits a token only if it is at least the highest that was
/// seen.
///
/// Use one per lock, since tokens of different locks have nothing to do with each other. It belongs
/// where the writes arrive, not where they are sent from. It can refuse a writer only once the next
/// term has been there, so a new leader does well to write at once.
///
/// It lives in memory. The guarded data outlives the process, so keep the highest token with it,
/// and begin from that: [`starting_at`](HighWaterMark::starting_at).
///
/// ```
/// use spindle::{FencingToken, HighWaterMark};
///
/// let mark = HighWaterMark::new();
/// let (old, new) = (FencingToken::from_nanoseconds(41), FencingToken::from_nanoseconds(42));
/// mark.admit(old)?;
/// mark.admit(new)?;
/// let refused = mark.admit(old).unwrap_err();
/// assert!(refused.is_fenced());
/// assert_eq!(refused.to_string(), "fencing token 41 superseded by 42, the highest seen");
/// # Ok::<(), spindle::Error>(())
/// ```
///
/// # In a database of SQL
///
/// There the mark is a column, and the statement that writes compares it and raises it:
///
/// ```sql
/// UPDATE accounts SET balance = @balance, fence = @token WHERE id = @id AND fence <= @token
/// ```
///
/// with the token as a 64-bit integer ([`FencingToken::as_nanoseconds`], which never exceeds
/// `i64::MAX`). No row changed means that the writer came late, or that there is no such row. One
/// statement is atomic at any isolation level. Where several belong together, the first of them
/// must raise the mark of a row that all writers share. A first insert needs a rule as well:
/// `INSERT … ON CONFLICT (id) DO UPDATE … WHERE accounts.fence <= excluded.fence`.
#[derive(Debug, Default)]
pub struct HighWaterMark(Mutex<Option<FencingToken>>);

impl HighWaterMark {
    /// Returns a mark that has seen no token.
    pub const fn new() -> HighWaterMark {
        HighWaterMark(Mutex::new(None))
    }

    /// Returns a mark that goes on from the highest token of its former life.
    pub const fn starting_at(token: FencingToken) -> HighWaterMark {
        HighWaterMark(Mutex::new(Some(token)))
    }

    /// Returns the highest token admitted, if there was one.
    pub fn highest(&self) -> Option<FencingToken> {
        *self.mark()
    }

    /// Admits `token`, or says which later one was there before.
    ///
    /// It says nothing of what comes after: between this and the write another token may be
    /// admitted, and its write may come first. Where the two aren't one step by other means, use
    /// [`admit_to`](HighWaterMark::admit_to).
    ///
    /// # Errors
    ///
    /// [`is_fenced`](Error::is_fenced) if a later token was seen.
    pub fn admit(&self, token: FencingToken) -> Result<()> {
        self.admit_to(token, || ())
    }

    /// Admits `token` and does `write` before anyone else is admitted.
    ///
    /// It blocks the thread while another's `write` runs; keep it short, and call it from a
    /// thread that may block.
    ///
    /// # Errors
    ///
    /// [`is_fenced`](Error::is_fenced) if a later token was seen; `write` was not called then.
    pub fn admit_to<T>(&self, token: FencingToken, write: impl FnOnce() -> T) -> Result<T> {
        let mut mark = self.mark();
        match *mark {
            Some(highest) if token < highest => Err(Error::new(Kind::Stale { token, highest })),
            _ => {
                *mark = Some(token);
                Ok(write())
            }
        }
    }

    fn mark(&self) -> MutexGuard<'_, Option<FencingToken>> {
        // Raised before the write: a write that panics leaves a mark that is right.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(nanoseconds: u64) -> FencingToken {
        FencingToken::from_nanoseconds(nanoseconds)
    }

    #[test]
    fn the_same_token_is_admitted_again_and_an_older_one_never() {
        let mark = HighWaterMark::starting_at(token(7));
        assert!(mark.admit(token(6)).unwrap_err().is_fenced());
        mark.admit(token(7)).unwrap();
        mark.admit(token(7)).unwrap();
        mark.admit(token(9)).unwrap();
        let mut written = false;
        assert!(mark.admit_to(token(8), || written = true).unwrap_err().is_fenced());
        assert!(!written);
        assert_eq!(mark.highest(), Some(token(9)));
    }

    #[test]
    fn what_is_written_by_many_threads_never_goes_back() {
        let mark = HighWaterMark::new();
        let file = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (mark, file) = (&mark, &file);
                scope.spawn(move || {
                    for round in 0..200 {
                        let token = token(round * 8 + thread);
                        // A refusal is what this is about.
                        let _ = mark.admit_to(token, || file.lock().unwrap().push(token));
                    }
                });
            }
        });
        let written = file.into_inner().unwrap();
        assert!(written.is_sorted(), "{written:?}");
        assert_eq!(mark.highest(), Some(token(199 * 8 + 7)));
    }

    #[test]
    fn a_write_that_panics_leaves_the_mark_raised_and_usable() {
        let mark = HighWaterMark::new();
        let write = std::panic::AssertUnwindSafe(|| mark.admit_to(token(5), || panic!("no disk")));
        assert!(std::panic::catch_unwind(write).is_err());
        assert!(mark.admit(token(4)).unwrap_err().is_fenced());
        mark.admit(token(5)).unwrap();
    }
}
