//! The layers of each crate, and the rule that a layer uses only those below it.

use std::collections::BTreeSet;
use std::path::Path;

use crate::graph::{self, Graph};
use crate::modules::{self, Place};

/// A crate that is checked, by its root.
struct Crate {
    root: &'static str,
    /// From the lowest to the highest. Without any, its modules are only kept free of circles.
    layers: &'static [Layer],
}

/// A module at the top of a crate, with all that is below it in the tree.
struct Layer {
    name: &'static str,
    /// Its duty, told to a person who breaks the rule.
    duty: &'static str,
}

const fn layer(name: &'static str, duty: &'static str) -> Layer {
    Layer { name, duty }
}

const CRATES: &[Crate] = &[
    Crate {
        root: "src/lib.rs",
        layers: &[
            layer("token", "a fencing token is a number; it knows nothing of who made it"),
            layer("term_end", "how a term ends is a word for all layers above"),
            layer("error", "every layer may fail, so errors know no layer but tokens and losses"),
            layer("token_text", "a token as text can be malformed, which is an error"),
            layer("clock", "a clock reads the machine, or the simulation's machine"),
            layer("chance", "chance is the system's, or the simulation's"),
            layer("outcome", "how an act ended is told by whoever carries it out"),
            layer("names", "names are checked before anything is sent"),
            layer("batch", "a batcher bundles acts for any store; it must not know Spanner"),
            layer("spanner", "requests to Spanner know rows and columns, but no instance"),
            layer("status", "the loop writes the status and handles read it; it decides nothing"),
            layer("membership", "the rows of a group are read and deleted without an instance"),
            layer("settings", "settings are checked before there is an instance"),
            layer("driver", "the loop acts for an instance and knows no handle to it"),
            layer(
                "rank",
                "a ranked contender is a loop that asks for its turn beside another loop",
            ),
            layer("fence", "a fence needs a term and a transaction, but no loop"),
            layer("spindle", "an instance starts a loop; the ways to hold are built on it"),
            layer("hold", "guards, tasks and jobs hold by an instance's loop"),
            layer("operate", "operator calls need a table and no instance that runs"),
            layer("fleet", "shares of work are divided by locks, as a user of the library would"),
            layer("simulation", "the simulation looks into every layer, and none looks back"),
        ],
    },
    Crate { root: "crates/protocol/src/lib.rs", layers: &[] },
    Crate { root: "verify/model/src/lib.rs", layers: &[] },
    Crate { root: "crates/emulator/src/lib.rs", layers: &[] },
    Crate { root: "crates/cli/src/main.rs", layers: &[] },
    Crate { root: "verify/chaos/src/main.rs", layers: &[] },
    Crate { root: "verify/tidy/src/main.rs", layers: &[] },
    Crate { root: "verify/simulation/src/lib.rs", layers: &[] },
    Crate { root: "verify/mutants/src/main.rs", layers: &[] },
    Crate { root: "verify/proof/src/main.rs", layers: &[] },
];

pub fn check(show_edges: bool) -> Result<String, String> {
    let mut wrong = Vec::new();
    let mut said = Vec::new();
    for Crate { root, layers } in CRATES {
        let modules = modules::load(Path::new(root))?;
        let graph = graph::uses(&modules);
        if show_edges {
            said.extend(edges(root, &graph));
        }
        let circles = graph::circles(&graph);
        wrong.extend(circles.iter().map(|circle| {
            let names: Vec<String> = circle.iter().map(name).collect();
            format!("{root}: {} modules in a circle: {}", names.len(), names.join(", "))
        }));
        wrong.extend(out_of_order(layers, &graph).into_iter().map(|it| format!("{root}: {it}")));
        let beside = modules.iter().filter(|(_, module)| module.is_beside_its_folder);
        wrong.extend(beside.map(|(place, _)| {
            format!("{root}: {0}.rs has children; its file is {0}/mod.rs", place.join("/"))
        }));
        let uses: usize = graph.values().map(BTreeSet::len).sum();
        said.push(format!("{root}: modules={} uses={uses} circles={}", graph.len(), circles.len()));
    }
    if wrong.is_empty() { Ok(said.join("\n")) } else { Err([said, wrong].concat().join("\n")) }
}

/// Lists the users of layers that are not below their own, and modules that are in no layer.
fn out_of_order(layers: &[Layer], graph: &Graph) -> Vec<String> {
    let height = |place: &Place| {
        let top = place.first()?;
        layers.iter().position(|layer| layer.name == top)
    };
    let mut wrong = Vec::new();
    if layers.is_empty() {
        return wrong;
    }
    for (place, used) in graph {
        if place.is_empty() {
            continue;
        }
        let Some(own) = height(place) else {
            wrong.push(format!(
                "{} is in no layer; verify/tidy/src/layers.rs lists them",
                name(place)
            ));
            continue;
        };
        for other in used {
            let is_below = height(other).is_some_and(|other| other <= own);
            if !is_below {
                let Layer { name: layer, duty } = &layers[own];
                wrong.push(format!(
                    "{} uses {}, which is not below `{layer}`: {duty}",
                    name(place),
                    name(other)
                ));
            }
        }
    }
    wrong
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

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &str) -> Place {
        path.split("::").map(str::to_string).collect()
    }

    fn graph(uses: &[(&str, &[&str])]) -> Graph {
        let used = |used: &[&str]| used.iter().map(|used| place(used)).collect();
        uses.iter().map(|(user, others)| (place(user), used(others))).collect()
    }

    const LAYERS: &[Layer] = &[layer("low", "it is for all"), layer("high", "it is for few")];

    #[test]
    fn a_room_that_uses_one_above_it_is_told_why_it_must_not() {
        let right = graph(&[("low", &[]), ("high::a", &["low", "high::b"]), ("high::b", &[])]);
        assert!(out_of_order(LAYERS, &right).is_empty());
        let wrong = graph(&[("low::x", &["high::b"]), ("high::b", &[])]);
        let told = out_of_order(LAYERS, &wrong);
        let expected = "low::x uses high::b, which is not below `low`: it is for all";
        assert_eq!(told, [expected]);
    }

    #[test]
    fn a_module_that_no_room_is_named_for_is_told() {
        assert!(out_of_order(LAYERS, &graph(&[("new", &[])]))[0].contains("new is in no layer"));
        let to_the_root = graph(&[("low", &["new"]), ("new", &[])]);
        assert_eq!(out_of_order(LAYERS, &to_the_root).len(), 2);
    }

    #[test]
    fn modules_that_use_each_other_by_way_of_a_third_are_a_circle() {
        let uses = graph(&[("a", &["b"]), ("b", &["c"]), ("c", &["a"]), ("d", &["a"])]);
        assert_eq!(graph::circles(&uses), [[place("a"), place("b"), place("c")]]);
    }
}
