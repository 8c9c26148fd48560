use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Timestamp;
use crate::line::{Place, id_of};

/// The mark that makes one attempt to begin a term different from every other attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce {
    /// Drawn at random when an instance starts.
    pub instance: u64,
    /// Counts the attempts of that instance.
    pub attempt: u64,
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.instance, self.attempt)
    }
}

impl Nonce {
    /// Reads what [`Display`](fmt::Display) wrote.
    pub fn parse(text: &str) -> Option<Nonce> {
        let (instance, attempt) = text.split_once('-')?;
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if instance.len() != 16 || !digits(instance) || !digits(attempt) {
            return None;
        }
        Some(Nonce {
            instance: u64::from_str_radix(instance, 16).ok()?,
            attempt: attempt.parse().ok()?,
        })
    }
}

/// The `writer` column: who holds, or who may hold next.
///
/// `<id>#<nonce>` is a holder's term, and `><id>` or `><id>#<nonce>` a named successor. The empty string
/// is nobody. Anything else is a holder of another implementation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Writer(Arc<str>);

/// The meaning of a [`Writer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named<'a> {
    /// No one.
    Nobody,
    /// The holder of a term of ours.
    Term {
        /// Its id.
        id: &'a str,
        /// The attempt that began the term.
        nonce: Nonce,
    },
    /// The contender that a release named as its successor: an id, or one process of it (`<id>#<nonce>`).
    Successor(&'a str),
    /// A holder of another implementation.
    Stranger(&'a str),
}

impl Writer {
    /// Returns the writer of one term.
    pub fn term(id: &str, nonce: Nonce) -> Writer {
        Writer(format!("{id}#{nonce}").into())
    }

    /// Returns the writer that names no one.
    pub fn nobody() -> Writer {
        Writer("".into())
    }

    /// Returns the writer of a release that names its successor.
    pub fn successor(id: &str) -> Writer {
        Writer(format!(">{id}").into())
    }

    /// Returns the text in the column.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the instance or the state that it names.
    pub fn names(&self) -> Named<'_> {
        match &*self.0 {
            "" => Named::Nobody,
            text => {
                if let Some(id) = text.strip_prefix('>') {
                    return Named::Successor(id);
                }
                let term = text.rsplit_once('#');
                let term = term.and_then(|(id, nonce)| Some((id, Nonce::parse(nonce)?)));
                term.map_or(Named::Stranger(text), |(id, nonce)| Named::Term { id, nonce })
            }
        }
    }

    /// Returns the nonce of the term, if this is one of ours.
    pub fn nonce(&self) -> Option<Nonce> {
        match self.names() {
            Named::Term { nonce, .. } => Some(nonce),
            _ => None,
        }
    }

    /// Returns the id of the holder, of whatever implementation.
    pub fn id(&self) -> Option<&str> {
        match self.names() {
            Named::Term { id, .. } | Named::Stranger(id) => Some(id),
            _ => None,
        }
    }

    /// Returns the id that a release named as its successor.
    pub fn successor_id(&self) -> Option<&str> {
        match self.names() {
            Named::Successor(successor) => Some(id_of(successor)),
            _ => None,
        }
    }
}

/// The identity of a term: its token and its writer. Neither alone is enough.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TermId {
    /// The fencing token.
    pub token: Timestamp,
    /// The writer, with the nonce of the attempt that began the term.
    pub writer: Writer,
}

/// The state that follows a release.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum Succession {
    /// Anyone may take the lock at once.
    #[default]
    Anyone,
    /// The first in line has first refusal; anyone, if nobody stands there.
    InLine {
        /// For how long, counted from the release.
        grace: Duration,
    },
    /// A named contender has first refusal.
    Successor {
        /// Its id.
        id: String,
        /// For how long, counted from the release.
        grace: Duration,
    },
}

impl Succession {
    /// Returns the text for `writer`.
    pub fn writer(&self) -> Writer {
        match self {
            Succession::Anyone | Succession::InLine { .. } => Writer::nobody(),
            Succession::Successor { id, .. } => Writer::successor(id),
        }
    }

    /// Returns how long others wait, from the release on.
    pub fn grace(&self) -> Option<Duration> {
        match self {
            Succession::Anyone | Succession::InLine { .. } => None,
            Succession::Successor { grace, .. } => Some(*grace),
        }
    }
}

impl From<&str> for Writer {
    fn from(text: &str) -> Writer {
        Writer(text.into())
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A lock row, as far as the protocol looks at it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// When the holder last said that it lives; the epoch when released.
    pub heartbeat: Timestamp,
    /// The commit timestamp of the transaction that began the term.
    pub token: Timestamp,
    /// The writer of the term.
    pub writer: Writer,
    /// The holder's own lease, where the table has the column.
    pub lease: Option<Duration>,
}

impl Row {
    /// Returns true if the row says that its last holder let go.
    pub fn is_released(&self) -> bool {
        self.heartbeat == Timestamp::EPOCH
    }

    /// Returns true if both describe the same heartbeat of the same term: the condition of a
    /// takeover.
    ///
    /// Token, writer *and* heartbeat: a takeover that overlooks a heartbeat deposes a live holder.
    pub fn is_same_heartbeat(&self, other: &Row) -> bool {
        self.heartbeat == other.heartbeat
            && self.token == other.token
            && self.writer == other.writer
    }

