//! The gains and losses of an instance, one after the other.

use tokio::sync::watch;

use super::Term;

/// A change that [`TermWatch::next`] reports.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TermChange {
    /// This instance holds the lock now.
    Gained(Term),
    /// It holds no more; the reason is in [`Term::ended`].
    Lost(Term),
}

/// A reader of gains and losses, in strict alternation.
///
/// ```no_run
/// # async fn service(lock: spindle::Spindle) {
/// use spindle::TermChange;
///
/// let mut changes = lock.watch();
/// while let Some(change) = changes.next().await {
///     match change {
///         TermChange::Gained(term) => println!("leads under {}", term.token()),
///         TermChange::Lost(term) => println!("leads no more: {:?}", term.ended()),
///         _ => {}
///     }
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TermWatch {
    current: watch::Receiver<Option<Term>>,
    reported: Option<Term>,
}

impl TermWatch {
    pub(super) fn new(current: watch::Receiver<Option<Term>>) -> TermWatch {
        TermWatch { current, reported: None }
    }

    /// Returns the next change; none once the loop has ended and everything was reported.
    ///
    /// A gain is always followed by the loss of the same term before the next gain. A slow reader
    /// misses whole terms, never half of one. A new reader begins with the gain of the term that
    /// is held, if there is one.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future loses nothing: the change is reported by the next call.
    pub async fn next(&mut self) -> Option<TermChange> {
        loop {
            let current = self.current.borrow_and_update().clone();
            match (&self.reported, current) {
                (Some(old), current) => {
                    if current.is_none_or(|term| term.token() != old.token()) {
                        return self.reported.take().map(TermChange::Lost);
                    }
                }
                (None, Some(term)) => {
                    self.reported = Some(term.clone());
                    return Some(TermChange::Gained(term));
                }
                (None, None) => {}
            }
            if self.current.changed().await.is_err() {
                return self.reported.take().map(TermChange::Lost);
            }
        }
    }
}
