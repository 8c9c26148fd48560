//! The keys that a condition leaves, so that a statement reads, and locks, no more than it must.
//!
//! These may be too many, never too few: the condition is evaluated on every row all the same.

use super::ast::Comparison;
use super::bounds::Bounds;
use super::eval::{Evaluated, Evaluation, Rows, Stop};
use super::functions::Code;
use super::plan::{Node, Scan, Use};
use crate::engine::{BoundIndex, Key, KeyColumn, KeyPart, KeyRange, Value};

/// The most separate keys that are looked up one by one.
const MAX_POINTS: usize = 100_000;

/// Returns ranges of keys, in order and apart from each other. They hold all rows of a scan that
/// can pass all `conditions`, in the table or in one of its indexes. The argument `is_known` says
/// of which slots the values are in `rows`.
pub fn ranges(
    (scan, index): (&Scan, Option<&BoundIndex>),
    conditions: &[&Node],
    is_known: &dyn Fn(usize) -> bool,
    evaluation: &Evaluation,
    rows: &Rows,
) -> Evaluated<Vec<KeyRange>> {
    let search = Search { scan, index, is_known, evaluation, rows };
    search.ranges(conditions).map(KeyRange::merged)
}

/// Returns true if no row passes all `conditions` that has NULL in this slot.
pub fn excludes_null(conditions: &[&Node], slot: usize) -> bool {
    conditions.iter().flat_map(|condition| condition.conjuncts()).any(|condition| match condition {
        Node::Not(operand) => match &**operand {
            Node::Is(operand, None) => is_column(operand, slot),
            // An array without elements doesn't have NULL in it either.
            Node::InArray(_) => false,
            Node::Among { values, or_null, .. } if values.is_empty() && !or_null => false,
            other => is_null_for(other, slot),
        },
        Node::Or(branches) => branches.iter().all(|branch| excludes_null(&[branch], slot)),
        other => is_null_for(other, slot),
    })
}

/// Returns true if a condition is NULL where this slot is, or FALSE.
fn is_null_for(condition: &Node, slot: usize) -> bool {
    match condition {
        Node::Compare(_, left, right) => is_column(left, slot) || is_column(right, slot),
        Node::In(operand, _) | Node::Among { operand, .. } => is_column(operand, slot),
        Node::InArray(pair) => is_column(&pair[0], slot),
        Node::Between(parts) => is_column(&parts[0], slot),
        Node::Apply(function, arguments) => {
            matches!(function.code, Code::Strict(_))
                && arguments.iter().any(|argument| is_column(argument, slot))
        }
        _ => false,
    }
}

/// Returns how much these ranges leave out: twice the number of parts of the key that each of them
/// fixes. It is one more if all of them are bounded behind that.
pub fn strength(ranges: &[KeyRange]) -> usize {
    let of_one = |range: &KeyRange| {
        let (start, end) = (&range.start.0, &range.end.0);
        let fixed = start.iter().zip(end).take_while(|(left, right)| left == right).count();
        let is_whole = start.len() == fixed && end.get(fixed) == Some(&KeyPart::End);
        2 * fixed + usize::from(!is_whole)
    };
    ranges.iter().map(of_one).min().unwrap_or(usize::MAX)
}

struct Search<'a> {
    scan: &'a Scan,
    index: Option<&'a BoundIndex>,
    is_known: &'a dyn Fn(usize) -> bool,
    evaluation: &'a Evaluation,
    rows: &'a Rows<'a>,
}

