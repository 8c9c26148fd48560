//! How many requests may be in flight: it follows the server, by kind.
//!
//! AIMD, with Vegas's measure of waiting: more after answers, half as many after requests that came
//! to nothing, and one fewer while requests wait at the server longer than they are served.

use std::time::Duration;

use tokio::time::Instant;

/// Requests that only wait at the server: below the first a window grows, above the second it
/// shrinks.
const WAITING_FEW: f64 = 2.0;
const WAITING_MANY: f64 = 4.0;
/// A request that is answered sooner waits nowhere.
const PROMPT: Duration = Duration::from_millis(10);
/// The shortest latency is forgotten by this part with each answer, since servers change. The first
/// requests of a round of heartbeats measure it anew.
const FORGOTTEN: f64 = 0.001;

/// How many requests of one kind may be in flight.
#[derive(Debug)]
pub(crate) struct Window {
    size: f64,
    least: f64,
    most: f64,
    /// The latency of a request that waits for no other, as far as is known.
    base_s: Option<f64>,
    /// A request that left before this has narrowed the window already.
    narrowed_at: Option<Instant>,
}

impl Window {
    pub(crate) fn new(least: usize, first: usize, most: usize) -> Window {
        let [size, least, most] = [first, least, most].map(|requests| requests as f64);
        Window { size, least, most, base_s: None, narrowed_at: None }
    }

    /// Returns how many requests may be in flight; at least one.
    pub(crate) fn size(&self) -> usize {
        // Small and positive by construction.
        self.size as usize
    }

    /// Takes note of an answer. The argument `in_flight` counts its request too, and `latency` is
    /// that of a full one: the latencies of others can't be compared.
    pub(crate) fn answered(&mut self, in_flight: usize, latency: Option<Duration>) {
        let waiting = latency.map(|latency| self.waiting(latency));
        if waiting.is_some_and(|waiting| waiting > WAITING_MANY) {
            self.resize(self.size - 1.0 / self.size);
        } else if waiting.is_none_or(|waiting| waiting < WAITING_FEW) && in_flight >= self.size() {
            // Where fewer were in flight, nobody has tried what a larger window would do.
            self.resize(self.size + 1.0 / self.size);
        }
    }

    /// Takes note of a request that came to nothing. Those that were sent together narrow the
    /// window once.
    pub(crate) fn failed(&mut self, sent: Instant, now: Instant) {
        if self.narrowed_at.is_some_and(|narrowed_at| sent <= narrowed_at) {
            return;
        }
        self.narrowed_at = Some(now);
        self.resize(self.size / 2.0);
    }

    /// Returns how many of the requests in flight only wait at the server, by the latency of one.
    fn waiting(&mut self, latency: Duration) -> f64 {
        let (latency_s, prompt_s) = (latency.as_secs_f64(), PROMPT.as_secs_f64());
        let aged_s = self.base_s.map(|base_s| base_s * (1.0 + FORGOTTEN));
        let base_s = aged_s.unwrap_or(latency_s).min(latency_s).max(prompt_s);
        self.base_s = Some(base_s);
        self.size * (1.0 - base_s / latency_s.max(base_s))
    }

    fn resize(&mut self, size: f64) {
        self.size = size.clamp(self.least, self.most);
    }
}

/// Says if more terms may begin, by what they leave to the heartbeats of those that have.
///
/// Each term is a promise of heartbeats, which come due only later. So begins that wait for each
/// other measure the server: it has to carry twice as many of them as of the heartbeats beside
/// them.
#[derive(Debug)]
pub(crate) struct Growth {
    begun: usize,
    kept: usize,
    paused: Pause,
}

/// The number of full requests of begins that make a measurement.
const MEASURED: usize = 8;
/// For how long no term begins when heartbeats need the server: at first, and at most.
pub(crate) const PAUSE_MIN: Duration = Duration::from_secs(10);
const PAUSE_MAX: Duration = Duration::from_secs(60);

impl Growth {
    pub(crate) fn allowed() -> Growth {
        Growth { begun: 0, kept: 0, paused: Pause::new(PAUSE_MIN, PAUSE_MAX) }
    }

    pub(crate) fn is_allowed(&self, now: Instant) -> bool {
        self.resumes(now).is_none()
    }

    /// Returns when terms may begin again, if none may now.
    pub(crate) fn resumes(&self, now: Instant) -> Option<Instant> {
        self.paused.ends(now)
    }

    /// Takes note of heartbeats that were answered while begins were on their way.
    pub(crate) fn kept(&mut self, rows: usize) {
        self.kept += rows;
    }

    /// Takes note of a full request of begins that was answered; `full` is how many rows it has.
    pub(crate) fn begun(&mut self, full: usize, now: Instant) {
        self.begun += full;
        if self.begun < MEASURED * full {
            return;
        }
        let is_much = self.kept * 2 > self.begun;
        (self.begun, self.kept) = (0, 0);
        if is_much {
            self.pause(now);
        } else {
            self.paused.next = self.paused.shortest;
        }
    }

    /// Lets no term begin for a while.
    pub(crate) fn pause(&mut self, now: Instant) {
        self.paused.begin(now);
    }
}

