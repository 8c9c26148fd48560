//! The text by which a member tells the others how it shares.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::count::SHARDS_MAX;
use super::joins::declare_early;
use crate::Timestamp;

/// The first version of the plan that knows weights and costs.
const PLAN_BY_WEIGHT: u32 = 2;

/// The text in a member's row of the shards that it shares, such as
/// `shards 60 plan 2 weight 3 costs 0-9:5,17:8 early 1`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Declaration {
    /// The number of the shards.
    pub count: usize,
    /// The version of the plan that it knows.
    pub plan: u32,
    /// Its weight.
    pub weight: u32,
    /// The costs of the shards that don't cost 1.
    pub costs: BTreeMap<usize, u32>,
}

impl Declaration {
    /// Returns the declaration of a member of this version.
    pub fn new(count: usize, weight: u32, costs: BTreeMap<usize, u32>) -> Declaration {
        Declaration { count, plan: PLAN_BY_WEIGHT, weight, costs }
    }

    /// Reads the text, of this version or another; none if it is no declaration.
    pub fn read(text: &str) -> Option<Declaration> {
        let mut words = text.split(' ');
        let mut values = BTreeMap::new();
        while let (Some(name), Some(value)) = (words.next(), words.next()) {
            values.insert(name, value);
        }
        fn of<N: FromStr>(values: &BTreeMap<&str, &str>, name: &str) -> Option<N> {
            values.get(name)?.parse().ok()
        }
        let count = text.starts_with("shards ").then(|| of(&values, "shards"))??;
        let plan = of(&values, "plan").unwrap_or(1);
        let weight = of(&values, "weight").unwrap_or(1).max(1);
        let costs = values.get("costs").map(|text| read_costs(text, count)).unwrap_or_default();
        Some(Declaration { count, plan, weight, costs })
    }

    /// Returns the text, which also says how many lives of this id ended early.
    pub fn with_early(&self, early: u32) -> String {
        declare_early(&self.to_string(), early)
    }
}

impl fmt::Display for Declaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Declaration { count, plan, weight, costs } = self;
        write!(f, "shards {count} plan {plan}")?;
        if *weight != 1 {
            write!(f, " weight {weight}")?;
        }
        let mut ranges: Vec<(usize, usize, u32)> = Vec::new();
        for (shard, cost) in costs {
            match ranges.last_mut() {
                Some((_, last, of_last)) if *last + 1 == *shard && of_last == cost => {
                    *last = *shard
                }
                _ => ranges.push((*shard, *shard, *cost)),
            }
        }
        for (at, (first, last, cost)) in ranges.into_iter().enumerate() {
            f.write_str(if at == 0 { " costs " } else { "," })?;
            match last - first {
                0 => write!(f, "{first}:{cost}")?,
                _ => write!(f, "{first}-{last}:{cost}")?,
            }
        }
        Ok(())
    }
}

/// Reads the costs of shards below `count`, and below [`SHARDS_MAX`]: a damaged text takes no memory.
/// A part that can't be read says nothing.
fn read_costs(text: &str, count: usize) -> BTreeMap<usize, u32> {
    let count = count.min(SHARDS_MAX);
    let part = |part: &str| {
        let (shards, cost) = part.split_once(':')?;
        let (first, last) = shards.split_once('-').unwrap_or((shards, shards));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        Some((first..=last.min(count.checked_sub(1)?), cost.parse().ok()?))
    };
    let parts = text.split(',').filter_map(part);
    parts.flat_map(|(shards, cost)| shards.map(move |shard| (shard, cost))).collect()
}

/// Returns the costs by which all members plan, if they plan by weight. The member that came first
/// declares them; of several that came at once, the one with the least id.
///
/// They plan by weight if each of them knows how. One of a version that doesn't, or that has no room
/// to declare anything, plans as if all weights and costs were 1, and so do the others then.
pub fn agreed_costs<'d>(
    members: impl IntoIterator<Item = (Timestamp, &'d str, Option<&'d Declaration>)>,
) -> Option<&'d BTreeMap<usize, u32>> {
    let mut first: Option<(Timestamp, &str, &Declaration)> = None;
    for (since, id, declaration) in members {
        let declaration = declaration.filter(|it| it.plan >= PLAN_BY_WEIGHT)?;
        if first.is_none_or(|(oldest, least, _)| (since, id) < (oldest, least)) {
            first = Some((since, id, declaration));
        }
    }
    first.map(|(.., declaration)| &declaration.costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp(seconds * 1_000_000_000)
    }

    #[test]
    fn a_member_says_how_many_shards_it_shares_its_weight_and_their_costs() {
        let plain = Declaration::new(256, 1, BTreeMap::new());
        assert_eq!(plain.to_string(), "shards 256 plan 2");
        let costs = [(0, 5), (1, 5), (2, 5), (4, 5), (5, 7), (9, 2)];
        let full = Declaration::new(10, 3, BTreeMap::from(costs));
        assert_eq!(full.to_string(), "shards 10 plan 2 weight 3 costs 0-2:5,4:5,5:7,9:2");
        assert_eq!(full.with_early(2), format!("{full} early 2"));
        for declaration in [plain, full] {
            for early in [0, 3] {
                let text = declaration.with_early(early);
                assert_eq!(Declaration::read(&text), Some(declaration.clone()), "{text}");
            }
        }
    }

    #[test]
    fn what_another_version_says_is_read_as_far_as_it_is_known() {
        let read = |text| Declaration::read(text).unwrap();
        assert_eq!(
            read("shards 7 plan 1 early 2"),
            Declaration { plan: 1, ..Declaration::new(7, 1, BTreeMap::new()) }
        );
        assert_eq!(read("shards 7 plan 3 zones 4 weight 2 and more").weight, 2);
        let costs = read("shards 7 plan 2 weight x costs 1:2,3-9:4,2-1:8,x:1,5:y,99:3").costs;
        assert_eq!(costs, BTreeMap::from([(1, 2), (3, 4), (4, 4), (5, 4), (6, 4)]));
        assert_eq!(read("shards 0 plan 2 costs 0-18446744073709551615:2").costs, BTreeMap::new());
        assert_eq!(read("shards 20000 plan 2 costs 0-19999:2").costs.len(), SHARDS_MAX);
        for text in ["", "shards", "shards x", "weight 3 shards 7", "http://10.0.0.1"] {
            assert_eq!(Declaration::read(text), None, "{text}");
        }
    }

    #[test]
    fn members_plan_by_the_costs_of_the_first_and_by_none_beside_one_that_knows_no_weights() {
        let costs = |cost| Declaration::new(9, 1, BTreeMap::from([(0, cost)]));
        let (of_a, of_b) = (costs(2), costs(3));
        let old = Declaration { plan: 1, ..of_a.clone() };
        let a = (at(1), "a", Some(&of_a));
        let b = (at(2), "b", Some(&of_b));
        assert_eq!(agreed_costs([b, a]), Some(&of_a.costs));
        assert_eq!(agreed_costs([(at(1), "b", Some(&of_b)), a]), Some(&of_a.costs), "at once");
        assert_eq!(agreed_costs([b]), Some(&of_b.costs));
        for silent in [Some(&old), None] {
            assert_eq!(agreed_costs([a, b, (at(3), "c", silent)]), None);
        }
        assert_eq!(agreed_costs([]), None);
    }
}
