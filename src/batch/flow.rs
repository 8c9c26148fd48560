//! A failure detector by silence. A flow is one client with its one channel. The channel may be dead without a
//! word, and the client has no means of its own to find out.
//!
//! The rules here say when a flow is suspect, when a fresh one is begun and when that takes over. They
//! send nothing: the dispatcher carries them out.

use std::time::Duration;

use tokio::time::Instant;

use super::Channels;

/// Silence below this is no sign: a busy process hears its answers as late.
const SILENCE_MIN: Duration = Duration::from_millis(100);
/// An attempt at a fresh flow has this much time at the least.
const ATTEMPT_MIN: Duration = Duration::from_millis(500);
/// A fresh channel has so many times the patience. Each attempt is load for a server that is slow. In
/// silence the second begins when two fifths of the lease are over, which a term outlives.
const ATTEMPT: u32 = 3;
/// So many answers, each as slow as the slowest, are worth one attempt: to connect and to make a
/// session takes some round trips.
const ATTEMPT_ANSWERS: u32 = 4;
/// A fresh flow that has not answered yet is waited for so many times as long, and so is a request
/// that may wait for a fence: for a quarter of the lease, of which the patience is a twentieth. By one
/// channel that holds for heartbeats, too: what goes once more or connects anew because a server is slow
/// makes it slower. Of many one may be dead, and the repeat may get it as well.
const LONGER: u32 = 5;
/// An answer counts as recent for so long at the least, and for twice that at the most.
const RECENT: Duration = Duration::from_secs(10);

/// A request that has no answer yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    /// The number of the flow on which it went.
    pub(super) flow: u64,
    pub(super) sent: Instant,
    /// The least patience of its acts.
    pub(super) patience: Duration,
    /// True if it is waited for longer: it may wait for a fence, or repeats one that met silence.
    pub(super) is_patient: bool,
    pub(super) is_heartbeat: bool,
}

/// The flow in use, and the attempt at a fresh one.
#[derive(Debug)]
pub(super) struct Flow {
    channels: Channels,
    number: u64,
    heard_at: Instant,
    /// True if anything was heard on it.
    is_proven: bool,
    /// When a request that ended in silence made it suspect, if none was heard since.
    missed: Option<Instant>,
    is_opening: bool,
    slowest: Slowest,
}

/// The next thing to do about the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing.
    Wait,
    /// Begin a fresh flow; the attempt has so long.
    Open(Duration),
    /// The flow is heard again: give the attempt up.
    Close,
}

impl Flow {
    pub(super) fn new(channels: Channels, now: Instant) -> Flow {
        let slowest = Slowest { this: Duration::ZERO, last: Duration::ZERO, since: now };
        Flow {
            channels,
            number: 0,
            heard_at: now,
            is_proven: true,
            missed: None,
            is_opening: false,
            slowest,
        }
    }

    /// Returns the number of the flow on which requests go.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns true if anything was heard on it after this.
    pub(super) fn is_heard_since(&self, sent: Instant) -> bool {
        self.heard_at > sent
    }

    /// Notes that something was heard on the flow of this number.
    pub(super) fn heard(&mut self, flow: u64, at: Instant) {
        // The store tells the same moment at each turn: it takes back no request that has ended in silence.
        let is_news = self.heard_at < at || (self.heard_at == at && !self.is_proven);
        if flow == self.number && is_news {
            (self.heard_at, self.is_proven, self.missed) = (at, true, None);
        }
    }

    /// Notes how long an answer took that waited for no row.
    pub(super) fn took(&mut self, latency: Duration, now: Instant) {
        self.slowest.add(latency, now);
    }

    /// Notes that a request ended without an answer. One that had no time to be silent failed of
    /// itself: its channel knows that it is broken, and connects anew.
    pub(super) fn unanswered(&mut self, request: &Pending, now: Instant) {
        if request.flow != self.number {
            return;
        }
        let suspect_at = self.silent_at(request);
        if suspect_at <= now || now.duration_since(request.sent) >= SILENCE_MIN {
            self.missed = Some(self.missed.map_or(suspect_at, |missed| missed.min(suspect_at)));
        } else {
            (self.heard_at, self.missed) = (now, None);
        }
    }

    /// Says what is due, by all requests on their way.
    pub(super) fn step(&mut self, pending: &[Pending], now: Instant) -> Step {
        let is_suspect = self.suspect_at(pending).is_some_and(|at| at <= now);
        match (is_suspect, self.is_opening) {
            (true, false) if !pending.is_empty() => {
                self.is_opening = true;
                Step::Open(self.attempt(pending))
            }
            (false, true) => {
                self.is_opening = false;
                Step::Close
            }
            (true, _) | (false, false) => Step::Wait,
        }
    }

    /// Returns when a step may be due next.
    pub(super) fn next(&self, pending: &[Pending]) -> Option<Instant> {
        let may_open = !self.is_opening && !pending.is_empty();
        self.suspect_at(pending).filter(|_| may_open)
    }

