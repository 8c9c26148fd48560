//! The search for a walk without end in which somebody waits.

use std::collections::HashMap;

use petgraph::algo::{astar, kosaraju_scc};
use petgraph::graph::{DiGraph, EdgeReference, NodeIndex};
use petgraph::visit::{EdgeFiltered, EdgeRef as _};

use super::LineModel;
use super::steps::Step;
use super::world::World;

type Edge<'a> = EdgeReference<'a, Step>;

/// All worlds that can be reached, and the steps between them.
pub(super) struct Worlds<'a> {
    model: &'a LineModel,
    pub(super) graph: DiGraph<World, Step>,
    /// How many steps each is from the start.
    pub(super) depths: Vec<usize>,
}

/// The worlds by parts: within one, each can be reached from each.
struct Parts {
    of: Vec<Vec<NodeIndex>>,
    /// The part of each world.
    part: Vec<usize>,
}

impl<'a> Worlds<'a> {
    /// Finds all worlds, breadth first.
    pub(super) fn explore(model: &'a LineModel) -> Worlds<'a> {
        let mut graph = DiGraph::new();
        let first = World::new(model);
        let mut known = HashMap::from([(first.clone(), graph.add_node(first))]);
        let mut depths = vec![0];
        let mut at = 0;
        while at < graph.node_count() {
            let node = NodeIndex::new(at);
            for (step, world) in graph[node].steps(model) {
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

    /// Returns the shortest way to where somebody waits for ever, and a round that is walked there.
    pub(super) fn starves(&self) -> Option<Vec<String>> {
        let who = self.model.served;
        let waits = |step: Step| match step {
            Step::Begins(it) => who.is_some_and(|who| who != it),
            // One that dies waits no more.
            Step::Dies(it) => who != Some(it),
            _ => true,
        };
        let parts = self.parts(waits);
        let stays = |edge: &Edge<'_>| waits(*edge.weight()) && parts.has(edge);
        self.walk(parts.of.iter().filter(|nodes| self.is_fair(nodes, &stays)), &stays)
    }

    /// Returns the shortest way to where releases leave the lock to the dead for ever, though nobody
    /// else dies.
    pub(super) fn promises_the_dead_again(&self) -> Option<Vec<String>> {
        let happens = |step: Step| !matches!(step, Step::Dies(_) | Step::Returns(_));
        let parts = self.parts(happens);
        let stays = |edge: &Edge<'_>| happens(*edge.weight()) && parts.has(edge);
        let leaves = |edge: Edge<'_>| {
            matches!(edge.weight(), Step::Releases(_))
                && stays(&edge)
                && self.graph[edge.target()].may_lapse()
        };
        let is_haunted = |node: &NodeIndex| self.graph.edges(*node).any(leaves);
        self.walk(parts.of.iter().filter(|nodes| nodes.iter().any(is_haunted)), &stays)
    }

    /// Returns the parts in which one can walk for ever by such steps alone.
    fn parts(&self, is_such: impl Fn(Step) -> bool) -> Parts {
        let such = EdgeFiltered::from_fn(&self.graph, |edge: Edge<'_>| is_such(*edge.weight()));
        let of = kosaraju_scc(&such);
        let mut part = vec![0; self.graph.node_count()];
        for (number, nodes) in of.iter().enumerate() {
            nodes.iter().for_each(|node| part[node.index()] = number);
        }
        Parts { of, part }
    }

    /// Returns true if whoever lives acts in this part, or is dead at times; and what has to come does.
    fn is_fair(&self, nodes: &[NodeIndex], stays: &dyn Fn(&Edge<'_>) -> bool) -> bool {
        let edges = || nodes.iter().flat_map(|node| self.graph.edges(*node)).filter(stays);
        let worlds = || nodes.iter().map(|node| &self.graph[*node]);
        let all_act = (0..self.model.members.len()).all(|index| {
            edges().any(|edge| edge.weight().actor() == Some(index))
                || (self.model.served != Some(index)
                    && worlds().any(|world| !world.contenders[index].is_alive))
        });
        let comes = |step: Step, may: fn(&World) -> bool| {
            edges().any(|edge| *edge.weight() == step) || worlds().any(|world| !may(world))
        };
        all_act
            && comes(Step::MarksLate, |world| world.late.is_some())
            && comes(Step::Lapses, World::may_lapse)
            && comes(Step::RunsOut, World::may_run_out)
    }

    /// Returns the way into the nearest of these parts, and one round in it in which everybody acts who
    /// does there; nothing if there is none.
    fn walk<'n>(
        &self,
        parts: impl Iterator<Item = &'n Vec<NodeIndex>>,
        stays: &dyn Fn(&Edge<'_>) -> bool,
    ) -> Option<Vec<String>> {
        let start = *parts.flatten().min_by_key(|node| self.depths[node.index()])?;
        let (mut way, mut round) = (Vec::new(), Vec::new());
        self.go(NodeIndex::new(0), &mut way, &|_| true, |node| node == start);
        let mut at = start;
        for actor in 0..self.model.members.len() {
            let acts = |edge: &Edge<'_>| stays(edge) && edge.weight().actor() == Some(actor);
            if round.iter().any(|step: &Step| step.actor() == Some(actor)) {
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
        let told = |steps: Vec<Step>| steps.into_iter().map(|step| format!("{step:?}"));
        Some(told(way).chain(["and for ever".into()]).chain(told(round)).collect())
    }

    /// Goes the shortest way, by such steps alone, to a world that is sought; nowhere if there is none.
    fn go(
        &self,
        from: NodeIndex,
        walk: &mut Vec<Step>,
        is_such: &dyn Fn(&Edge<'_>) -> bool,
        is_sought: impl Fn(NodeIndex) -> bool,
    ) -> NodeIndex {
        let such = EdgeFiltered::from_fn(&self.graph, |edge: Edge<'_>| is_such(&edge));
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
    fn has(&self, edge: &Edge<'_>) -> bool {
        self.part[edge.source().index()] == self.part[edge.target().index()]
    }
}
