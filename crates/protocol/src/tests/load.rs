//! I8: however Spanner answers, an instance asks for little more than a healthy one.

use std::collections::VecDeque;
use std::time::Duration;

use crate::*;

const WINDOW: Duration = Duration::from_secs(10);
/// Three a second, in one window.
const EXCESS_MAX: usize = 30;

/// Spanner's answer to each kind of act.
#[derive(Clone, Copy, Debug)]
struct Spanner {
    reads: Says,
    begins: Says,
    heartbeats: Says,
    releases: Says,
    /// How long an answer takes, up to the time limit of the attempt.
    takes: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Says {
    Yes,
    NotApplied,
    Unknown,
    Rejected,
    /// Any of them, by chance.
    Anything,
}

/// One instance in virtual time, and what it sends.
struct Load {
    instance: Instance,
    timing: Timing,
    spanner: Spanner,
    now: Moment,
    /// The state of the row: the writer of the term that was begun last, or nobody's.
    begun: Option<(Writer, Timestamp)>,
    chance: u64,
    sent: VecDeque<Moment>,
    most: usize,
}

impl Load {
    fn new(timing: Timing, spanner: Spanner, seed: u64) -> Load {
        let instance = Instance::new("a", 0xa, timing.clone(), Moment::default());
        let (sent, now) = (VecDeque::new(), Moment::default());
        let chance = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Load { instance, timing, spanner, now, begun: None, chance, sent, most: 0 }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance % below
    }

    fn spanners_time(&self) -> Timestamp {
        Timestamp(1_795_000_000_000_000_000) + self.now.0
    }

    /// Returns the most requests in any window, of those that count.
    fn most_in_a_window(mut self, lasts: Duration, mut owner: impl FnMut(u64) -> Event) -> usize {
        let mut event = Event::Wake;
        while self.now.0 < lasts {
            let Decision { act, wake, .. } = self.instance.decide(self.now, event);
            event = match (act, wake) {
                (Some(act), _) => self.carry_out(act),
                (None, Some(wake)) => {
                    // An instance that is never late sends the most.
                    self.now = self.now.max(wake.at);
                    Event::Wake
                }
                (None, None) => {
                    self.now = self.now + Duration::from_millis(1);
                    let drawn = self.draw(u64::MAX);
                    owner(drawn)
                }
            };
        }
        self.most
    }

    fn carry_out(&mut self, act: Act) -> Event {
        let says = match act {
            Act::Observe => self.spanner.reads,
            Act::Insert { .. } | Act::Takeover { .. } | Act::Mark { .. } => self.spanner.begins,
            Act::Heartbeat { .. } => self.spanner.heartbeats,
            Act::Release { .. } => self.spanner.releases,
        };
        let any = [Says::Yes, Says::NotApplied, Says::Unknown, Says::Rejected];
        let says = if says == Says::Anything { any[self.draw(4) as usize] } else { says };
        let limit = self.timing.attempt_limit();
        // A transaction is two requests.
        let requests = match act {
            Act::Heartbeat { .. } => 0,
            Act::Observe => 1,
            // A healthy contender takes places, too.
            Act::Mark { .. } if matches!(says, Says::Yes | Says::Rejected) => 0,
            _ => 2,
        };
        for _ in 0..requests {
            self.send();
        }
        self.now = self.now + self.spanner.takes.min(limit);
        Event::Answer(self.answer(act, says))
    }

    fn answer(&mut self, act: Act, says: Says) -> Answer {
        let at = self.spanners_time();
        match (says, act) {
            (Says::NotApplied, _) => Answer::NotApplied,
            (Says::Unknown, Act::Observe) => Answer::NotApplied,
            (Says::Unknown, _) => Answer::Unknown,
            (Says::Rejected, act) if act != Act::Observe => {
                self.begun = None;
                Answer::Rejected(Rejection::Changed(None))
            }
            (_, Act::Observe) => {
                let row = self.begun.clone().map(|(writer, token)| Row {
                    heartbeat: Timestamp::EPOCH,
                    token,
                    writer,
                    lease: None,
                });
                Answer::Observed(Observation { row, next: None, read_at: at })
            }
            (_, Act::Insert { .. } | Act::Takeover { .. }) => {
                // Vacant again at once: the worst there is.
                self.begun = Some((Writer::nobody(), at));
                Answer::Applied { at }
            }
            (_, _) => Answer::Applied { at },
        }
    }

