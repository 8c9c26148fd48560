//! The uses among the modules of a crate, and the circles in them.

use std::collections::{BTreeMap, BTreeSet};

use crate::modules::{Module, Place};

/// The modules that each module uses. A re-export is not a use: a façade depends on nobody.
pub type Graph = BTreeMap<Place, BTreeSet<Place>>;

pub fn uses(modules: &BTreeMap<Place, Module>) -> Graph {
    modules
        .iter()
        .map(|(place, module)| {
            let used = module.paths.iter().filter_map(|path| resolve(modules, place, path, 0));
            (place.clone(), used.filter(|used| used != place).collect())
        })
        .collect()
}

/// The module that defines what `path` names in `place`; none if it is another crate's.
fn resolve(
    modules: &BTreeMap<Place, Module>,
    place: &Place,
    path: &[String],
    depth: usize,
) -> Option<Place> {
    // Long enough for any chain of re-exports, and an end for imports that name each other.
    if depth > 8 {
        return None;
    }
    let (mut at, mut rest) = start(modules, place, path, depth)?;
    while let [segment, others @ ..] = rest {
        let child = [&at[..], std::slice::from_ref(segment)].concat();
        if modules.contains_key(&child) {
            (at, rest) = (child, others);
            continue;
        }
        let module = &modules[&at];
        if !module.items.contains(segment)
            && let Some(elsewhere) = module.imports.get(segment)
            && let Some(found) = resolve(modules, &at, elsewhere, depth + 1)
        {
            return Some(found);
        }
        break;
    }
    Some(at)
}

fn start<'a>(
    modules: &BTreeMap<Place, Module>,
    place: &Place,
    path: &'a [String],
    depth: usize,
) -> Option<(Place, &'a [String])> {
    let [first, rest @ ..] = path else { return None };
    match first.as_str() {
        "crate" => Some((Vec::new(), rest)),
        "self" => Some((place.clone(), rest)),
        "super" => {
            let mut at = place.clone();
            at.pop();
            let mut rest = rest;
            while rest.first().is_some_and(|segment| segment == "super") {
                at.pop();
                rest = &rest[1..];
            }
            Some((at, rest))
        }
        name => {
            let child = [&place[..], std::slice::from_ref(first)].concat();
            if modules.contains_key(&child) {
                return Some((child, rest));
            }
            let import =
                modules[place].imports.get(name).filter(|import| import[..] != path[..1])?;
            Some((resolve(modules, place, import, depth + 1)?, rest))
        }
    }
}

/// Groups of modules that use each other, directly or not; each with more than one member.
pub fn circles(graph: &Graph) -> Vec<Vec<Place>> {
    let reached: BTreeMap<&Place, BTreeSet<&Place>> =
        graph.keys().map(|place| (place, reach(graph, place))).collect();
    let mut circles: Vec<Vec<Place>> = Vec::new();
    for place in graph.keys() {
        if circles.iter().any(|circle| circle.contains(place)) {
            continue;
        }
        let both =
            |other: &&Place| reached[place].contains(*other) && reached[*other].contains(place);
        let circle: Vec<Place> = graph.keys().filter(both).cloned().collect();
        if circle.len() > 1 {
            circles.push(circle);
        }
    }
    circles
}

fn reach<'a>(graph: &'a Graph, from: &'a Place) -> BTreeSet<&'a Place> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(place) = next.pop() {
        for used in graph.get(place).into_iter().flatten() {
            if reached.insert(used) {
                next.push(used);
            }
        }
    }
    reached
}
