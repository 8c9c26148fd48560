//! A run as a picture: who held when, and what was done to whom.

mod lanes;
mod legend;
mod marks;
mod run;
mod strip;

use svg::Document;
use svg::node::element::Group;

use crate::checks::Evidence;
use crate::history::{Failure, FaultKind};
use crate::setup::Target;
use lanes::Lane;
use run::Run;
use strip::{AXIS, LEFT, STRIP_SECONDS, Strip, TOP, WIDTH};

/// Draws a run as an SVG that suits light and dark pages.
pub fn draw(evidence: &Evidence) -> Result<Document, Failure> {
    let run = Run::of(evidence)?;
    let (name, legend) = match evidence.target() {
        Target::One => ("Who held the lock", legend::ONE),
        Target::Agents => ("Who held the lock, through agents", legend::ONE),
        Target::Sides { .. } => ("Who read and who wrote", legend::SIDES),
        Target::Locks(_) => ("Who held which lock", legend::MANY),
        Target::Shards(_) | Target::Deploys { .. } => ("Who worked which shard", legend::MANY),
    };
    Ok(page(&run, name, &legend, &lanes::all(&run)))
}

fn page(run: &Run, name: &str, legend: &[legend::Row], lanes: &[Lane]) -> Document {
    let strips = (run.seconds() / STRIP_SECONDS).ceil().max(1.0) as usize;
    let length = run.seconds() / strips as f64;
    let lanes_height: f64 = lanes.iter().map(|lane| lane.height).sum();
    let strip_height = lanes_height + AXIS;
    let height = TOP + strips as f64 * strip_height + legend::height(legend);
    let mut page = marks::page(WIDTH, height, name).add(title(run, name));
    for number in 0..strips {
        let from = number as f64 * length;
        let top = TOP + number as f64 * strip_height;
        let to = from + length;
        let strip = Strip { run, from, to, top, height: lanes_height, number };
        page = page.add(lanes::draw(&strip, lanes));
    }
    page.add(legend::draw(legend, TOP + strips as f64 * strip_height + 6.0))
}

fn title(run: &Run, name: &str) -> Group {
    let line = format!(
        "{:.0} seconds, {} terms, {} kills, {} stops, {} cut, slow or lossy lines, {} server restarts; \
         late writes taken by the plain file: {}, by Spanner: {}",
        run.seconds(),
        run.terms.len(),
        run.count(FaultKind::Kill),
        run.count(FaultKind::Stop),
        run.count(FaultKind::Cut),
        run.count(FaultKind::Restart),
        run.late.len(),
        run.late_accepted,
    );
    Group::new().add(marks::text("ink title", (LEFT, 28.0), name)).add(marks::text(
        "dim",
        (LEFT, 50.0),
        &line,
    ))
}
