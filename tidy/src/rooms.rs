//! The rooms of each crate, and the rule that a room uses only those below it.

use std::path::Path;

use crate::graph::{self, Graph};
use crate::modules::{self, Place};

/// A crate that is checked, by its root.
const CRATES: &[&str] = &[
    "src/lib.rs",
    "protocol/src/lib.rs",
    "proof/src/lib.rs",
    "simulation/src/lib.rs",
    "emulator/src/lib.rs",
    "cli/src/main.rs",
];

pub fn check(show_edges: bool) -> Result<String, String> {
    let mut wrong = Vec::new();
    let mut said = Vec::new();
    for root in CRATES {
        let modules = modules::load(Path::new(root))?;
        let graph = graph::uses(&modules);
        if show_edges {
            said.extend(edges(root, &graph));
        }
        let circles = graph::circles(&graph);
        for circle in &circles {
            let names: Vec<String> = circle.iter().map(name).collect();
            wrong.push(format!(
                "{root}: {} modules in a circle: {}",
                names.len(),
                names.join(", ")
            ));
        }
        let uses: usize = graph.values().map(std::collections::BTreeSet::len).sum();
        said.push(format!("{root}: modules={} uses={uses} circles={}", graph.len(), circles.len()));
    }
    if wrong.is_empty() { Ok(said.join("\n")) } else { Err([said, wrong].concat().join("\n")) }
}

fn edges(root: &str, graph: &Graph) -> Vec<String> {
    let used = |place: &Place| {
        let names: Vec<String> = graph[place].iter().map(name).collect();
        names.join(" ")
    };
    graph.keys().map(|place| format!("{root}: {} -> {}", name(place), used(place))).collect()
}

fn name(place: &Place) -> String {
    if place.is_empty() { "(root)".to_string() } else { place.join("::") }
}
