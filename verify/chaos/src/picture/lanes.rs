//! The lanes of the picture: for the server, for each worker, and for each lock or a sample of many. A
//! term has the colour of its fencing token; that of one lock among many has its worker's.

use svg::Node as _;
use svg::node::element::Group;

use super::marks;
use super::run::Run;
use super::strip::{LEFT, RIGHT, Strip, WIDTH};
use crate::checks::Term;
use crate::history::{Event, Fault, Outcome};
use crate::setup::{Target, agent_of};

/// More lanes of locks than these can't be told apart.
const SAMPLE: usize = 64;
/// Of all lanes of many locks together.
const LOCKS_HEIGHT: f64 = 620.0;

/// One lane.
pub struct Lane<'a> {
    subject: Subject<'a>,
    pub height: f64,
    /// With its class.
    name: Option<(&'static str, String)>,
}

#[derive(Clone, Copy)]
enum Subject<'a> {
    Lock(usize),
    Server,
    Worker(&'a str),
    Gap,
}

/// Returns the lanes of a run, from top to bottom.
pub fn all<'a>(run: &Run<'a>) -> Vec<Lane<'a>> {
    let height = if run.is_of_many() { 24.0 } else { 34.0 };
    let worker_class = match run.target {
        _ if run.is_of_many() => "ink name",
        Target::Sides { .. } => "dim small",
        _ => "dim",
    };
    let server = Lane { subject: Subject::Server, height, name: named("dim", "server") };
    let workers = run.workers.iter().map(|who| Lane {
        subject: Subject::Worker(who),
        height,
        name: named(worker_class, &run.label(who)),
    });
    let others = std::iter::once(server).chain(workers);
    if run.is_of_many() {
        let gap = Lane { subject: Subject::Gap, height: 10.0, name: None };
        return others.chain([gap]).chain(of_many_locks(run.locks)).collect();
    }
    let names: &[&str] =
        if matches!(run.target, Target::Sides { .. }) { &["writer", "readers"] } else { &["lock"] };
    // All terms in one lane: were two drawn over each other, I1 would be broken.
    let locks = names.iter().enumerate().map(|(lock, name)| Lane {
        subject: Subject::Lock(lock),
        height,
        name: named("ink name", name),
    });
    locks.chain(others).collect()
}

/// Returns thin lanes for locks at even distances, every fourth of which has a name.
fn of_many_locks<'a>(locks: usize) -> impl Iterator<Item = Lane<'a>> {
    let step = locks.div_ceil(SAMPLE);
    let height = (LOCKS_HEIGHT / locks.div_ceil(step) as f64).clamp(9.0, 20.0);
    (0..locks).step_by(step).enumerate().map(move |(place, lock)| Lane {
        subject: Subject::Lock(lock),
        height,
        name: named("dim small", &lock.to_string()).filter(|_| place % 4 == 0),
    })
}

fn named(class: &'static str, name: &str) -> Option<(&'static str, String)> {
    Some((class, name.to_string()))
}

pub fn draw(strip: &Strip, lanes: &[Lane]) -> Group {
    let [mut behind, mut names, mut locks, mut server, mut workers] =
        [(); 5].map(|()| Group::new());
    let mut y = strip.top;
    for Lane { subject, height, name } in lanes {
        if let Some((class, name)) = name {
            names.append(strip.name(class, y + height / 2.0, name));
            behind.append(marks::line("grid", (LEFT, y), (WIDTH - RIGHT, y)));
        }
        match *subject {
            Subject::Lock(lock) => locks.append(lock_lane(strip, lock, y, *height)),
            Subject::Server => server.append(strip.server(y, *height)),
            Subject::Worker(who) => workers.append(worker_lane(strip, who, y, *height)),
            Subject::Gap => {}
        }
        y += height;
    }
    behind.append(marks::line("grid", (LEFT, y), (WIDTH - RIGHT, y)));
    // The server's troubles run through all lanes, so they are drawn over the terms.
    let drawn = Group::new().add(locks).add(server).add(workers);
    behind.add(strip.frame(drawn)).add(names)
}

fn lock_lane(strip: &Strip, lock: usize, y: f64, height: f64) -> Group {
    let run = strip.run;
    let mut group = terms(strip, |of, _| of == lock, y, height);
    let of_lock = run.records.iter().filter(|record| record.lock == Some(lock) && run.is_of_many());
    for record in of_lock.filter(|record| is_refused(&record.event)) {
        group.append(marks::refused_small(strip.x(run.second(record.at)), y + height / 2.0));
    }
    group
}

fn worker_lane(strip: &Strip, who: &str, y: f64, height: f64) -> Group {
    let run = strip.run;
    let middle = y + height / 2.0;
    let faults = [who, &agent_of(who)].map(|who| strip.misfortunes(who, y, height));
    let [faults, of_agent] = faults;
    if run.is_of_many() {
        let class = format!("life w{}", run.number(who).unwrap_or_default());
        return Group::new().add(strip.alive(who, &class, middle)).add(faults).add(of_agent);
    }
    Group::new()
        .add(strip.alive(who, "alive", middle))
        .add(waits(strip, who, middle))
        .add(terms(strip, |_, term| term.who == who, y, height))
        .add(faults)
        .add(of_agent)
        .add(late_writes(strip, who, y, height))
}

fn terms(strip: &Strip, whose: impl Fn(usize, &Term) -> bool, y: f64, height: f64) -> Group {
    let (run, mut group) = (strip.run, Group::new());
    for (lock, term) in run.terms.iter().filter(|(lock, term)| whose(*lock, term)) {
        let span = (run.second(term.begin), run.second(term.last));
        if !strip.overlaps(span) {
            continue;
        }
        let (x, width) = (strip.x(span.0), strip.x(span.1) - strip.x(span.0));
        let place = ((x, y + 5.0), (width, height - 10.0));
        if run.is_of_many() {
            let Some(number) = run.number(&term.who) else { continue };
            let (width, height) = (width.max(1.0), height - 1.5);
            let shape = format!("h{width:.1}v{height:.1}h-{width:.1}z");
            group.append(marks::path(&format!("w{number}"), (x, y), &shape));
        } else if run.target.excludes(*lock, *lock) {
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
    group
}

/// Draws how long this one waited to read or to write.
fn waits(strip: &Strip, who: &str, middle: f64) -> Group {
    let spans = strip.run.spans(
        |record| record.who == who && record.event == Event::Asks,
        |record| match &record.event {
            Event::Fault { fault: Fault::Kill, on } => on.as_deref() == Some(who),
            Event::Claim { .. } | Event::Exited => record.who == who,
            _ => false,
        },
    );
    strip.spans("waits", spans, middle - 3.0, 6.0)
}

/// Draws what the plain file took too late, and what Spanner refused.
fn late_writes(strip: &Strip, who: &str, y: f64, height: f64) -> Group {
    let (run, mut group) = (strip.run, Group::new());
    for line in run.late.iter().filter(|line| line.worker == who) {
        group.append(marks::late(strip.x(run.second(line.at)), y + height - 4.0));
    }
    let own = run.records.iter().filter(|record| record.who == who);
    for record in own.filter(|record| is_refused(&record.event)) {
        group.append(marks::refused(strip.x(run.second(record.at)), y + 8.0));
    }
    group
}

fn is_refused(event: &Event) -> bool {
    matches!(event, Event::Outcome { outcome: Outcome::Fenced, .. })
}