    /// Notes that an attempt came to nothing.
    pub(super) fn failed(&mut self) {
        self.is_opening = false;
    }

    /// Has a fresh flow, which is ready, take over if the one in use is still silent. Returns for how
    /// long that was silent if so: then [`is_given_up`](Flow::is_given_up) said of each request if it
    /// goes once more.
    pub(super) fn takes_over(&mut self, pending: &[Pending], now: Instant) -> Option<Duration> {
        self.is_opening = false;
        if self.suspect_at(pending).is_none_or(|at| now < at) {
            return None;
        }
        let first_sent = pending.iter().map(|request| request.sent).min();
        let since = first_sent.filter(|_| self.are_many()).unwrap_or(self.heard_at);
        (self.number, self.heard_at, self.missed) = (self.number + 1, now, None);
        self.is_proven = self.are_many();
        Some(now.saturating_duration_since(since))
    }

    /// Returns true if this request goes once more when a fresh flow takes over now: all on a dead
    /// channel do. Which channel of many one took nobody knows, so each is judged by itself.
    pub(super) fn is_given_up(&self, request: &Pending, now: Instant) -> bool {
        let is_silent = !self.are_many() || self.silent_at(request) <= now;
        request.flow == self.number && is_silent
    }

    fn are_many(&self) -> bool {
        self.channels == Channels::Many
    }

    fn suspect_at(&self, pending: &[Pending]) -> Option<Instant> {
        let on_it = pending.iter().filter(|request| request.flow == self.number);
        on_it.map(|request| self.silent_at(request)).chain(self.missed).min()
    }

    /// Returns when this request makes its flow suspect, if nothing is heard until then.
    fn silent_at(&self, request: &Pending) -> Instant {
        let is_calm = request.is_heartbeat && !self.are_many();
        let is_longer = request.is_patient || is_calm || !self.is_proven;
        let patience = request.patience * if is_longer { LONGER } else { 1 };
        let since = if self.are_many() { request.sent } else { request.sent.max(self.heard_at) };
        since + patience.max(SILENCE_MIN).max(self.slowest.recent() * 2)
    }

    fn attempt(&self, pending: &[Pending]) -> Duration {
        let patience = pending.iter().map(|request| request.patience).min().unwrap_or_default();
        let patience = patience * if self.are_many() { 1 } else { ATTEMPT };
        patience.max(ATTEMPT_MIN).max(self.slowest.recent() * ATTEMPT_ANSWERS)
    }
}

/// The slowest of the recent answers.
#[derive(Debug)]
struct Slowest {
    this: Duration,
    last: Duration,
    since: Instant,
}

impl Slowest {
    fn add(&mut self, latency: Duration, now: Instant) {
        let age = now.saturating_duration_since(self.since);
        if age >= RECENT {
            self.last = if age < RECENT * 2 { self.this } else { Duration::ZERO };
            (self.this, self.since) = (Duration::ZERO, now);
        }
        self.this = self.this.max(latency);
    }

