//! The search for a walk without end in which somebody waits.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use petgraph::algo::{astar, kosaraju_scc};
use petgraph::graph::{DiGraph, EdgeReference, NodeIndex};
use petgraph::visit::{EdgeFiltered, EdgeRef as _};

use crate::run::{Failure, Report};

type Edge<'a, S> = EdgeReference<'a, S>;

/// Worlds without time: each of their members may act next.
pub(crate) trait Endless {
    /// One state of everything.
    type World: Clone + Eq + Hash;
    /// A step from one to the next.
    type Step: Copy + Debug + PartialEq;

    fn first(&self) -> Self::World;

    /// Returns the steps that may come next, and where each leads.
    fn steps(&self, world: &Self::World) -> Vec<(Self::Step, Self::World)>;

    fn members(&self) -> usize;

    /// Returns the member of whom it is the turn to act.
    fn actor(step: Self::Step) -> Option<usize>;

    /// Returns true if this member needs not act, in such a world.
    fn rests(&self, index: usize, world: &Self::World) -> bool;

    /// The steps of nobody that come in the end, wherever they go on being possible.
    fn certain(&self) -> Vec<Self::Step>;

    fn is_possible(&self, step: Self::Step, world: &Self::World) -> bool;
}

/// All worlds that can be reached, and the steps between them.
pub(crate) struct Worlds<'a, M: Endless> {
    model: &'a M,
    pub(crate) graph: DiGraph<M::World, M::Step>,
    /// How many steps each is from the start.
    pub(crate) depths: Vec<usize>,
}

/// The worlds by parts: within one, each can be reached from each.
struct Parts {
    of: Vec<Vec<NodeIndex>>,
    /// The part of each world.
    part: Vec<usize>,
}

