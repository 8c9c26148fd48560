//! Expressions.

use super::texts::{ODD_LITERALS, literals};
use super::{COMPARABLE, Column, Generator, TYPES};
use crate::tree::Tree;

const COMPARISONS: &[&str] = &["# = #", "# != #", "# <> #", "# < #", "# <= #", "# > #", "# >= #"];

impl Generator {
    /// An expression that is of this type, most of the time.
    pub(super) fn expr(&mut self, kind: &str, depth: usize) -> Tree {
        let kind = if self.random.percent(1) { self.kind() } else { kind };
        if depth == 0 || self.random.percent(25) {
            return self.leaf(kind);
        }
        let below = depth - 1;
        match self.random.below(20) {
            0..7 => self.call(kind, below),
            7..12 => self.operator(kind, below),
            12 => {
                let condition = self.expr("BOOL", below);
                let values = [self.expr(kind, below), self.expr(kind, below)];
                let [then, otherwise] = values;
                Tree::node("CASE WHEN # THEN # ELSE # END", [condition, then, otherwise])
            }
            13 => {
                let operand = self.kind();
                let parts = [
                    self.expr(operand, below),
                    self.expr(operand, below),
                    self.expr(kind, below),
                    self.expr(kind, below),
                ];
                Tree::node("CASE # WHEN # THEN # ELSE # END", parts)
            }
            14..17 => {
                let own = self.kind();
                let cast = if self.random.percent(50) { "CAST" } else { "SAFE_CAST" };
                Tree::node(&format!("{cast}(# AS {kind})"), [self.expr(own, below)])
            }
            17 => self.subquery(kind),
            _ => self.leaf(kind),
        }
    }

    fn subquery(&mut self, kind: &str) -> Tree {
        if self.subqueries >= 3 {
            return self.leaf(kind);
        }
        self.subqueries += 1;
        match kind {
            "BOOL" if self.random.percent(50) => Tree::node("EXISTS(#)", [self.query(None).0]),
            "BOOL" => {
                let own = TYPES[self.random.below(COMPARABLE)];
                let operand = self.expr(own, 1);
                let not = if self.random.percent(30) { " NOT" } else { "" };
                Tree::node(&format!("#{not} IN (#)"), [operand, self.query(Some(own)).0])
            }
            _ => Tree::node("(#)", [self.query(Some(kind)).0]),
        }
    }

    fn operator(&mut self, kind: &str, depth: usize) -> Tree {
        let comparable = TYPES[self.random.below(COMPARABLE)];
        match (kind, self.random.below(10)) {
            ("BOOL", 0..3) => {
                let pattern = *self.random.pick(COMPARISONS);
                let sides = [self.expr(comparable, depth), self.expr(comparable, depth)];
                Tree::node(&format!("({pattern})"), sides)
            }
            ("BOOL", 3) => {
                let pattern = *self.random.pick(&["(# AND #)", "(# OR #)"]);
                Tree::node(pattern, [self.expr("BOOL", depth), self.expr("BOOL", depth)])
            }
            ("BOOL", 4) => Tree::node("(NOT #)", [self.expr("BOOL", depth)]),
            ("BOOL", 5) => {
                let pattern = *self.random.pick(&["(# IS NULL)", "(# IS NOT NULL)"]);
                let own = self.kind();
                Tree::node(pattern, [self.expr(own, depth)])
            }
            ("BOOL", 6) => {
                let what = *self.random.pick(&["TRUE", "FALSE", "NOT TRUE", "NOT FALSE"]);
                Tree::node(&format!("(# IS {what})"), [self.expr("BOOL", depth)])
            }
            ("BOOL", 7) => {
                let parts = [(); 3].map(|()| self.expr(comparable, depth));
                let not = if self.random.percent(30) { "NOT " } else { "" };
                Tree::node(&format!("(# {not}BETWEEN # AND #)"), parts)
            }
            ("BOOL", 8) => {
                let parts = [(); 3].map(|()| self.expr(comparable, depth));
                let not = if self.random.percent(30) { "NOT " } else { "" };
                Tree::node(&format!("(# {not}IN (#, #))"), parts)
            }
            ("BOOL", _) => {
                let element = *self.random.pick(&["INT64", "STRING"]);
                let operand = self.expr(element, depth);
                let not = if self.random.percent(30) { "NOT " } else { "" };
                let array = self.expr(&format!("ARRAY<{element}>"), depth);
                Tree::node(&format!("(# {not}IN UNNEST(#))"), [operand, array])
            }
            ("INT64" | "FLOAT64" | "NUMERIC", place) => {
                let own = if self.random.percent(20) { "INT64" } else { kind };
                let pattern =
                    ["(# + #)", "(# - #)", "(# * #)", "(# / #)", "(-#)", "(+#)"][place % 6];
                Tree::node(pattern, [self.expr(own, depth), self.expr(kind, depth)])
            }
            ("STRING" | "BYTES" | "ARRAY<INT64>" | "ARRAY<STRING>", _) => {
                Tree::node("(# || #)", [self.expr(kind, depth), self.expr(kind, depth)])
            }
            _ => self.leaf(kind),
        }
    }

    pub(super) fn leaf(&mut self, kind: &str) -> Tree {
        let columns: Vec<&Column> =
            self.columns.iter().filter(|column| column.kind == kind).collect();
        if !columns.is_empty() && self.random.percent(50) {
            let name = columns[self.random.below(columns.len())].name.clone();
            return Tree::leaf(match self.random.below(40) {
                0 => name.to_uppercase(),
                1 => format!("`{}`", name.replace('.', "`.`")),
                _ => name,
            });
        }
        if self.random.percent(12)
            && let Some(parameter) = self.parameter(kind)
        {
            return parameter;
        }
        if self.random.percent(1) {
            return Tree::leaf(*self.random.pick(ODD_LITERALS));
        }
        if self.random.percent(4) {
            return Tree::leaf("NULL");
        }
        if self.random.percent(4) {
            return Tree::leaf(format!("CAST(NULL AS {kind})"));
        }
        Tree::leaf(*self.random.pick(literals(kind)))
    }
}