    /// Returns when, by Spanner's clock, the row protects nobody from the contender `id` any more.
    ///
    /// A holder is owed the longer of its own lease and the contender's (I1), so that a rolling
    /// change of the lease deposes no one. All others owe a named successor its grace.
    pub fn vacant_from(&self, id: &str, lease: Duration) -> Timestamp {
        let vacant_from = if self.is_released() {
            Timestamp::EPOCH
        } else {
            self.heartbeat + self.lease.unwrap_or(lease).max(lease)
        };
        match self.writer.names() {
            Named::Successor(successor) if self.is_released() && successor != id => {
                self.token + self.lease.unwrap_or(lease)
            }
            _ => vacant_from,
        }
    }

    /// Returns when, by Spanner's clock, the row protects nobody any more from a contender of this lease,
    /// whatever its id.
    pub fn vacant_for_all_from(&self, lease: Duration) -> Timestamp {
        // Nobody has the empty id.
        self.vacant_from("", lease)
    }

    /// Returns until when the row protects somebody from everybody else of this lease, if it does.
    pub fn taken_until(&self, lease: Duration, read_at: Timestamp) -> Option<Timestamp> {
        Some(self.vacant_for_all_from(lease)).filter(|until| *until > read_at)
    }

    /// Returns the id in the row, if its lease has not run out.
    pub fn holder(&self, lease: Duration, read_at: Timestamp) -> Option<&str> {
        self.taken_until(lease, read_at)?;
        self.writer.id().filter(|_| !self.is_released())
    }

    /// Returns since when, or from when, the row has protected nobody by its own lease, and `lease` where
    /// it tells none: a grace doesn't count as vacant.
    pub fn vacant_since(&self, lease: Duration) -> Timestamp {
        self.vacant_for_all_from(self.lease.unwrap_or(lease)).max(self.token)
    }
}

/// One strong read of the lock row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Observation {
    /// The row, if there is one.
    pub row: Option<Row>,
    /// Spanner's timestamp of the read.
    pub read_at: Timestamp,
    /// The place of who waits first, if anybody does.
    pub next: Option<Place>,
}

/// Returns true if `key` is the exact pattern of a takeover row of `lock`, not another lock's name
/// (I6).
pub fn is_takeover_key(lock: &str, key: &str) -> bool {
    key.strip_prefix(lock)
        .and_then(|rest| rest.strip_prefix('_'))
        .is_some_and(|digits| digits.len() == 19 && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// Returns the keys between which the takeover rows of `lock` for tokens before `before` are. The
/// range includes the first and excludes the second. Other locks' rows lie between, too.
pub fn takeover_keys(lock: &str, before: Timestamp) -> (String, String) {
    (takeover_key(lock, Timestamp::EPOCH), takeover_key(lock, before))
}

/// Returns the key of the takeover row of the lock `name` that displaces the term of `token`.
///
/// Padded to 19 digits: `job_0` is a lock's name, not a takeover row of `job` (I6).
pub fn takeover_key(name: &str, token: Timestamp) -> String {
    format!("{name}_{:019}", token.0.max(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: Nonce = Nonce { instance: 0xfeed, attempt: 3 };

    fn row(heartbeat: i64, writer: Writer, lease: Option<Duration>) -> Row {
        Row { heartbeat: Timestamp(heartbeat), token: Timestamp(100), writer, lease }
    }

    #[test]
    fn a_writer_tells_terms_successors_and_strangers_apart() {
        let term = Writer::term("node#1", NONCE);
        assert_eq!(term.as_str(), "node#1#000000000000feed-3");
        assert_eq!((term.id(), term.nonce()), (Some("node#1"), Some(NONCE)));
        assert_eq!(Writer::nobody().id(), None);
        let successor = Writer::successor("b#000000000000feed-3");
        assert_eq!((successor.id(), successor.nonce()), (None, None));
        assert_eq!(successor.successor_id(), Some("b#000000000000feed-3"));
        let stranger = Writer::from("go-node#7");
        assert_eq!((stranger.id(), stranger.nonce()), (Some("go-node#7"), None));
        assert_eq!(Writer::from("a#+00000000000feed-3").nonce(), None);
        assert_eq!(Writer::from("a#000000000000feed-+3").nonce(), None);
    }

    #[test]
    fn a_holder_is_owed_the_longer_lease() {
        let (short, long) = (Duration::from_nanos(10), Duration::from_nanos(60));
        let held = |lease| row(1_000, Writer::term("a", NONCE), lease);
        assert_eq!(held(Some(long)).vacant_from("b", short), Timestamp(1_060));
        assert_eq!(held(Some(short)).vacant_from("b", long), Timestamp(1_060));
        assert_eq!(held(None).vacant_from("b", short), Timestamp(1_010));
    }

    #[test]
    fn a_released_row_is_vacant_but_for_the_grace_of_its_successor() {
        let grace = Duration::from_nanos(7);
        let free = row(0, Writer::nobody(), None);
        assert_eq!(free.vacant_from("b", grace), Timestamp::EPOCH);
        let promised = row(0, Writer::successor("b"), Some(grace));
        assert_eq!(promised.vacant_from("b", Duration::from_nanos(1)), Timestamp::EPOCH);
        assert_eq!(promised.vacant_from("c", Duration::from_nanos(1)), Timestamp(107));
        let since = [free, promised].map(|row| row.vacant_since(grace * 2).0);
        assert_eq!(since, [100, 107], "by its own lease, and not before its token");
    }

    #[test]
    fn a_takeover_key_never_looks_like_a_short_lock_name() {
        assert_eq!(takeover_key("job", Timestamp::EPOCH), "job_0000000000000000000");
        assert_eq!(takeover_key("job", Timestamp(-5)), "job_0000000000000000000");
        let today = Timestamp(1_795_000_000_123_456_000);
        assert_eq!(takeover_key("job", today), "job_1795000000123456000");
    }
}