impl Search<'_> {
    fn ranges(&self, all: &[&Node]) -> Evaluated<Vec<KeyRange>> {
        let conditions: Vec<&Node> =
            all.iter().flat_map(|condition| condition.conjuncts()).collect();
        if let [Node::Or(branches)] = conditions.as_slice() {
            let mut ranges = Vec::new();
            for branch in branches {
                ranges.extend(self.ranges(&[branch])?);
                if ranges.len() > MAX_POINTS || ranges.contains(&KeyRange::all()) {
                    return Ok(vec![KeyRange::all()]);
                }
            }
            return Ok(ranges);
        }
        let table = self.index.map_or(&*self.scan.table, |index| &index.entries);
        let mut prefixes = vec![Key::default()];
        for part in &table.primary_key {
            // A column that isn't read restricts nothing.
            let Some(slot) = self.slot(part) else { break };
            match self.points(&conditions, slot)? {
                Some(points) if prefixes.len() * points.len() <= MAX_POINTS => {
                    prefixes = extended(prefixes, part, &points);
                }
                _ => {
                    let bounds = self.bounds(&conditions, slot)?;
                    if bounds.empty {
                        return Ok(Vec::new());
                    }
                    if bounds.found {
                        let ranges = prefixes.into_iter();
                        return Ok(ranges.map(|prefix| range(prefix, part, &bounds)).collect());
                    }
                    break;
                }
            }
        }
        Ok(prefixes.into_iter().map(KeyRange::prefix).collect())
    }

    /// The slot of a column of the key.
    fn slot(&self, part: &KeyColumn) -> Option<usize> {
        match self.index {
            Some(index) => self.scan.slot_in(index, part.position),
            None => self.scan.slot(part.position),
        }
    }

    /// The values that these conditions leave for a column, if they name them.
    fn points(&self, conditions: &[&Node], index: usize) -> Evaluated<Option<Vec<Value>>> {
        for condition in conditions {
            let points = match condition {
                Node::Compare(Comparison::Equal, left, right) => {
                    let equal = self.sides(index, Comparison::Equal, left, right)?;
                    equal.map(|(_, value)| vec![value])
                }
                Node::In(operand, list) if is_column(operand, index) => {
                    let values: Evaluated<Option<Vec<Value>>> =
                        list.iter().map(|candidate| self.constant(candidate)).collect();
                    values?
                }
                Node::Among { operand, values, .. } if is_column(operand, index) => {
                    Some(Vec::clone(values))
                }
                Node::InArray(pair) if is_column(&pair[0], index) => {
                    self.constant(&pair[1])?.and_then(|array| match array {
                        Value::Array { values, .. } => Some(values),
                        _ => None,
                    })
                }
                Node::Subquery(Use::Contains(operand), subquery)
                    if is_column(operand, index)
                        && !subquery.arguments.iter().any(|node| self.depends_on_row(node)) =>
                {
                    let rows = self.evaluation.rows_of(subquery, false, self.rows)?;
                    Some(rows.iter().filter_map(|row| row.first().cloned()).collect())
                }
                Node::Is(operand, None) if is_column(operand, index) => {
                    return Ok(Some(vec![Value::Null]));
                }
                Node::Or(branches) => self.points_of_all(branches, index)?,
                _ => None,
            };
            if let Some(mut points) = points {
                // Nothing equals NULL.
                points.retain(|point| !point.is_null());
                points.sort();
                points.dedup();
                return Ok(Some(points));
            }
        }
        Ok(None)
    }

    fn points_of_all(&self, branches: &[Node], index: usize) -> Evaluated<Option<Vec<Value>>> {
        let mut all = Vec::new();
        for branch in branches {
            let conditions: Vec<&Node> = branch.conjuncts().iter().collect();
            match self.points(&conditions, index)? {
                // NULL is a point only on its own.
                Some(points) if !points.contains(&Value::Null) => all.extend(points),
                _ => return Ok(None),
            }
        }
        Ok(Some(all))
    }

    fn bounds(&self, conditions: &[&Node], index: usize) -> Evaluated<Bounds> {
        let mut bounds = Bounds::default();
        for condition in conditions {
            match condition {
                Node::Compare(comparison, left, right) => {
                    if let Some((comparison, value)) =
                        self.sides(index, *comparison, left, right)?
                    {
                        bounds.restrict(comparison, value);
                    }
                }
                Node::Between(parts) if is_column(&parts[0], index) => {
                    if let Some(low) = self.constant(&parts[1])? {
                        bounds.restrict(Comparison::GreaterOrEqual, low);
                    }
                    if let Some(high) = self.constant(&parts[2])? {
                        bounds.restrict(Comparison::LessOrEqual, high);
                    }
                }
                Node::Apply(function, arguments)
                    if function.name == "STARTS_WITH" && is_column(&arguments[0], index) =>
                {
                    if let Some(prefix) = self.constant(&arguments[1])? {
                        bounds.restrict_to_prefix(prefix);
                    }
                }
                _ => {}
            }
        }
        Ok(bounds)
    }

    /// Returns what a comparison says of a column, if its other side doesn't depend on the row.
    fn sides(
        &self,
        index: usize,
        comparison: Comparison,
        left: &Node,
        right: &Node,
    ) -> Evaluated<Option<(Comparison, Value)>> {
        let (comparison, other) = if is_column(left, index) {
            (comparison, right)
        } else if is_column(right, index) {
            (comparison.mirrored(), left)
        } else {
            return Ok(None);
        };
        Ok(self.constant(other)?.map(|value| (comparison, value)))
    }

    fn constant(&self, node: &Node) -> Evaluated<Option<Value>> {
        if self.depends_on_row(node) {
            return Ok(None);
        }
        match self.evaluation.value(node, self.rows) {
            Ok(value) => Ok(Some(value)),
            // A later evaluation on the rows shows if this matters.
            Err(Stop::Failed(_)) => Ok(None),
            Err(missing) => Err(missing),
        }
    }

    /// Returns true if a node may have another value for another row.
    fn depends_on_row(&self, node: &Node) -> bool {
        node.is_unsteady()
            || node.any(&|node| matches!(node, Node::Column(slot) if !(self.is_known)(*slot)))
    }
}

/// Returns the keys with this prefix that have the next value within these bounds.
fn range(prefix: Key, part: &KeyColumn, bounds: &Bounds) -> KeyRange {
    let place = |value: &Value| with(prefix.clone(), part, value.clone());
    let (first, last) = match part.descending {
        false => (&bounds.low, &bounds.high),
        true => (&bounds.high, &bounds.low),
    };
    // NULL, which no comparison lets through, comes first, or last if descending.
    let start = match first {
        Some((value, true)) => place(value),
        Some((value, false)) => place(value).after(),
        None if part.descending => prefix.clone(),
        None => place(&Value::Null).after(),
    };
    let end = match last {
        Some((value, true)) => place(value).after(),
        Some((value, false)) => place(value),
        None if part.descending => place(&Value::Null),
        None => prefix.after(),
    };
    KeyRange { start, end }
}

/// Returns each prefix with each of these values behind it.
fn extended(mut prefixes: Vec<Key>, part: &KeyColumn, points: &[Value]) -> Vec<Key> {
    if let [point] = points {
        prefixes.iter_mut().for_each(|prefix| prefix.0.push(part.of(point.clone())));
        return prefixes;
    }
    let each =
        |prefix: Key| points.iter().map(move |point| with(prefix.clone(), part, point.clone()));
    prefixes.into_iter().flat_map(each).collect()
}

fn with(mut prefix: Key, part: &KeyColumn, value: Value) -> Key {
    prefix.0.push(part.of(value));
    prefix
}

fn is_column(node: &Node, wanted: usize) -> bool {
    matches!(node, Node::Column(slot) if *slot == wanted)
}