    fn send(&mut self) {
        self.sent.push_back(self.now);
        while self.sent.front().is_some_and(|first| self.now.since(*first) >= WINDOW) {
            self.sent.pop_front();
        }
        self.most = self.most.max(self.sent.len());
    }
}

fn timings() -> Vec<Timing> {
    let leases = [100, 1_000, 3_000, 10_000, 60_000].map(Duration::from_millis);
    let seldom = |timing: Timing| Timing { poll_interval: Duration::from_secs(60), ..timing };
    leases
        .into_iter()
        .flat_map(|lease| [Timing::from_lease(lease), seldom(Timing::from_lease(lease))])
        .collect()
}

/// Returns the requests of a healthy contender in one window: its polls.
fn healthy(timing: &Timing) -> usize {
    let polls = WINDOW.as_nanos().div_ceil((timing.poll_interval / 4 * 3).as_nanos());
    usize::try_from(polls).unwrap()
}

fn check(spanner: Spanner, seeds: u64, owner: impl Fn(u64) -> Event) {
    for timing in timings() {
        for seed in 0..seeds {
            let load = Load::new(timing.clone(), spanner, seed);
            let most = load.most_in_a_window(WINDOW * 30, &owner);
            let bound = healthy(&timing) + EXCESS_MAX;
            assert!(
                most <= bound,
                "{most} of {bound} with {spanner:?} and {timing:?}, seed {seed}"
            );
        }
    }
}

const TAKES: [Duration; 3] =
    [Duration::from_micros(100), Duration::from_millis(5), Duration::from_secs(1)];

const FAILS: [Says; 2] = [Says::NotApplied, Says::Unknown];

fn healthy_but() -> Spanner {
    let yes = Says::Yes;
    let takes = Duration::from_millis(5);
    Spanner { reads: yes, begins: yes, heartbeats: yes, releases: yes, takes }
}

fn wants(_: u64) -> Event {
    Event::Contend(true)
}

#[test]
fn commits_that_fail_while_reads_work_are_repeated_ever_more_seldom() {
    for begins in FAILS {
        for takes in TAKES {
            check(Spanner { begins, takes, ..healthy_but() }, 1, wants);
        }
    }
}

#[test]
fn nothing_that_fails_is_repeated_without_a_growing_pause() {
    for reads in [Says::Yes, Says::NotApplied] {
        for begins in FAILS {
            for takes in TAKES {
                let (heartbeats, releases) = (Says::Unknown, Says::Unknown);
                let spanner = Spanner { reads, begins, heartbeats, releases, takes };
                check(spanner, 1, wants);
                check(Spanner { begins: Says::Yes, ..spanner }, 1, wants);
            }
        }
    }
}

#[test]
fn no_mix_of_answers_makes_an_instance_ask_too_often() {
    let any = Says::Anything;
    for takes in TAKES {
        let begins = [Says::NotApplied, Says::Unknown, any];
        for begins in begins {
            for reads in [Says::Yes, any] {
                let spanner = Spanner { reads, begins, heartbeats: any, releases: any, takes };
                check(spanner, 100, wants);
            }
        }
    }
}

#[test]
fn a_good_read_does_not_shorten_the_pause_after_commits_that_fail() {
    let mut instance = Instance::new("a", 0xa, Timing::from_lease(WINDOW), Moment::default());
    let (mut now, mut event) = (Moment::default(), Event::Wake);
    let (mut attempts, mut last) = (Vec::new(), None);
    while attempts.len() < 9 {
        let Decision { act, wake, .. } = instance.decide(now, event);
        let read_at = Timestamp(1_795_000_000_000_000_000) + now.0;
        event = match act {
            Some(Act::Observe) => {
                Event::Answer(Answer::Observed(Observation { row: None, next: None, read_at }))
            }
            Some(_) => {
                attempts.extend(last.replace(now).map(|last| now.since(last)));
                Event::Answer(Answer::Unknown)
            }
            None => {
                now = wake.expect("it goes on").at;
                Event::Wake
            }
        };
    }
    let grows = attempts.windows(2).take(4).all(|two| two[1] >= two[0] * 2);
    assert!(grows && attempts[0] >= Duration::from_millis(200), "{attempts:?}");
    assert!(attempts[8] >= Duration::from_secs(8) && attempts[8] <= WINDOW, "{attempts:?}");
}