/// A pause, each time twice as long, until [`PAUSES_FORGOTTEN`] after the last.
#[derive(Debug)]
pub(crate) struct Pause {
    until: Option<Instant>,
    /// The length of the next one.
    next: Duration,
    shortest: Duration,
    longest: Duration,
}

/// Pauses that ended so long ago make the next one no longer.
const PAUSES_FORGOTTEN: Duration = Duration::from_secs(3_600);

impl Pause {
    pub(crate) fn new(shortest: Duration, longest: Duration) -> Pause {
        Pause { until: None, next: shortest, shortest, longest }
    }

    /// Begins, unless one goes on.
    pub(crate) fn begin(&mut self, now: Instant) {
        if self.ends(now).is_none() {
            if self.until.is_some_and(|until| until + PAUSES_FORGOTTEN <= now) {
                self.next = self.shortest;
            }
            self.until = Some(now + self.next);
            self.next = (self.next * 2).min(self.longest);
        }
    }

    /// Returns when the one that goes on ends.
    pub(crate) fn ends(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| now < *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// Has a full request answered after so long, sent when the window was used up.
    fn answer(window: &mut Window, latency: Duration) {
        window.answered(window.size(), Some(latency));
    }

    fn at(start: Instant, milliseconds: u32) -> Instant {
        start + MILLISECOND * milliseconds
    }

    #[test]
    fn a_window_grows_by_one_for_each_round_of_prompt_answers() {
        let mut window = Window::new(2, 4, 32);
        (0..5).for_each(|_| answer(&mut window, MILLISECOND));
        assert_eq!(window.size(), 5);
        (0..2_000).for_each(|_| answer(&mut window, MILLISECOND));
        assert_eq!(window.size(), 32, "it has an end");
    }

    #[test]
    fn a_window_that_nobody_uses_up_does_not_grow() {
        let mut window = Window::new(2, 4, 32);
        (0..100).for_each(|_| window.answered(3, None));
        assert_eq!(window.size(), 4);
    }

    #[test]
    fn failures_halve_it_once_for_all_that_were_sent_together() {
        let (mut window, start) = (Window::new(2, 16, 32), Instant::now());
        for n in 0..8 {
            window.failed(start, at(start, 100 + n));
        }
        assert_eq!(window.size(), 8);
        window.failed(at(start, 200), at(start, 300));
        assert_eq!(window.size(), 4);
        window.failed(at(start, 400), at(start, 500));
        window.failed(at(start, 600), at(start, 700));
        assert_eq!(window.size(), 2, "it stays open");
    }

    #[test]
    fn requests_that_wait_at_the_server_narrow_it_until_few_do() {
        let mut window = Window::new(2, 4, 32);
        answer(&mut window, MILLISECOND * 20);
        // Two at a time are served, the others wait: latency grows with their number.
        for n in 0..5_000 {
            let is_first = n % 100 == 0;
            let waves = u32::try_from(window.size()).unwrap().div_ceil(2);
            answer(&mut window, MILLISECOND * 20 * if is_first { 1 } else { waves });
            assert!(n < 500 || (3..=8).contains(&window.size()), "{n}: {}", window.size());
        }
        // And a server that has become slow is the new measure in time.
        (0..5_000).for_each(|_| answer(&mut window, MILLISECOND * 100));
        assert!(window.size() >= 8, "{}", window.size());
    }

    #[test]
    fn a_pause_is_twice_as_long_each_time_up_to_the_longest() {
        let (mut pause, start) = (Pause::new(PAUSE_MIN, PAUSE_MIN * 3), Instant::now());
        assert_eq!(pause.ends(start), None);
        let mut begun = start;
        for length in [1, 2, 3, 3] {
            pause.begin(begun);
            pause.begin(begun);
            let ends = begun + PAUSE_MIN * length;
            assert_eq!(pause.ends(ends - MILLISECOND), Some(ends));
            assert_eq!(pause.ends(ends), None);
            begun = ends;
        }
        begun += PAUSES_FORGOTTEN;
        pause.begin(begun);
        assert_eq!(pause.ends(begun), Some(begun + PAUSE_MIN), "what was is forgotten");
    }

    #[test]
    fn begins_pause_where_heartbeats_take_more_than_a_third_and_longer_each_time() {
        let (mut growth, start) = (Growth::allowed(), Instant::now());
        let measure = |growth: &mut Growth, kept, now| {
            growth.kept(kept);
            (0..MEASURED).for_each(|_| growth.begun(10, now));
        };
        measure(&mut growth, MEASURED * 5, start);
        assert!(growth.is_allowed(start), "half as many as begin");
        measure(&mut growth, MEASURED * 5 + 1, start);
        assert!(!growth.is_allowed(start + PAUSE_MIN - MILLISECOND));
        assert_eq!(growth.resumes(start), Some(start + PAUSE_MIN));
        let later = start + PAUSE_MIN;
        assert!(growth.is_allowed(later));
        growth.pause(later);
        growth.pause(later);
        assert!(!growth.is_allowed(later + PAUSE_MIN * 2 - MILLISECOND));
        let later = later + PAUSE_MIN * 2;
        assert!(growth.is_allowed(later));
        measure(&mut growth, 0, later);
        growth.pause(later);
        assert!(growth.is_allowed(later + PAUSE_MIN), "it went well in between");
    }
}
