use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Timestamp;

/// What makes one attempt to begin a term different from every other attempt.
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
/// `<id>#<nonce>` is a holder's term, `><id>` a named successor, and the empty string nobody.
/// Anything else is a holder of another implementation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Writer(Arc<str>);

impl Writer {
    /// The writer of one term.
    pub fn term(id: &str, nonce: Nonce) -> Writer {
        Writer(format!("{id}#{nonce}").into())
    }

    /// The writer that names no one.
    pub fn nobody() -> Writer {
        Writer("".into())
    }

    /// The writer of a release that names its successor.
    pub fn successor(id: &str) -> Writer {
        Writer(format!(">{id}").into())
    }

    /// What stands in the column.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The nonce of the term, if this is one of ours.
    pub fn nonce(&self) -> Option<Nonce> {
        if self.0.starts_with('>') {
            return None;
        }
        self.0.rsplit_once('#').and_then(|(_, nonce)| Nonce::parse(nonce))
    }

    /// The id of the holder, of whatever implementation.
    pub fn id(&self) -> Option<&str> {
        if self.0.is_empty() || self.0.starts_with('>') {
            return None;
        }
        match self.0.rsplit_once('#') {
            Some((id, nonce)) if Nonce::parse(nonce).is_some() => Some(id),
            _ => Some(&self.0),
        }
    }

    /// The id that a release named as its successor.
    pub fn successor_id(&self) -> Option<&str> {
        self.0.strip_prefix('>')
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
    /// Whose term it is.
    pub writer: Writer,
    /// The holder's own lease, where the table has the column.
    pub lease: Option<Duration>,
}

impl Row {
    /// Whether the row says that its last holder let go.
    pub fn is_released(&self) -> bool {
        self.heartbeat == Timestamp::EPOCH
    }

    /// Whether both describe the same heartbeat of the same term: the condition of a takeover.
    ///
    /// Token, writer *and* heartbeat: a takeover that overlooks a heartbeat deposes a live holder.
    pub fn is_same_beat(&self, other: &Row) -> bool {
        self.heartbeat == other.heartbeat
            && self.token == other.token
            && self.writer == other.writer
    }

    /// When, by Spanner's clock, the row protects nobody from the contender `id` any more.
    ///
    /// A holder is owed the longer of its own lease and the contender's (I1), so that a rolling
    /// change of the lease deposes no one. A named successor is owed its grace by all others.
    pub fn vacant_from(&self, id: &str, lease: Duration) -> Timestamp {
        if !self.is_released() {
            return self.heartbeat + self.lease.unwrap_or(lease).max(lease);
        }
        match self.writer.successor_id() {
            Some(successor) if successor != id => self.token + self.lease.unwrap_or(lease),
            _ => Timestamp::EPOCH,
        }
    }
}

/// One strong read of the lock row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Observation {
    /// The row, if there is one.
    pub row: Option<Row>,
    /// Spanner's timestamp of the read.
    pub read_at: Timestamp,
}

/// The key of the takeover row of the lock `name` that displaces the term of `token`.
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
    }

    #[test]
    fn a_takeover_key_never_looks_like_a_short_lock_name() {
        assert_eq!(takeover_key("job", Timestamp::EPOCH), "job_0000000000000000000");
        assert_eq!(takeover_key("job", Timestamp(-5)), "job_0000000000000000000");
        let today = Timestamp(1_795_000_000_123_456_000);
        assert_eq!(takeover_key("job", today), "job_1795000000123456000");
    }
}
