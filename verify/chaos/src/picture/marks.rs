//! The shapes and the colours of the picture.

use std::fmt::Write as _;

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

pub fn head(width: f64, height: f64, name: &str) -> String {
    let mut style = STYLE.to_string();
    for number in 0..WORKERS {
        let colour = colour(number);
        let _ = writeln!(
            style,
            ".w{number} {{ fill: {colour} }} .life.w{number} {{ stroke: {colour} }}"
        );
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{name}, and what was \
         done to whom\">\n<style>{style}</style>\n\
         <defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" class=\"hatch-page\"/>\
         <line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\" class=\"hatch\"/></pattern></defs>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" class=\"page\"/>\n"
    )
}

/// Neighbours differ: each term is turned by the golden angle from the one before.
fn colour(number: usize) -> String {
    let hue = (205.0 + number as f64 * 137.508) % 360.0;
    // Yellow and green are bright: white digits need them darker.
    let lightness = if (40.0..190.0).contains(&hue) { 36 } else { 50 };
    format!("hsl({hue:.0}, 62%, {lightness}%)")
}

pub fn term(number: usize, about: &str, (x, y): (f64, f64), (width, height): (f64, f64)) -> String {
    let mut svg = format!(
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\" rx=\"3\" \
         fill=\"{}\"><title>{about}</title></rect>\n",
        width.max(2.0),
        colour(number)
    );
    if width > 18.0 {
        svg += &format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" class=\"number\">{number}</text>\n",
            x + width / 2.0,
            y + height / 2.0 + 4.0
        );
    }
    svg
}

pub fn rect(class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) -> String {
    format!(
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
         class=\"{class}\"/>\n"
    )
}

pub fn line(class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) -> String {
    format!(
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>\n"
    )
}

/// A kill.
pub fn cross(x: f64, y: f64) -> String {
    let mut svg = String::new();
    for class in ["halo", "kill"] {
        svg += &line(class, (x - 6.0, y - 6.0), (x + 6.0, y + 6.0));
        svg += &line(class, (x - 6.0, y + 6.0), (x + 6.0, y - 6.0));
    }
    svg
}

/// A request to let go: a flag from above.
pub fn resign(x: f64, y: f64) -> String {
    format!("<path d=\"M{:.1} {y:.1} h12 l-6 9 z\" class=\"resign\"/>\n", x - 6.0)
}

/// A write that the plain file took too late.
pub fn late(x: f64, y: f64) -> String {
    format!("<path d=\"M{:.1} {y:.1} h12 l-6 -10 z\" class=\"late\"/>\n", x - 6.0)
}

/// A write that Spanner refused.
pub fn refused(x: f64, y: f64) -> String {
    format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" class=\"refused\"/>\n")
}

/// The same, in a thin lane.
pub fn refused_small(x: f64, y: f64) -> String {
    format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.4\" class=\"refused-small\"/>\n")
}

/// A hand at the row.
pub fn diamond(class: &str, x: f64, y: f64) -> String {
    format!("<path d=\"M{x:.1} {:.1} l6 7 l-6 7 l-6 -7 z\" class=\"{class}\"/>\n", y - 7.0)
}

/// A restart of the server.
pub fn restart(x: f64, y: f64) -> String {
    format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"6\" class=\"restart-mark\"/>\n")
}
