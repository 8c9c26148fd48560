//! The meaning of the picture's marks.

use svg::Node;
use svg::node::element::Group;

use super::frame::LEFT;
use super::marks;

const ROW: f64 = 26.0;

/// Where each sample stands, and what it means.
pub type Row = &'static [(f64, Sample, &'static str)];

const LINES: Row = &[
    (0.0, Sample::Strip("cut"), "line cut"),
    (190.0, Sample::Strip("silence"), "line silent"),
    (430.0, Sample::Strip("slow"), "line slow"),
];
const SERVER: Row = &[
    (0.0, Sample::Span("outage"), "server away"),
    (190.0, Sample::Restart, "server restarted"),
    (430.0, Sample::Span("lossy"), "replies lost, commits late"),
    (640.0, Sample::Delete, "lock row deleted from outside"),
    (930.0, Sample::Edit, "lock row edited from outside"),
];

pub const ONE: [Row; 4] = [
    &[
        (0.0, Sample::Terms, "a term, numbered and coloured by its fencing token"),
        (430.0, Sample::Line, "the process is alive"),
        (640.0, Sample::Refused, "a late write that Spanner refused"),
        (930.0, Sample::Late, "a late write that the plain file took"),
    ],
    &[
        (0.0, Sample::Kill, "killed (SIGKILL)"),
        (190.0, Sample::Span("stop"), "stopped (SIGSTOP)"),
        (430.0, Sample::Resign, "asked to resign"),
    ],
    LINES,
    SERVER,
];

pub const SIDES: [Row; 4] = [
    &[
        (0.0, Sample::Terms, "a writer's term, coloured by its fencing token"),
        (430.0, Sample::Span("reading"), "somebody reads"),
        (640.0, Sample::Refused, "a late write that Spanner refused"),
        (930.0, Sample::Late, "a late write that the plain file took"),
    ],
    &[
        (0.0, Sample::Kill, "killed (SIGKILL)"),
        (190.0, Sample::Span("stop"), "stopped (SIGSTOP)"),
        (430.0, Sample::Resign, "asked to end its turn"),
        (640.0, Sample::Strip("waits"), "waits to read or to write"),
        (930.0, Sample::Line, "the process is alive"),
    ],
    LINES,
    SERVER,
];

pub const MANY: [Row; 4] = [
    &[
        (0.0, Sample::Workers, "a process that is alive, and its terms, in its colour"),
        (640.0, Sample::RefusedSmall, "a late write that Spanner refused"),
    ],
    &[
        (0.0, Sample::Kill, "killed (SIGKILL)"),
        (190.0, Sample::Span("stop"), "stopped (SIGSTOP)"),
        (430.0, Sample::Resign, "asked to resign, or to take part anew"),
    ],
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
            group.append(sample.draw(x, y));
            group.append(marks::text("dim", (x + 38.0, y + 5.0), text));
        }
    }
    group
}

pub enum Sample {
    Terms,
    Workers,
    RefusedSmall,
    Line,
    Kill,
    Resign,
    Late,
    Refused,
    Restart,
    Delete,
    Edit,
    Span(&'static str),
    Strip(&'static str),
}

impl Sample {
    fn draw(&self, x: f64, y: f64) -> Box<dyn Node> {
        let middle = x + 15.0;
        match self {
            Sample::Terms => Group::new()
                .add(marks::term(1, "a term", (x, y - 8.0), (14.0, 16.0)))
                .add(marks::term(2, "the next one", (x + 16.0, y - 8.0), (14.0, 16.0)))
                .into(),
            Sample::Workers => Group::new()
                .add(marks::line("life w0", (x, y), (x + 14.0, y)))
                .add(marks::rect("w1", (x + 16.0, y - 5.0), (14.0, 10.0)))
                .into(),
            Sample::RefusedSmall => marks::refused_small(middle, y).into(),
            Sample::Line => marks::line("alive", (x, y), (x + 30.0, y)).into(),
            Sample::Kill => marks::cross(middle, y).into(),
            Sample::Resign => marks::resign(middle, y - 4.0).into(),
            Sample::Late => marks::late(middle, y + 5.0).into(),
            Sample::Refused => marks::refused(middle, y).into(),
            Sample::Restart => marks::restart(middle, y).into(),
            Sample::Delete => marks::diamond("delete", middle, y).into(),
            Sample::Edit => marks::diamond("edit", middle, y).into(),
            Sample::Span(class) => marks::rect(class, (x, y - 8.0), (30.0, 16.0)).into(),
            Sample::Strip(class) => marks::rect(class, (x, y - 2.5), (30.0, 5.0)).into(),
        }
    }
}
