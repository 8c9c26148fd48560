//! The meaning of the picture's marks.

use svg::Node;
use svg::node::element::Group;

use super::marks;
use super::strip::LEFT;

const ROW: f64 = 26.0;

/// A mark, drawn at a place.
type Sample = fn(f64, f64) -> Box<dyn Node>;

/// Where each sample stands, and what it means.
pub type Row = &'static [(f64, Sample, &'static str)];

const KILLED: (f64, Sample, &str) =
    (0.0, |x, y| marks::cross(x + 15.0, y).into(), "killed (SIGKILL)");
const STOPPED: (f64, Sample, &str) = (190.0, |x, y| span("stop", x, y), "stopped (SIGSTOP)");
const RESIGN: Sample = |x, y| marks::resign(x + 15.0, y - 4.0).into();
const ALIVE: Sample = |x, y| marks::line("alive", (x, y), (x + 30.0, y)).into();
const REFUSED: (f64, Sample, &str) =
    (640.0, |x, y| marks::refused(x + 15.0, y).into(), "a late write that Spanner refused");
const LATE: (f64, Sample, &str) =
    (930.0, |x, y| marks::late(x + 15.0, y + 5.0).into(), "a late write that the plain file took");

const LINES: Row = &[
    (0.0, |x, y| strip("cut", x, y), "line cut"),
    (190.0, |x, y| strip("silence", x, y), "line silent"),
    (430.0, |x, y| strip("slow", x, y), "line slow"),
];
const SERVER: Row = &[
    (0.0, |x, y| span("outage", x, y), "server away"),
    (190.0, |x, y| marks::restart(x + 15.0, y).into(), "server restarted"),
    (430.0, |x, y| span("lossy", x, y), "replies lost, commits late"),
    (640.0, |x, y| marks::diamond("delete", x + 15.0, y).into(), "lock row deleted from outside"),
    (930.0, |x, y| marks::diamond("edit", x + 15.0, y).into(), "lock row edited from outside"),
];

pub const ONE: [Row; 4] = [
    &[
        (0.0, two_terms, "a term, numbered and coloured by its fencing token"),
        (430.0, ALIVE, "the process is alive"),
        REFUSED,
        LATE,
    ],
    &[KILLED, STOPPED, (430.0, RESIGN, "asked to resign")],
    LINES,
    SERVER,
];

pub const SIDES: [Row; 4] = [
    &[
        (0.0, two_terms, "a writer's term, coloured by its fencing token"),
        (430.0, |x, y| span("reading", x, y), "somebody reads"),
        REFUSED,
        LATE,
    ],
    &[
        KILLED,
        STOPPED,
        (430.0, RESIGN, "asked to end its turn"),
        (640.0, |x, y| strip("waits", x, y), "waits to read or to write"),
        (930.0, ALIVE, "the process is alive"),
    ],
    LINES,
    SERVER,
];

pub const MANY: [Row; 4] = [
    &[
        (0.0, two_workers, "a process that is alive, and its terms, in its colour"),
        (
            640.0,
            |x, y| marks::refused_small(x + 15.0, y).into(),
            "a late write that Spanner refused",
        ),
    ],
    &[KILLED, STOPPED, (430.0, RESIGN, "asked to resign, or to take part anew")],
    LINES,
    SERVER,
];

pub fn height(rows: &[Row]) -> f64 {
    rows.len() as f64 * ROW + 8.0
}

/// The legend, in rows below `top`.
pub fn draw(rows: &[Row], top: f64) -> Group {
    let mut group = Group::new();
    for (row, items) in rows.iter().enumerate() {
        let y = top + ROW * row as f64 + 8.0;
        for (x, sample, text) in *items {
            let x = LEFT + x;
            group.append(sample(x, y));
            group.append(marks::text("dim", (x + 38.0, y + 5.0), text));
        }
    }
    group
}

fn two_terms(x: f64, y: f64) -> Box<dyn Node> {
    Group::new()
        .add(marks::term(1, "a term", (x, y - 8.0), (14.0, 16.0)))
        .add(marks::term(2, "the next one", (x + 16.0, y - 8.0), (14.0, 16.0)))
        .into()
}

fn two_workers(x: f64, y: f64) -> Box<dyn Node> {
    Group::new()
        .add(marks::line("life w0", (x, y), (x + 14.0, y)))
        .add(marks::rect("w1", (x + 16.0, y - 5.0), (14.0, 10.0)))
        .into()
}

fn span(class: &str, x: f64, y: f64) -> Box<dyn Node> {
    marks::rect(class, (x, y - 8.0), (30.0, 16.0)).into()
}

fn strip(class: &str, x: f64, y: f64) -> Box<dyn Node> {
    marks::rect(class, (x, y - 2.5), (30.0, 5.0)).into()
}