impl<'a, M: Endless> Worlds<'a, M> {
    /// Finds all worlds, breadth first.
    pub(crate) fn explore(model: &'a M) -> Worlds<'a, M> {
        let mut graph = DiGraph::new();
        let first = model.first();
        let mut known = HashMap::from([(first.clone(), graph.add_node(first))]);
        let mut depths = vec![0];
        let mut at = 0;
        while at < graph.node_count() {
            let node = NodeIndex::new(at);
            for (step, world) in model.steps(&graph[node]) {
                let to = *known.entry(world).or_insert_with_key(|world| {
                    depths.push(depths[at] + 1);
                    graph.add_node(world.clone())
                });
                graph.add_edge(node, to, step);
            }
            at += 1;
        }
        Worlds { model, graph, depths }
    }

    /// Returns the report of a search that began then: what is broken, with the steps to it; and for each rule that is
    /// left out in turn, how that is called and if it was noticed.
    pub(crate) fn report(
        &self,
        name: &'static str,
        began: Instant,
        properties: Vec<(&'static str, Option<Vec<String>>)>,
        rules: Vec<(&'static str, bool)>,
    ) -> Report {
        let (invariants, noticed) = (properties.len(), rules.iter().filter(|rule| rule.1).count());
        let goals = (rules.len(), noticed);
        let broken = properties.into_iter().filter(|(_, steps)| steps.is_some());
        let unseen = rules.into_iter().filter(|rule| !rule.1).map(|(rule, _)| (rule, None));
        let failures: Vec<Failure> =
            broken.chain(unseen).map(|(property, steps)| Failure { property, steps }).collect();
        Report {
            name,
            transitions: self.graph.edge_count(),
            states: self.graph.node_count(),
            depth: self.depths.iter().copied().max().unwrap_or_default(),
            took: began.elapsed(),
            complete: failures.iter().all(|failure| failure.steps.is_none()),
            invariants,
            goals,
            failures,
        }
    }

    /// Returns the shortest way to where by such steps alone one can walk for ever though everybody acts,
    /// and a round that is walked there.
    pub(crate) fn goes_on(&self, is_such: impl Fn(M::Step) -> bool) -> Option<Vec<String>> {
        let parts = self.parts(&is_such);
        let stays = |edge: &Edge<'_, M::Step>| is_such(*edge.weight()) && parts.has(edge);
        self.walk(parts.of.iter().filter(|nodes| self.is_fair(nodes, &stays)), &stays)
    }

    /// Returns the shortest way to where by such steps alone one comes again and again from one world to
    /// another in this way.
    pub(crate) fn repeats(
        &self,
        is_such: impl Fn(M::Step) -> bool,
        comes: impl Fn(M::Step, &M::World) -> bool,
    ) -> Option<Vec<String>> {
        let parts = self.parts(&is_such);
        let stays = |edge: &Edge<'_, M::Step>| is_such(*edge.weight()) && parts.has(edge);
        let is_it = |edge: Edge<'_, M::Step>| {
            stays(&edge) && comes(*edge.weight(), &self.graph[edge.target()])
        };
        let has_it = |node: &NodeIndex| self.graph.edges(*node).any(is_it);
        self.walk(parts.of.iter().filter(|nodes| nodes.iter().any(has_it)), &stays)
    }

    /// Returns the parts in which one can walk for ever by such steps alone.
    fn parts(&self, is_such: impl Fn(M::Step) -> bool) -> Parts {
        let such =
            EdgeFiltered::from_fn(&self.graph, |edge: Edge<'_, M::Step>| is_such(*edge.weight()));
        let of = kosaraju_scc(&such);
        let mut part = vec![0; self.graph.node_count()];
        for (number, nodes) in of.iter().enumerate() {
            nodes.iter().for_each(|node| part[node.index()] = number);
        }
        Parts { of, part }
    }

    /// Returns true if everybody acts in this part or needs not, and what has to come does.
    fn is_fair(&self, nodes: &[NodeIndex], stays: &dyn Fn(&Edge<'_, M::Step>) -> bool) -> bool {
        let edges = || nodes.iter().flat_map(|node| self.graph.edges(*node)).filter(stays);
        let worlds = || nodes.iter().map(|node| &self.graph[*node]);
        let all_act = (0..self.model.members()).all(|index| {
            edges().any(|edge| M::actor(*edge.weight()) == Some(index))
                || worlds().any(|world| self.model.rests(index, world))
        });
        let comes = |step: M::Step| {
            edges().any(|edge| *edge.weight() == step)
                || worlds().any(|world| !self.model.is_possible(step, world))
        };
        all_act && self.model.certain().into_iter().all(comes)
    }

    /// Returns the way into the nearest of these parts, and one round in it in which everybody acts who
    /// does there; nothing if there is none.
    fn walk<'n>(
        &self,
        parts: impl Iterator<Item = &'n Vec<NodeIndex>>,
        stays: &dyn Fn(&Edge<'_, M::Step>) -> bool,
    ) -> Option<Vec<String>> {
        let start = *parts.flatten().min_by_key(|node| self.depths[node.index()])?;
        let (mut way, mut round) = (Vec::new(), Vec::new());
        self.go(NodeIndex::new(0), &mut way, &|_| true, |node| node == start);
        let mut at = start;
        for actor in 0..self.model.members() {
            let acts =
                |edge: &Edge<'_, M::Step>| stays(edge) && M::actor(*edge.weight()) == Some(actor);
            if round.iter().any(|step: &M::Step| M::actor(*step) == Some(actor)) {
                continue;
            }
            at = self
                .go(at, &mut round, stays, |node| self.graph.edges(node).any(|edge| acts(&edge)));
            if let Some(edge) = self.graph.edges(at).find(acts) {
                round.push(*edge.weight());
                at = edge.target();
            }
        }
        self.go(at, &mut round, stays, |node| node == start);
        let told = |steps: Vec<M::Step>| steps.into_iter().map(|step| format!("{step:?}"));
        Some(told(way).chain(["and for ever".into()]).chain(told(round)).collect())
    }

    /// Goes the shortest way, by such steps alone, to a world that is sought; nowhere if there is none.
    fn go(
        &self,
        from: NodeIndex,
        walk: &mut Vec<M::Step>,
        is_such: &dyn Fn(&Edge<'_, M::Step>) -> bool,
        is_sought: impl Fn(NodeIndex) -> bool,
    ) -> NodeIndex {
        let such = EdgeFiltered::from_fn(&self.graph, |edge: Edge<'_, M::Step>| is_such(&edge));
        let Some((_, nodes)) = astar(&such, from, is_sought, |_| 1, |_| 0) else { return from };
        for ends in nodes.windows(2) {
            let mut edges = self.graph.edges_connecting(ends[0], ends[1]);
            walk.extend(edges.find(is_such).map(|edge| *edge.weight()));
        }
        nodes.last().copied().unwrap_or(from)
    }
}

impl Parts {
    /// Returns true if the step stays in a part.
    fn has<S>(&self, edge: &Edge<'_, S>) -> bool {
        self.part[edge.source().index()] == self.part[edge.target().index()]
    }
}
