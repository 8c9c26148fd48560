//! A contender's decisions, asked of a real instance that is shown what the contender has seen.

use std::time::Duration;

use spindle_protocol::line::{Place, waiter};
use spindle_protocol::{
    Act, Answer, Event, Holder, Instance, Moment, Nonce, Observation, Rejection, Row, Succession,
    Timestamp, Timing, Writer,
};

use super::Member;

pub(super) const LEASE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_secs(1);

/// As many polls as the protocol counts.
pub(super) const MISSES: u8 = 2;
pub(super) const VACANT: u8 = 3;

/// The time of every read. No wait of a world began later, and no term but the present one.
pub(super) const NOW: Timestamp = Timestamp(1_795_000_000_000_000_000);

/// The token of a row whose promise, or lease, is over.
pub(super) const LONG_AGO: Timestamp = Timestamp(NOW.0 - 3_600_000_000_000);

/// The last heartbeat of a holder whose lease is over.
pub(super) const RAN_OUT: Timestamp = Timestamp(NOW.0 - 60_000_000_000);

/// A contender's sights since its wait began.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Seen {
    /// When it polled first: a number in the order of all waits.
    pub(super) since: Option<u8>,
    /// At how many polls it couldn't take the lock.
    pub(super) misses: u8,
    /// How many polls showed it the lock vacant, under the present token.
    pub(super) vacant: u8,
}

/// One process: a contender, in one of its lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) member: u8,
    pub(super) life: u8,
}

/// Returns Spanner's time of a wait's first poll.
pub(super) fn stamp(since: u8) -> Timestamp {
    Timestamp(LONG_AGO.0 + 1 + i64::from(since))
}

/// Returns the number of which this is the time; none of a wait that begins now.
pub(super) fn number(since: Timestamp) -> Option<u8> {
    u8::try_from(since.0 - LONG_AGO.0 - 1).ok()
}

pub(super) fn holder() -> Holder {
    Holder { lease: LEASE, info: None }
}

impl Process {
    pub(super) fn nonce(self) -> u64 {
        16 * (u64::from(self.member) + 1) + u64::from(self.life)
    }

    /// Returns the process of this name, `<id>#<nonce>`, or of a term of it; none if it is no such name.
    pub(super) fn of(name: &str) -> Option<Process> {
        let nonce = name.rsplit_once('#')?.1.get(..16)?;
        let nonce = u8::from_str_radix(nonce, 16).ok()?;
        Some(Process { member: (nonce / 16).checked_sub(1)?, life: nonce % 16 })
    }

    pub(super) fn writer(self, member: &Member) -> Writer {
        Writer::term(member.id, Nonce { instance: self.nonce(), attempt: 1 })
    }

    pub(super) fn waiter(self, member: &Member) -> std::sync::Arc<str> {
        waiter(member.id, self.nonce())
    }

    /// Returns what follows from a poll: an attempt, a place in line, or nothing.
    pub(super) fn polls(
        self,
        member: &Member,
        seen: &Seen,
        row: Row,
        next: Option<Place>,
    ) -> Option<Act> {
        let (mut instance, mut now) = self.recalls(member, seen, row.token);
        poll(&mut instance, &mut now, (Some(row), next), NOW)
    }

    /// Returns the place that it takes after it came too late.
    pub(super) fn comes_too_late(self, member: &Member, seen: &Seen) -> Option<Place> {
        let (mut instance, mut now) = self.recalls(member, seen, NOW);
        let id = self.waiter(member).to_string();
        let promised = released(&Succession::Successor { id, grace: POLL * 2 }, NOW);
        let read_at = seen.since.map_or(NOW, stamp);
        let act = poll(&mut instance, &mut now, (Some(promised), None), read_at);
        if !matches!(act, Some(Act::Takeover { .. })) {
            return None;
        }
        let refused = Event::Answer(Answer::Rejected(Rejection::Changed(None)));
        match instance.decide(now, refused).act {
            Some(Act::Mark { place }) => Some(place),
            _ => None,
        }
    }

    /// Returns the release of its term, whose token is [`NOW`].
    pub(super) fn releases(self, member: &Member) -> Act {
        let (mut instance, mut now) = self.recalls(member, &Seen::default(), NOW);
        poll(&mut instance, &mut now, (None, None), NOW);
        instance.decide(now, Event::Answer(Answer::Applied { at: NOW }));
        let act = instance.decide(now, Event::Contend(false)).act;
        act.expect("a holder that lets go releases")
    }

    /// Returns an instance that has seen the same, poll by poll; vacant it saw the row of this token.
    fn recalls(self, member: &Member, seen: &Seen, token: Timestamp) -> (Instance, Moment) {
        let timing = Timing { poll_interval: POLL, ..Timing::from_lease(LEASE) };
        // Any moment but the first: no pause is over that hasn't begun.
        let mut now = Moment(LEASE * 100);
        let instance = Instance::new(member.id, self.nonce(), timing, now);
        let mut instance = instance.standing(member.standing);
        let stranger =
            Row { heartbeat: NOW, token: NOW, writer: "stranger".into(), lease: Some(LEASE) };
        let vacant = |token| released(&Succession::Anyone, token);
        let highest = Place { rank: u32::MAX, since: LONG_AGO, waiter: "stranger".into() };
        let held = (0..seen.misses).map(|_| (stranger.clone(), None));
        let left = (0..seen.vacant).map(|_| (vacant(token), Some(highest.clone())));
        // Its wait began, and of what it saw only that matters.
        let is_first = seen.since.is_some() && seen.misses == 0 && member.is_ranked();
        let first = is_first.then(|| (vacant(Timestamp::EPOCH), Some(highest.clone())));
        for (index, (row, next)) in held.chain(first).chain(left).enumerate() {
            let read_at = seen.since.filter(|_| index == 0).map_or(NOW, stamp);
            poll(&mut instance, &mut now, (Some(row), next), read_at);
        }
        (instance, now)
    }
}

/// Returns a row that somebody has released.
pub(super) fn released(next: &Succession, at: Timestamp) -> Row {
    Row { heartbeat: Timestamp::EPOCH, token: at, writer: next.writer(), lease: next.grace() }
}

/// Returns the act that follows from a poll that shows this row and this place.
fn poll(
    instance: &mut Instance,
    now: &mut Moment,
    (row, next): (Option<Row>, Option<Place>),
    read_at: Timestamp,
) -> Option<Act> {
    *now = *now + POLL;
    // One that doesn't poll by then does nothing any more.
    let Some(Act::Observe) = instance.decide(*now, Event::Wake).act else { return None };
    let read = Observation { row, next, read_at };
    instance.decide(*now, Event::Answer(Answer::Observed(read))).act
}
