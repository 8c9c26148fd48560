//! One lock: a lane for it and one for each worker, a colour for each term.

use super::frame::{LEFT, RIGHT, WIDTH};
use super::marks;
use super::run::Run;
use super::strip::Strip;
use crate::checker::Term;
use crate::history::{Event, Outcome};

const LANE: f64 = 34.0;

pub fn height(run: &Run) -> f64 {
    (run.workers.len() + 2) as f64 * LANE
}

pub fn draw(strip: &Strip) -> String {
    let workers = &strip.run.workers;
    let y = |lane: usize| strip.top + lane as f64 * LANE;
    // All terms in one lane: were two drawn over each other, I1 would be broken.
    let mut lanes = terms(strip, |_| true, y(0)) + &strip.server(y(1), LANE);
    for (lane, who) in workers.iter().enumerate() {
        let y = y(lane + 2);
        lanes += &strip.alive(who, "alive", y + LANE / 2.0);
        lanes += &terms(strip, |term| term.who == **who, y);
        lanes += &strip.misfortunes(who, y, LANE);
        lanes += &late_writes(strip, who, y);
    }
    let mut svg = String::new();
    for lane in 0..=workers.len() + 2 {
        svg += &marks::line("grid", (LEFT, y(lane)), (WIDTH - RIGHT, y(lane)));
    }
    svg += &strip.frame(&lanes);
    let names = ["lock", "server"].into_iter().chain(workers.iter().copied());
    for (lane, name) in names.enumerate() {
        let class = if lane == 0 { "ink name" } else { "dim" };
        svg += &strip.name(class, y(lane) + LANE / 2.0, name);
    }
    svg
}

fn terms(strip: &Strip, whose: impl Fn(&Term) -> bool, y: f64) -> String {
    let (run, mut svg) = (strip.run, String::new());
    for (_, term) in run.terms.iter().filter(|(_, term)| whose(term)) {
        let span = (run.second(term.begin), run.second(term.last));
        if strip.overlaps(span) {
            let number = run.tokens.partition_point(|token| *token <= term.token);
            let (x, to) = (strip.x(span.0), strip.x(span.1));
            let about = format!(
                "term {number}: {} under token {}, {:.2} s to {:.2} s",
                term.who, term.token, span.0, span.1
            );
            svg += &marks::term(number, &about, (x, y + 5.0), (to - x, LANE - 10.0));
        }
    }
    svg
}

/// Draws what the plain file took too late, and what Spanner refused.
fn late_writes(strip: &Strip, who: &str, y: f64) -> String {
    let (run, mut svg) = (strip.run, String::new());
    for line in run.late.iter().filter(|line| line.worker == who) {
        svg += &marks::late(strip.x(run.second(line.at)), y + LANE - 4.0);
    }
    for record in run.records.iter().filter(|record| record.who == who) {
        if matches!(record.event, Event::Outcome { outcome: Outcome::Fenced, .. }) {
            svg += &marks::refused(strip.x(run.second(record.at)), y + 8.0);
        }
    }
    svg
}
