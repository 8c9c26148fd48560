//! When an instance gives up what Spanner doesn't answer.

use super::*;

#[test]
fn a_release_is_tried_for_no_longer_than_its_term_protects_the_row() {
    let timing = Timing { release_limit: LEASE * 10, ..Timing::from_lease(LEASE) };
    let mut instance = Instance::new("a", NONCE, timing, at(0));
    instance.decide(at(0), Event::Wake);
    instance.decide(at(0), observed(None, 0));
    instance.decide(at(5), applied(2));
    let mut decision = instance.decide(at(100), Event::Resign { next: Succession::Anyone });
    let mut last = at(0);
    let mut now = at(100);
    while now < at(0) + LEASE * 10 {
        if matches!(decision.act, Some(Act::Release { .. })) {
            last = now;
        }
        now = match decision.act {
            Some(_) => now + Duration::from_millis(1),
            None => decision.wake.expect("it goes on").at.max(now),
        };
        let event = if decision.act.is_some() { UNKNOWN } else { Event::Wake };
        decision = instance.decide(now, event);
    }
    assert!(at(500) < last && last < at(990), "{last:?}");
}
