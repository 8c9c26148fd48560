//! The outages that a holder outlives by hearing late answers alone, as the settings' docs say.

use std::time::Duration;

use spindle_protocol::{
    Act, Announcement, Answer, Event, Instance, Moment, Observation, Timestamp, Timing, Wake,
};

const LEASE: Duration = Duration::from_secs(10);
/// Until an answer comes, when all is well.
const LATENCY: Duration = Duration::from_millis(10);

/// The kind of a request that is sent during the outage.
#[derive(Clone, Copy, Debug)]
enum Outage {
    /// It is carried out and answered once the outage is over.
    Held,
    /// It fails as it is sent.
    Refusal,
    /// Nothing is ever heard of it.
    Silence,
    /// It is answered after 0.35 of the lease.
    Slow,
}

/// What becomes of the requests of a holder.
struct World {
    outage: Outage,
    begin: Duration,
    length: Duration,
    /// Until an answer comes, outside of the outage.
    latency: Duration,
}

#[test]
fn a_term_outlives_an_outage_of_so_much_of_its_lease_and_none_of_so_much() {
    // The share of the heartbeat interval; outlived and not outlived, in hundredths of a lease.
    for (interval, outage, outlived, fatal) in [
        (2, Outage::Held, 29, 31),
        (2, Outage::Refusal, 25, 31),
        (2, Outage::Silence, 0, 1),
        (3, Outage::Held, 46, 48),
        (3, Outage::Refusal, 42, 48),
        (3, Outage::Silence, 0, 1),
    ] {
        let timing = Timing { heartbeat_interval: LEASE / interval, ..Timing::from_lease(LEASE) };
        let outlives = |hundredths: u32| {
            let length = LEASE / 100 * hundredths;
            // At every moment of two intervals, with the least and the most jitter.
            (0..200).all(|at| {
                let world = World { outage, begin: LEASE * at / 200, length, latency: LATENCY };
                [0.0, 1.0].iter().all(|jitter| outlives(&timing, &world, *jitter))
            })
        };
        assert!(outlives(outlived), "1/{interval}, {outage:?}: {outlived} hundredths of a lease");
        assert!(!outlives(fatal), "1/{interval}, {outage:?}: {fatal} hundredths of a lease");
    }
}

#[test]
fn a_term_outlives_a_latency_of_so_much_of_its_lease_and_none_of_so_much() {
    for (interval, outlived, fatal) in [(2, 29, 31), (3, 39, 41)] {
        let timing = Timing { heartbeat_interval: LEASE / interval, ..Timing::from_lease(LEASE) };
        let outlives = |hundredths: u32| {
            let (outage, begin, length) = (Outage::Held, Duration::ZERO, Duration::ZERO);
            let world = World { outage, begin, length, latency: LEASE / 100 * hundredths };
            outlives(&timing, &world, 1.0)
        };
        assert!(outlives(outlived), "1/{interval}: {outlived} hundredths of a lease");
        assert!(!outlives(fatal), "1/{interval}: {fatal} hundredths of a lease");
    }
}

#[test]
fn heartbeats_that_come_to_take_a_third_of_the_lease_end_no_term_in_ten_minutes() {
    let ten_minutes = Duration::from_secs(600);
    for lease in [5, 10, 30].map(Duration::from_secs) {
        let timing = Timing::from_lease(lease);
        for phase in 0..50 {
            let (begin, outage) = (timing.heartbeat_interval * phase / 50, Outage::Slow);
            let latency = lease / 500;
            let length = ten_minutes;
            let world = World { outage, begin, length, latency };
            assert!(lasts(&timing, &world, 1.0, ten_minutes), "lease {lease:?}, from {begin:?} on");
        }
    }
}

/// True if a term that begins at zero goes on for four leases beside the outage.
fn outlives(timing: &Timing, world: &World, jitter: f64) -> bool {
    lasts(timing, world, jitter, LEASE * 4)
}

fn lasts(timing: &Timing, world: &World, jitter: f64, until: Duration) -> bool {
    let mut holder = Instance::new("a", 1, timing.clone(), Moment(Duration::ZERO));
    let spanner = |now: Moment| {
        Timestamp(1_000_000_000 + i64::try_from(now.0.as_nanos()).expect("a few leases"))
    };
    let mut now = Moment(Duration::ZERO);
    let mut event = Event::Wake;
    // The answer under way, and when it comes.
    let mut answer: Option<(Moment, Answer)> = None;
    loop {
        let decision = holder.decide(now, event);
        if let Some(Announcement::Ended { .. }) = decision.announce {
            return false;
        }
        if now.0 > until {
            return holder.term().is_some();
        }
        if let Some(act) = &decision.act {
            let limit = holder.attempt_limit(now);
            answer = Some(world.answer(act, now, limit, timing.lease, spanner(now)));
        }
        let wake = decision.wake.map(|Wake { at, spread }| at.max(now) + spread.mul_f64(jitter));
        event = match answer.take() {
            // The deadline doesn't wait for an answer.
            Some((comes, heard)) if wake.is_none_or(|wake| comes <= wake) => {
                now = comes;
                Event::Answer(heard)
            }
            later => {
                answer = later;
                now = wake.expect("a holder wakes again");
                Event::Wake
            }
        };
    }
}

impl World {
    fn answer(
        &self,
        act: &Act,
        now: Moment,
        limit: Duration,
        lease: Duration,
        at: Timestamp,
    ) -> (Moment, Answer) {
        let end = Moment(self.begin + self.length);
        let is_lost = (Moment(self.begin)..end).contains(&now);
        match (self.outage, act) {
            (outage, Act::Heartbeat { .. }) if is_lost => match outage {
                Outage::Held => (end + self.latency, Answer::Applied { at }),
                Outage::Refusal => (now + self.latency, Answer::NotApplied),
                Outage::Silence => (now + limit, Answer::Unknown),
                Outage::Slow => (now + lease / 100 * 35, Answer::Applied { at }),
            },
            // The term's begin is not what is asked about.
            (_, Act::Observe) => {
                let seen = Observation { row: None, next: None, read_at: at };
                (now + LATENCY, Answer::Observed(seen))
            }
            (_, Act::Heartbeat { .. }) => (now + self.latency, Answer::Applied { at }),
            _ => (now + LATENCY, Answer::Applied { at }),
        }
    }
}
