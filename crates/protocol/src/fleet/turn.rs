//! Decides whose turn it is to take a lock whose contenders are ranked.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Act, Answer, Named, Observation, Row, Succession, Timestamp, Timing};

/// So many holders are remembered, at the most.
const HOLDERS_MAX: usize = 1_000;

/// A live contender and its rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ranked {
    /// Its id.
    pub id: String,
    /// The higher, the sooner its turn comes.
    pub rank: u32,
    /// The token of its membership.
    pub since: Timestamp,
}

/// A vacant lock, as one contender sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Vacancy {
    /// The live contenders.
    pub members: Vec<Ranked>,
    /// The one that held last, if it is known.
    pub last: Option<LastHolder>,
    /// For how long this contender has seen the lock vacant.
    pub seen_for: Duration,
}

/// The one that held a vacant lock last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LastHolder {
    /// It let go, or its lease ran out: it crashed, or lost contact.
    Gone(String),
    /// It was evicted, or the lock seized.
    Evicted(String),
}

/// Returns how long the contender `id` leaves a vacant lock to others; zero if it may take it now.
///
/// - The live member of the highest rank takes at once. Of equal ranks the lesser id is first.
/// - Each of the others waits a grace for everyone before it. So a member that can't take starves
///   nobody.
/// - The one that held last is last, whatever its rank. It let go, so others go first; or its lease
///   ran out, so it may be dead and listed still.
/// - If it was evicted, it waits a grace more.
/// - A contender that is not among the members is last.
///
/// Contenders whose views differ may take at the same time, which the lock itself decides.
///
/// ```
/// use std::time::Duration;
/// use spindle_protocol::Timestamp;
/// use spindle_protocol::fleet::{Ranked, Vacancy, turn};
///
/// let member = |id: &str, rank| Ranked { id: id.into(), rank, since: Timestamp(1) };
/// let members = vec![member("a", 1), member("b", 2)];
/// let vacancy = Vacancy { members, last: None, seen_for: Duration::ZERO };
/// let grace = Duration::from_secs(2);
/// assert_eq!(turn("b", &vacancy, grace), Duration::ZERO);
/// assert_eq!(turn("a", &vacancy, grace), grace);
/// ```
pub fn turn(id: &str, vacancy: &Vacancy, grace: Duration) -> Duration {
    let Vacancy { members, last, seen_for } = vacancy;
    let last_id = last.as_ref().map(LastHolder::id);
    let place =
        |member: &Ranked| (last_id == Some(&*member.id), Reverse(member.rank), member.id.clone());
    let own = members.iter().find(|member| member.id == id).map(place);
    let is_before = |member: &&Ranked| own.as_ref().is_none_or(|own| place(member) < *own);
    let before = members.iter().filter(is_before).count();
    let sits_out = matches!(last, Some(LastHolder::Evicted(evicted)) if evicted == id);
    let graces = u32::try_from(before + usize::from(sits_out)).unwrap_or(u32::MAX);
    grace.saturating_mul(graces).saturating_sub(*seen_for)
}

/// Returns how long each contender has to take a vacant lock before the next one may.
///
/// The first one notices a release within a poll, and has a second one to take it.
pub fn grace(timing: &Timing) -> Duration {
    (timing.poll_interval * 2).max(timing.lease / 10)
}

impl LastHolder {
    fn id(&self) -> &str {
        match self {
            LastHolder::Gone(id) | LastHolder::Evicted(id) => id,
        }
    }
}

/// One ranked contender's memory of the lock, from one poll to the next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contest {
    id: String,
    rank: u32,
    lease: Duration,
    grace: Duration,
    /// The vacant row, as its heartbeat and token, and when it was first seen so.
    vacant: Option<(Option<(Timestamp, Timestamp)>, Timestamp)>,
    last: Option<LastHolder>,
    /// The last one that was seen to hold.
    holder: Option<String>,
    /// True if that is this one, and it has sent a release.
    let_go: bool,
    /// The past of each one that held the lock, or was promised it.
    past: BTreeMap<String, Past>,
    /// The last successor, and since when it is a member.
    successor: Option<(String, Timestamp)>,
}

/// The last tokens by which something befell a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
struct Past {
    /// It held.
    held: Timestamp,
    /// It let go, or was promised the lock: it has had its turn.
    had_turn: Timestamp,
}

impl Contest {
    /// Returns the memory of the contender `id`, which knows nothing so far.
    pub fn new(id: &str, rank: u32, timing: &Timing) -> Contest {
        Contest {
            id: id.to_string(),
            rank,
            lease: timing.lease,
            grace: grace(timing),
            vacant: None,
            last: None,
            holder: None,
            let_go: false,
            past: BTreeMap::new(),
            successor: None,
        }
    }

