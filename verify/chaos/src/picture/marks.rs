//! The shapes and the colours of the picture.

use std::fmt::Write as _;

use svg::Document;
use svg::node::element::{
    Circle, Definitions, Group, Line, Path, Pattern, Rectangle, Style, Text, Title,
};

/// Light by default, dark where the reader's page is.
const STYLE: &str = "
text { font: 13px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif }
.title { font-size: 20px; font-weight: 600 } .small { font-size: 11px } .name { font-weight: 600 }
.number { font-size: 11px; font-weight: 600; fill: #ffffff; text-anchor: middle }
.page { fill: #ffffff } .ink { fill: #1f2328 } .dim { fill: #59636e }
.grid { stroke: #d1d9e0; stroke-width: 0.6 }
.alive { stroke: #afb8c1; stroke-width: 2 }
.hatch-page { fill: #ffffff; fill-opacity: 0.55 } .hatch { stroke: #424a53; stroke-width: 1.6 }
.stop { fill: url(#hatch); stroke: #424a53; stroke-width: 0.8 }
.cut { fill: #cf222e } .silence { fill: #218bff } .slow { fill: #d4a72c }
.outage { fill: #cf222e } .outage-shade { fill: #cf222e; fill-opacity: 0.10 }
.lossy { fill: #bf8700 }
.restart { stroke: #cf222e; stroke-width: 1; stroke-dasharray: 3 3; fill: none }
.restart-mark { stroke: #cf222e; stroke-width: 2; fill: none }
.edits { fill: #8250df; fill-opacity: 0.09 } .recovery { fill: #1a7f37; fill-opacity: 0.09 }
.hand { stroke: #8250df; stroke-width: 0.8; stroke-dasharray: 2 3 }
.delete { fill: #8250df; stroke: #8250df; stroke-width: 1.5 }
.edit { fill: #ffffff; stroke: #8250df; stroke-width: 1.5 }
.halo { stroke: #ffffff; stroke-width: 6; stroke-linecap: round }
.kill { stroke: #cf222e; stroke-width: 3; stroke-linecap: round }
.resign { fill: #0969da; stroke: #ffffff; stroke-width: 1 }
.late { fill: #cf222e; stroke: #ffffff; stroke-width: 1 }
.refused { fill: #ffffff; stroke: #1a7f37; stroke-width: 2 }
.refused-small { fill: #ffffff; stroke: #1f2328; stroke-width: 1.2 }
.reading { fill: #0969da; fill-opacity: 0.35 } .waits { fill: #bf8700 }
.life { stroke-width: 5; stroke-linecap: round }
@media (prefers-color-scheme: dark) {
.page { fill: #0d1117 } .ink { fill: #f0f6fc } .dim { fill: #9198a1 }
.grid { stroke: #2f363d }
.alive { stroke: #545d68 }
.hatch-page { fill: #0d1117 } .hatch { stroke: #c9d1d9 } .stop { stroke: #c9d1d9 }
.cut, .outage { fill: #f85149 } .silence { fill: #58a6ff } .slow { fill: #e3b341 }
.outage-shade { fill: #f85149; fill-opacity: 0.16 }
.lossy { fill: #d29922 } .reading { fill: #58a6ff } .waits { fill: #d29922 }
.restart, .restart-mark { stroke: #f85149 }
.edits { fill: #ab7df8; fill-opacity: 0.14 } .recovery { fill: #3fb950; fill-opacity: 0.12 }
.hand { stroke: #ab7df8 } .delete { fill: #ab7df8; stroke: #ab7df8 }
.edit { fill: #0d1117; stroke: #ab7df8 }
.halo { stroke: #0d1117 } .kill { stroke: #f85149 }
.resign { fill: #58a6ff; stroke: #0d1117 }
.late { fill: #f85149; stroke: #0d1117 } .refused { fill: #0d1117; stroke: #3fb950 }
}
";

/// More workers than these have no colour of their own.
const WORKERS: usize = 22;

/// An empty page of this size.
pub fn page(width: f64, height: f64, name: &str) -> Document {
    let mut style = STYLE.to_string();
    for number in 0..WORKERS {
        let colour = colour(number);
        let _ = writeln!(
            style,
            ".w{number} {{ fill: {colour} }} .life.w{number} {{ stroke: {colour} }}"
        );
    }
    let hatch = Pattern::new()
        .set("id", "hatch")
        .set("width", 6)
        .set("height", 6)
        .set("patternUnits", "userSpaceOnUse")
        .set("patternTransform", "rotate(45)")
        .add(rect("hatch-page", (0.0, 0.0), (6.0, 6.0)))
        .add(line("hatch", (0.0, 0.0), (0.0, 6.0)));
    Document::new()
        .set("viewBox", (0, 0, width, height))
        .set("width", width)
        .set("height", height)
        .set("role", "img")
        .set("aria-label", format!("{name}, and what was done to whom"))
        .add(Style::new(style))
        .add(Definitions::new().add(hatch))
        .add(rect("page", (0.0, 0.0), (width, height)).set("rx", 8))
}

/// Neighbours differ: each term is turned by the golden angle from the one before.
fn colour(number: usize) -> String {
    let hue = (205.0 + number as f64 * 137.508) % 360.0;
    // Yellow and green are bright: white digits need them darker.
    let lightness = if (40.0..190.0).contains(&hue) { 36 } else { 50 };
    format!("hsl({hue:.0}, 62%, {lightness}%)")
}

/// Tenths of a pixel are enough.
fn tenths(length: f64) -> f64 {
    (length * 10.0).round() / 10.0
}

pub fn term(number: usize, about: &str, (x, y): (f64, f64), (width, height): (f64, f64)) -> Group {
    let shape = rect("term", (x, y), (width.max(2.0), height))
        .set("rx", 3)
        .set("fill", colour(number))
        .add(Title::new(about));
    let middle = (x + width / 2.0, y + height / 2.0 + 4.0);
    let digits = (width > 18.0).then(|| text("number", middle, &number.to_string()));
    digits.into_iter().fold(Group::new().add(shape), Group::add)
}

pub fn text(class: &str, (x, y): (f64, f64), content: &str) -> Text {
    Text::new(content).set("x", tenths(x)).set("y", tenths(y)).set("class", class)
}

pub fn rect(class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) -> Rectangle {
    Rectangle::new()
        .set("x", tenths(x))
        .set("y", tenths(y))
        .set("width", tenths(width))
        .set("height", tenths(height))
        .set("class", class)
}

pub fn line(class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) -> Line {
    Line::new()
        .set("x1", tenths(x1))
        .set("y1", tenths(y1))
        .set("x2", tenths(x2))
        .set("y2", tenths(y2))
        .set("class", class)
}

fn circle(class: &str, (x, y): (f64, f64), radius: f64) -> Circle {
    Circle::new().set("cx", tenths(x)).set("cy", tenths(y)).set("r", radius).set("class", class)
}

/// A shape that begins at this place and goes on as told.
pub fn path(class: &str, (x, y): (f64, f64), rest: &str) -> Path {
    Path::new().set("d", format!("M{x:.1} {y:.1}{rest}")).set("class", class)
}

/// A kill.
pub fn cross(x: f64, y: f64) -> Group {
    ["halo", "kill"].into_iter().fold(Group::new(), |group, class| {
        group.add(line(class, (x - 6.0, y - 6.0), (x + 6.0, y + 6.0))).add(line(
            class,
            (x - 6.0, y + 6.0),
            (x + 6.0, y - 6.0),
        ))
    })
}

/// A request to let go: a flag from above.
pub fn resign(x: f64, y: f64) -> Path {
    path("resign", (x - 6.0, y), " h12 l-6 9 z")
}

/// A write that the plain file took too late.
pub fn late(x: f64, y: f64) -> Path {
    path("late", (x - 6.0, y), " h12 l-6 -10 z")
}

/// A write that Spanner refused.
pub fn refused(x: f64, y: f64) -> Circle {
    circle("refused", (x, y), 4.0)
}

/// The same, in a thin lane.
pub fn refused_small(x: f64, y: f64) -> Circle {
    circle("refused-small", (x, y), 2.4)
}

/// A hand at the row.
pub fn diamond(class: &str, x: f64, y: f64) -> Path {
    path(class, (x, y - 7.0), " l6 7 l-6 7 l-6 -7 z")
}

/// A restart of the server.
pub fn restart(x: f64, y: f64) -> Circle {
    circle("restart-mark", (x, y), 6.0)
}