    fn recent(&self) -> Duration {
        self.this.max(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);
    /// A twentieth of a lease of 10 s.
    const PATIENCE: Duration = Duration::from_millis(500);

    fn sent(flow: &Flow, at: Instant) -> Pending {
        let (flow, patience) = (flow.number(), PATIENCE);
        Pending { flow, sent: at, patience, is_patient: false, is_heartbeat: false }
    }

    /// Has a fresh flow take over from a silent one.
    fn replaced(flow: &mut Flow, now: Instant) {
        let silent = [sent(flow, now)];
        let now = now + PATIENCE;
        assert!(matches!(flow.step(&silent, now), Step::Open(_)));
        assert!(flow.is_given_up(&silent[0], now));
        assert_eq!(flow.takes_over(&silent, now), Some(PATIENCE));
    }

    #[test]
    fn a_flow_is_suspect_when_nothing_is_heard_on_it_for_a_twentieth_of_the_lease() {
        let start = Instant::now();
        let mut flow = Flow::new(Channels::One, start);
        assert_eq!(flow.step(&[], start + PATIENCE * 9), Step::Wait, "nothing is pending");
        let request = [sent(&flow, start)];
        let suspect_at = start + PATIENCE;
        let before = suspect_at - MILLISECOND;
        assert_eq!(
            (flow.step(&request, before), flow.next(&request)),
            (Step::Wait, Some(suspect_at))
        );
        flow.heard(0, before);
        let suspect_at = before + PATIENCE;
        assert_eq!(flow.step(&request, suspect_at - MILLISECOND), Step::Wait);
        assert_eq!(flow.next(&request), Some(suspect_at));
        assert_eq!(flow.step(&request, suspect_at), Step::Open(PATIENCE * ATTEMPT));
        assert_eq!(flow.step(&request, suspect_at), Step::Wait, "one attempt at a time");
    }

    #[test]
    fn a_slow_server_is_waited_for_twice_as_long_as_its_slowest_answer() {
        let start = Instant::now();
        let mut flow = Flow::new(Channels::One, start);
        let slow = Duration::from_secs(2);
        flow.took(slow, start);
        flow.took(MILLISECOND, start + RECENT);
        let now = start + RECENT;
        let request = [sent(&flow, now)];
        assert_eq!(flow.next(&request), Some(now + slow * 2));
        assert_eq!(flow.step(&request, now + slow * 2), Step::Open(slow * ATTEMPT_ANSWERS));
        flow.failed();
        flow.took(MILLISECOND, start + RECENT * 3);
        assert_eq!(flow.step(&request, now + PATIENCE), Step::Open(PATIENCE * ATTEMPT), "long ago");
    }

    #[test]
    fn a_heartbeat_on_one_channel_is_waited_for_longer_than_on_one_of_many() {
        let start = Instant::now();
        for (channels, suspect_after, attempt) in [
            (Channels::One, PATIENCE * LONGER, PATIENCE * ATTEMPT),
            (Channels::Many, PATIENCE, PATIENCE),
        ] {
            let mut flow = Flow::new(channels, start);
            let request = [Pending { is_heartbeat: true, ..sent(&flow, start) }];
            assert_eq!(flow.next(&request), Some(start + suspect_after), "{channels:?}");
            assert_eq!(flow.step(&request, start + suspect_after), Step::Open(attempt));
        }
    }

    #[test]
    fn a_flow_that_is_heard_before_the_fresh_one_is_ready_stays() {
        let start = Instant::now();
        let mut flow = Flow::new(Channels::One, start);
        let request = [sent(&flow, start)];
        let now = start + PATIENCE;
        assert!(matches!(flow.step(&request, now), Step::Open(_)));
        flow.heard(0, now);
        assert_eq!(flow.step(&request, now), Step::Close);
        assert!(matches!(flow.step(&request, now + PATIENCE), Step::Open(_)));
        flow.heard(0, now + PATIENCE);
        assert_eq!(flow.takes_over(&request, now + PATIENCE), None);
        assert_eq!(flow.number(), 0);
    }

    #[test]
    fn another_switch_waits_until_the_fresh_flow_has_answered_or_a_quarter_of_the_lease_is_over() {
        let start = Instant::now();
        let mut flow = Flow::new(Channels::One, start);
        replaced(&mut flow, start);
        let now = start + PATIENCE;
        let request = [sent(&flow, now)];
        let quarter = now + PATIENCE * LONGER;
        assert_eq!(flow.next(&request), Some(quarter));
        flow.heard(0, quarter - MILLISECOND);
        assert_eq!(flow.next(&request), Some(quarter), "what the old one says proves nothing");
        assert!(matches!(flow.step(&request, quarter), Step::Open(_)));
        flow.failed();
        flow.heard(1, now);
        assert_eq!(flow.next(&request), Some(now + PATIENCE));
    }

    #[test]
    fn polls_that_end_in_silence_one_after_another_make_a_flow_suspect() {
        let start = Instant::now();
        let mut flow = Flow::new(Channels::One, start);
        // Its limit is shorter than the poll interval, which is its patience.
        let request = Pending { patience: PATIENCE * 10, ..sent(&flow, start) };
        flow.unanswered(&request, start + PATIENCE * 5);
        flow.heard(0, start);
        assert_eq!(flow.step(&[], start + PATIENCE * 10), Step::Wait, "nothing is pending");
        assert_eq!(flow.next(&[]), None);
        let next = Pending { sent: start + PATIENCE * 11, ..request };
        assert!(matches!(flow.step(&[next], next.sent), Step::Open(_)));
    }

    #[test]
    fn a_request_that_fails_at_once_met_no_silence() {
        let start = Instant::now();
        let mut flow = Flow::new(Channels::One, start);
        for n in 0..100 {
            let request = sent(&flow, start + PATIENCE * n);
            flow.unanswered(&request, request.sent + MILLISECOND);
            let next = [sent(&flow, request.sent + MILLISECOND)];
            assert_eq!(flow.step(&next, next[0].sent), Step::Wait);
        }
    }

    #[test]
    fn of_many_channels_only_the_silent_requests_go_once_more_and_each_once_in_a_quarter() {
        let start = Instant::now();
        let mut flow = Flow::new(Channels::Many, start);
        let now = start + PATIENCE;
        let (silent, recent) = (sent(&flow, start), sent(&flow, now));
        // Another channel answers.
        flow.heard(0, now);
        assert!(matches!(flow.step(&[silent, recent], now), Step::Open(_)));
        assert!(flow.is_given_up(&silent, now) && !flow.is_given_up(&recent, now));
        assert_eq!(flow.takes_over(&[silent, recent], now), Some(PATIENCE));
        let repeat = Pending { is_patient: true, ..sent(&flow, now) };
        let quarter = now + PATIENCE * LONGER;
        assert_eq!(flow.step(&[silent, repeat], now), Step::Wait);
        assert_eq!(flow.next(&[silent, repeat]), Some(quarter));
    }
}