    /// Returns how long each contender has before the next one.
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// Notes what a poll showed. True if the lock is vacant, so that the members have to be known.
    ///
    /// False also if the lock was released for this contender, which takes it whatever its rank.
    pub fn sees(&mut self, observation: &Observation) -> bool {
        let Some(row) = &observation.row else { return self.sees_vacant(None, observation) };
        self.note_holder(row);
        let is_promised = row.is_released() && row.writer.successor_id() == Some(&*self.id);
        let is_owed = row.vacant_from(&self.id, self.lease) > observation.read_at;
        if is_owed || is_promised {
            self.vacant = None;
            return false;
        }
        self.sees_vacant(Some((row.heartbeat, row.token)), observation)
    }

    fn sees_vacant(&mut self, row: Option<(Timestamp, Timestamp)>, seen: &Observation) -> bool {
        if self.vacant.as_ref().is_none_or(|(known, _)| *known != row) {
            self.vacant = Some((row, seen.read_at));
        }
        true
    }

    fn note_holder(&mut self, row: &Row) {
        let is_released = row.is_released();
        match row.writer.names() {
            Named::Term { id, .. } | Named::Stranger(id) if !is_released => {
                self.past(id, |past| past.held = row.token);
                (self.holder, self.let_go) = (Some(id.to_string()), false);
            }
            Named::Successor(id) if is_released => self.had_turn(id, row.token),
            _ => {}
        }
        let holder = self.holder.clone();
        if let Some(holder) = holder.as_ref().filter(|_| is_released) {
            self.had_turn(holder, row.token);
        }
        let is_own = holder.as_ref() == Some(&self.id);
        self.last = match row.writer.names() {
            // An evicted holder is not named: it is the one that was seen before.
            Named::Nobody if !is_released => holder.map(LastHolder::Evicted),
            // A release that this one didn't send is a seizure.
            _ if is_released && is_own && !self.let_go => holder.map(LastHolder::Evicted),
            _ => holder.map(LastHolder::Gone),
        };
    }

    /// Notes an act of this contender, and how it ended.
    pub fn acted(&mut self, act: &Act, answer: &Answer) {
        match (act, answer) {
            (
                act @ (Act::Insert { .. } | Act::Takeover { .. } | Act::Heartbeat { .. }),
                Answer::Applied { at },
            ) => {
                (self.holder, self.let_go) = (Some(self.id.clone()), false);
                if !matches!(act, Act::Heartbeat { .. }) {
                    let id = self.id.clone();
                    self.past(&id, |past| past.held = *at);
                }
            }
            (Act::Release { next, .. }, answer) => {
                self.let_go = true;
                let Succession::Successor { id, .. } = next else { return };
                match (answer, self.successor.take_if(|(successor, _)| successor == id)) {
                    (Answer::Applied { at }, _) => self.had_turn(id, *at),
                    // Perhaps it is handed the lock: that counts.
                    (Answer::Unknown, Some((id, since))) => self.had_turn(&id, since),
                    (_, successor) => self.successor = successor,
                }
            }
            _ => {}
        }
    }

    /// Returns how long to leave the vacant lock to others, by a view of the members; zero if it
    /// is not vacant.
    pub fn wait(&self, members: Vec<Ranked>, read_at: Timestamp) -> Duration {
        let Some((_, since)) = &self.vacant else { return Duration::ZERO };
        let last = self.last.clone();
        let vacancy = Vacancy { members, last, seen_for: read_at.since(*since) };
        turn(&self.id, &vacancy, self.grace)
    }

    /// Returns the member to which this one, as a leader, hands over: the first of strictly higher
    /// rank that has not had its turn since it joined, as far as is known.
    ///
    /// It has had its turn once it has let go of the lock, or a release was sent for its sake, whatever
    /// came of that. So a member whose task keeps failing gets the lock once in a term of its
    /// membership, and not again and again. One that lost the lock without letting go, by late
    /// heartbeats or an eviction, gets it back once this one has led for a lease.
    pub fn successor(&mut self, members: &[Ranked], read_at: Timestamp) -> Option<String> {
        let past = |id: &str| self.past.get(id).copied().unwrap_or_default();
        let is_settled = read_at.since(past(&self.id).held) >= self.lease;
        let is_new = |member: &&Ranked| {
            let Past { held, had_turn } = past(&member.id);
            member.rank > self.rank
                && had_turn < member.since
                && (held < member.since || is_settled)
        };
        let candidates = members.iter().filter(is_new);
        let first = candidates.min_by_key(|member| (Reverse(member.rank), &member.id))?;
        self.successor = Some((first.id.clone(), first.since));
        Some(first.id.clone())
    }

    fn had_turn(&mut self, id: &str, token: Timestamp) {
        self.past(id, |past| past.had_turn = past.had_turn.max(token));
    }

    fn past(&mut self, id: &str, note: impl FnOnce(&mut Past)) {
        note(self.past.entry(id.to_string()).or_default());
        if self.past.len() > HOLDERS_MAX {
            let latest = |past: &Past| past.held.max(past.had_turn);
            let oldest = self.past.iter().min_by_key(|(_, past)| latest(past));
            let oldest = oldest.map(|(id, _)| id.clone());
            self.past.retain(|id, _| Some(id) != oldest.as_ref());
        }
    }
}
