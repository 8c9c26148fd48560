//! The outages that a holder outlives, as the settings' docs say.

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
    /// Nothing is heard of it.
    Silence,
    /// It fails as it is sent.
    Refusal,
}

#[test]
fn a_term_outlives_an_outage_of_so_much_of_its_lease_and_none_of_so_much() {
    // The share of the heartbeat interval; outlived and not outlived, in hundredths of a lease.
    for (interval, kind, outlived, fatal) in [
        (2, Outage::Silence, 14, 16),
        (2, Outage::Refusal, 25, 31),
        (3, Outage::Silence, 22, 25),
        (3, Outage::Refusal, 42, 48),
    ] {
        let timing = Timing { heartbeat_interval: LEASE / interval, ..Timing::from_lease(LEASE) };
        let outlives = |hundredths: u32| {
            let outage = LEASE / 100 * hundredths;
            // At every moment of two intervals, with the least and the most jitter.
            (0..200).all(|at| {
                let begin = LEASE * at / 200;
                [0.0, 1.0].iter().all(|jitter| outlives(&timing, kind, begin, outage, *jitter))
            })
        };
        assert!(outlives(outlived), "1/{interval}, {kind:?}: {outlived} hundredths of a lease");
        assert!(!outlives(fatal), "1/{interval}, {kind:?}: {fatal} hundredths of a lease");
    }
}

/// True if a term that begins at zero goes on for two leases beside the outage.
fn outlives(timing: &Timing, kind: Outage, begin: Duration, outage: Duration, jitter: f64) -> bool {
    let mut holder = Instance::new("a", 1, timing.clone(), Moment(Duration::ZERO));
    let spanner = |now: Moment| {
        Timestamp(1_000_000_000 + i64::try_from(now.0.as_nanos()).expect("a few leases"))
    };
    let mut now = Moment(Duration::ZERO);
    let mut event = Event::Wake;
    loop {
        let decision = holder.decide(now, event);
        if let Some(Announcement::Ended { .. }) = decision.announce {
            return false;
        }
        if now.0 > LEASE * 2 {
            return holder.term().is_some();
        }
        let lost = (begin..begin + outage).contains(&now.0);
        let is_heartbeat = matches!(decision.act, Some(Act::Heartbeat { .. }));
        event = match decision.act {
            Some(act) => {
                // The term's begin is not what is asked about.
                let kind = Some(kind).filter(|_| lost && is_heartbeat);
                let (answer, after) = match (kind, &act) {
                    (Some(Outage::Silence), _) => (Answer::Unknown, timing.attempt_limit(&act)),
                    (Some(Outage::Refusal), _) => (Answer::NotApplied, LATENCY),
                    (None, Act::Observe) => {
                        let seen =
                            Observation { row: None, read_at: spanner(now), wait: Duration::ZERO };
                        (Answer::Observed(seen), LATENCY)
                    }
                    (None, _) => (Answer::Applied { at: spanner(now) }, LATENCY),
                };
                let answered = now + after;
                // The deadline doesn't wait for an answer.
                let woken = decision.wake.map(|wake| wake.at).filter(|wake| *wake < answered);
                now = woken.unwrap_or(answered);
                if woken.is_some() { Event::Wake } else { Event::Answer(answer) }
            }
            None => {
                let Wake { at, spread } = decision.wake.expect("a holder wakes again");
                now = at.max(now) + spread.mul_f64(jitter);
                Event::Wake
            }
        };
    }
}
