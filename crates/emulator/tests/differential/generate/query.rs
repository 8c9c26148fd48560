//! Queries.

use super::call::forms_giving;
use super::{COMPARABLE, Column, Generator, TYPES};
use crate::tree::Tree;

impl Generator {
    /// A query, of one column of a type if one is wanted, and the columns that it has.
    pub(super) fn query(&mut self, wanted: Option<&str>) -> (Tree, Vec<Column>) {
        let outer = self.columns.clone();
        let folds = std::mem::replace(&mut self.folds, false);
        let from = self.from();
        let filter = match self.random.percent(50) {
            true => Tree::node(" WHERE #", [self.expr("BOOL", 2)]).optional(),
            false => Tree::leaf(""),
        };
        let folds_rows = self.random.percent(30);
        self.folds = folds_rows;
        let count = if wanted.is_some() { 1 } else { self.random.below(3) + 1 };
        let mut outputs = Vec::new();
        let mut items = Vec::new();
        for place in 0..count {
            let kind = wanted.unwrap_or_else(|| self.kind()).to_owned();
            let tree = self.output(&kind, folds_rows);
            // Sometimes it is called like a column.
            let name = match wanted.is_none() && self.random.percent(5) && place == 0 {
                true => (*self.random.pick(&["a", "b", "u"])).to_owned(),
                false => self.alias(),
            };
            items.push(Tree::node("# AS #", [tree, Tree::leaf(name.clone())]));
            outputs.push(Column { name, kind });
        }
        self.folds = folds;
        let order = self.order(&outputs, folds_rows);
        self.columns = outer;
        let parts = [Tree::list(items, ", "), from, filter, order];
        (Tree::node("SELECT ####", parts), outputs)
    }

    fn order(&mut self, outputs: &[Column], folds_rows: bool) -> Tree {
        let can_order = outputs.iter().all(|column| {
            TYPES.iter().position(|kind| *kind == column.kind).is_some_and(|at| at < COMPARABLE)
        });
        if !can_order || self.random.percent(50) {
            return Tree::leaf("");
        }
        let mut items: Vec<String> = (1..=outputs.len()).map(|place| place.to_string()).collect();
        if self.random.percent(50) {
            items = outputs.iter().map(|column| column.name.clone()).collect();
        }
        for item in &mut items {
            if self.random.percent(40) {
                item.push_str(" DESC");
            }
        }
        let limit = match self.random.below(5) {
            4 => " LIMIT @two OFFSET @one".to_owned(),
            0 => format!(" LIMIT {}", self.random.below(4)),
            1 => format!(" LIMIT {} OFFSET {}", self.random.below(4), self.random.below(3)),
            _ => String::new(),
        };
        let rest = format!("{}{limit} /* ordered */", items.join(", "));
        if self.random.percent(30) {
            let kind = TYPES[self.random.below(COMPARABLE)];
            let first = self.output(kind, folds_rows);
            return Tree::node(&format!(" ORDER BY #, {rest}"), [first]).optional();
        }
        Tree::leaf(format!(" ORDER BY {rest}")).optional()
    }

    /// An expression of all rows or of each.
    fn output(&mut self, kind: &str, folds_rows: bool) -> Tree {
        if !folds_rows {
            return self.expr(kind, 2);
        }
        let hidden = std::mem::take(&mut self.columns);
        let tree = match self.random.percent(70) {
            true => {
                self.columns = hidden.clone();
                self.aggregate(kind)
            }
            false => self.expr(kind, 1),
        };
        self.columns = hidden;
        tree
    }

    fn aggregate(&mut self, kind: &str) -> Tree {
        let folds = std::mem::replace(&mut self.folds, false);
        let tree = match (kind, self.random.below(6)) {
            ("INT64", 0) => Tree::leaf("COUNT(*)"),
            _ => {
                let forms = forms_giving(kind, true);
                match forms.is_empty() {
                    true => Tree::node("MAX(#)", [self.expr(kind, 1)]),
                    false => {
                        let (name, parameters) = self.random.pick(&forms).clone();
                        let arguments = self.arguments(&parameters, kind, 1);
                        let distinct = if self.random.percent(15) { "DISTINCT " } else { "" };
                        Tree::node(&format!("{name}({distinct}#)"), arguments)
                    }
                }
            }
        };
        self.folds = folds;
        tree
    }

    fn from(&mut self) -> Tree {
        let first = self.table();
        let mut steps = vec![Tree::node(" FROM #", [first])];
        for _ in 0..self.random.below(3) {
            let step = match self.random.below(6) {
                0 => Tree::node(", #", [self.table()]),
                1 => Tree::node(" CROSS JOIN #", [self.table()]),
                kind => {
                    let join = if kind < 4 { "JOIN" } else { "LEFT JOIN" };
                    let table = self.table();
                    let on = self.join_condition();
                    Tree::node(&format!(" {join} # ON #"), [table, on])
                }
            };
            steps.push(step.optional());
        }
        let pattern = "#".repeat(steps.len());
        Tree::node(&pattern, steps)
    }

    fn join_condition(&mut self) -> Tree {
        let keys: Vec<Column> =
            self.columns.iter().filter(|column| column.kind == "INT64").cloned().collect();
        if keys.is_empty() || self.random.percent(30) {
            return self.expr("BOOL", 1);
        }
        let (left, right) =
            (self.random.pick(&keys).name.clone(), self.random.pick(&keys).name.clone());
        Tree::node("# = #", [Tree::leaf(left), Tree::leaf(right)])
    }

    fn table(&mut self) -> Tree {
        let alias = self.alias();
        if self.random.percent(12) && self.subqueries < 2 {
            self.subqueries += 1;
            let outer = std::mem::take(&mut self.columns);
            let (query, columns) = self.query(None);
            self.columns = outer;
            for Column { name, kind } in columns {
                self.columns.push(Column { name: format!("{alias}.{name}"), kind });
            }
            return Tree::node(&format!("(#) AS {alias}"), [query]);
        }
        let table = if self.random.percent(60) { "t" } else { "u" };
        // Sometimes a table is called like a column.
        let alias = if self.random.percent(5) { "b".to_owned() } else { alias };
        self.enter_table(table, &alias);
        Tree::leaf(format!("{table} AS {alias}"))
    }
}
