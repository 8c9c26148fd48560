//! One lock: a lane for it, or for each of its sides, and one for each worker; a colour for each term,
//! or one for all that read.

use svg::Node as _;
use svg::node::element::Group;

use super::frame::{LEFT, RIGHT, WIDTH};
use super::marks;
use super::run::Run;
use super::strip::Strip;
use crate::checks::Term;
use crate::history::{Event, Fault, Outcome};
use crate::setup::{Target, agent_of};

const LANE: f64 = 34.0;

/// The lanes above those of the server and the workers.
fn locks(run: &Run) -> &'static [&'static str] {
    if matches!(run.target, Target::Sides { .. }) { &["writer", "readers"] } else { &["lock"] }
}

pub fn height(run: &Run) -> f64 {
    (run.workers.len() + locks(run).len() + 1) as f64 * LANE
}

pub fn draw(strip: &Strip) -> Group {
    let (workers, locks) = (&strip.run.workers, locks(strip.run));
    let y = |lane: usize| strip.top + lane as f64 * LANE;
    let mut lanes = Group::new();
    for lock in 0..locks.len() {
        // All terms in one lane: were two drawn over each other, I1 would be broken.
        lanes.append(terms(strip, |of, _| of == lock, y(lock)));
    }
    lanes.append(strip.server(y(locks.len()), LANE));
    for (lane, who) in workers.iter().enumerate() {
        let y = y(lane + locks.len() + 1);
        lanes.append(strip.alive(who, "alive", y + LANE / 2.0));
        lanes.append(waits(strip, who, y));
        lanes.append(terms(strip, |_, term| term.who == **who, y));
        lanes.append(strip.misfortunes(who, y, LANE));
        lanes.append(strip.misfortunes(&agent_of(who), y, LANE));
        lanes.append(late_writes(strip, who, y));
    }
    let names = locks.iter().chain(&["server"]).map(ToString::to_string);
    let names = names.chain(workers.iter().map(|who| strip.run.label(who)));
    let mut group = Group::new();
    for lane in 0..=workers.len() + locks.len() + 1 {
        group.append(marks::line("grid", (LEFT, y(lane)), (WIDTH - RIGHT, y(lane))));
    }
    group.append(strip.frame(lanes));
    for (lane, name) in names.enumerate() {
        let class = match (lane < locks.len(), strip.run.target) {
            (true, _) => "ink name",
            (false, Target::Sides { .. }) => "dim small",
            (false, _) => "dim",
        };
        group.append(strip.name(class, y(lane) + LANE / 2.0, &name));
    }
    group
}

fn terms(strip: &Strip, whose: impl Fn(usize, &Term) -> bool, y: f64) -> Group {
    let (run, mut group) = (strip.run, Group::new());
    for (lock, term) in run.terms.iter().filter(|(lock, term)| whose(*lock, term)) {
        let span = (run.second(term.begin), run.second(term.last));
        if strip.overlaps(span) {
            let (x, to) = (strip.x(span.0), strip.x(span.1));
            let place = ((x, y + 5.0), (to - x, LANE - 10.0));
            if run.target.excludes(*lock, *lock) {
                let number = run.tokens.partition_point(|token| *token <= term.token);
                let about = format!(
                    "term {number}: {} under token {}, {:.2} s to {:.2} s",
                    term.who, term.token, span.0, span.1
                );
                group.append(marks::term(number, &about, place.0, place.1));
            } else {
                // Many of them may be drawn over each other.
                group.append(marks::rect("reading", place.0, place.1));
            }
        }
    }
    group
}

/// Draws how long this one waited to read or to write.
fn waits(strip: &Strip, who: &str, y: f64) -> Group {
    let spans = strip.run.spans(
        |record| record.who == who && record.event == Event::Asks,
        |record| match &record.event {
            Event::Fault { fault: Fault::Kill, on } => on.as_deref() == Some(who),
            Event::Claim { .. } | Event::Exited => record.who == who,
            _ => false,
        },
    );
    let middle = y + LANE / 2.0 - 3.0;
    strip.spans("waits", spans, middle, 6.0)
}

/// Draws what the plain file took too late, and what Spanner refused.
fn late_writes(strip: &Strip, who: &str, y: f64) -> Group {
    let (run, mut group) = (strip.run, Group::new());
    for line in run.late.iter().filter(|line| line.worker == who) {
        group.append(marks::late(strip.x(run.second(line.at)), y + LANE - 4.0));
    }
    for record in run.records.iter().filter(|record| record.who == who) {
        if matches!(record.event, Event::Outcome { outcome: Outcome::Fenced, .. }) {
            group.append(marks::refused(strip.x(run.second(record.at)), y + 8.0));
        }
    }
    group
}
