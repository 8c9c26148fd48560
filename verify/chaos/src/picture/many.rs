//! Many locks or shards: a thin lane for each of a sample of them, a colour for each worker.

use svg::Node as _;
use svg::node::element::Group;

use super::frame::{LEFT, RIGHT, WIDTH};
use super::marks;
use super::run::Run;
use super::strip::Strip;
use crate::history::{Event, Outcome};

/// Of the server and of each worker.
const LANE: f64 = 24.0;
/// More lanes than these can't be told apart.
const SAMPLE: usize = 64;
const LOCKS_HEIGHT: f64 = 620.0;
/// Between the workers and the locks.
const GAP: f64 = 10.0;

/// The locks that are drawn, at even distances.
fn sample(run: &Run) -> impl Iterator<Item = usize> {
    let step = run.locks.div_ceil(SAMPLE);
    (0..run.locks).step_by(step)
}

fn lock_lane(run: &Run) -> f64 {
    (LOCKS_HEIGHT / sample(run).count() as f64).clamp(9.0, 20.0)
}

fn above(run: &Run) -> f64 {
    (run.workers.len() + 1) as f64 * LANE + GAP
}

pub fn height(run: &Run) -> f64 {
    above(run) + sample(run).count() as f64 * lock_lane(run)
}

pub fn draw(strip: &Strip) -> Group {
    let run = strip.run;
    let lane = lock_lane(run);
    let mut names = Group::new().add(strip.name("dim", strip.top + LANE / 2.0, "server"));
    let mut behind = Group::new();
    let mut lanes = Group::new();
    for (place, lock) in sample(run).enumerate() {
        let y = strip.top + above(run) + place as f64 * lane;
        lanes.append(lock_terms(strip, lock, y, lane));
        if place % 4 == 0 {
            names.append(strip.name("dim small", y + lane / 2.0, &lock.to_string()));
            behind.append(marks::line("grid", (LEFT, y), (WIDTH - RIGHT, y)));
        }
    }
    // The server's troubles run through all lanes, so they are drawn over the terms.
    lanes.append(strip.server(strip.top, LANE));
    for (number, who) in run.workers.iter().enumerate() {
        let y = strip.top + (number + 1) as f64 * LANE;
        lanes.append(strip.alive(who, &format!("life w{number}"), y + LANE / 2.0));
        lanes.append(strip.misfortunes(who, y, LANE));
        names.append(strip.name("ink name", y + LANE / 2.0, who));
    }
    behind.add(strip.frame(lanes)).add(names)
}

fn lock_terms(strip: &Strip, lock: usize, y: f64, lane: f64) -> Group {
    let (run, mut group) = (strip.run, Group::new());
    for (_, term) in run.terms.iter().filter(|(of, _)| *of == lock) {
        let span = (run.second(term.begin), run.second(term.last));
        let number = run.workers.iter().position(|who| *who == term.who);
        if let Some(number) = number.filter(|_| strip.overlaps(span)) {
            let (x, to) = (strip.x(span.0), strip.x(span.1));
            let (width, height) = ((to - x).max(1.0), lane - 1.5);
            let shape = format!("h{width:.1}v{height:.1}h-{width:.1}z");
            group.append(marks::path(&format!("w{number}"), (x, y), &shape));
        }
    }
    for record in run.records.iter().filter(|record| record.lock == Some(lock)) {
        if matches!(record.event, Event::Outcome { outcome: Outcome::Fenced, .. }) {
            group.append(marks::refused_small(strip.x(run.second(record.at)), y + lane / 2.0));
        }
    }
    group
}
