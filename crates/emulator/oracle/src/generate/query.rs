//! Queries.

use super::call::forms_giving;
use super::{COMPARABLE, Column, Generator, TYPES};
use crate::tree::Tree;

impl Generator {
    pub(super) fn with(&mut self) -> Tree {
        let (first, columns) = self.query(None);
        // Sometimes its name hides a table.
        let name = match self.random.percent(30) {
            true => (*self.random.pick(&["t", "u"])).to_owned(),
            false => self.alias(),
        };
        self.columns.clear();
        let all = self.alias();
        for Column { name, kind } in &columns {
            self.columns.push(Column { name: format!("{all}.{name}"), kind: kind.clone() });
        }
        let other = match self.random.percent(50) {
            true => {
                let alias = self.alias();
                let own = columns.iter().map(|Column { name, kind }| Column {
                    name: format!("{alias}.{name}"),
                    kind: kind.clone(),
                });
                self.columns.extend(own);
                Tree::node(
                    " LEFT JOIN # ON #",
                    [Tree::leaf(format!("{name} AS {alias}")), self.expr("BOOL", 2)],
                )
                .optional()
            }
            false => Tree::leaf(""),
        };
        let filter = self.expr("BOOL", 2);
        Tree::node(
            &format!("WITH {name} AS (#) SELECT * FROM {name} AS {all}##"),
            [first, other, Tree::node(" WHERE #", [filter]).optional()],
        )
    }

    /// A query, of one column of a type if one is wanted, and the columns that it has.
    pub(super) fn query(&mut self, wanted: Option<&str>) -> (Tree, Vec<Column>) {
        let outer = self.columns.clone();
        let folds = std::mem::replace(&mut self.folds, false);
        let from = self.from();
        let filter = match self.random.percent(50) {
            true => Tree::node(" WHERE #", [self.expr("BOOL", 2)]).optional(),
            false => Tree::leaf(""),
        };
        let is_grouped = self.random.percent(30);
        let mut keys = Vec::new();
        let mut group = Tree::leaf("");
        if is_grouped {
            if self.random.percent(80) {
                keys = (0..self.random.below(2) + 1).map(|_| self.group_key()).collect();
                let keys = keys.iter().map(|(tree, _)| tree.clone()).collect();
                group = Tree::node(" GROUP BY #", [Tree::list(keys, ", ")]).optional();
            }
            self.folds = true;
        }
        let count = if wanted.is_some() { 1 } else { self.random.below(3) + 1 };
        let mut outputs = Vec::new();
        let mut items = Vec::new();
        for place in 0..count {
            let kind = wanted.unwrap_or_else(|| self.kind()).to_owned();
            let (tree, kind) = match keys.get(place).filter(|_| wanted.is_none()) {
                Some((tree, kind)) => (tree.clone(), kind.clone()),
                None => (self.output(&kind, is_grouped), kind),
            };
            // Sometimes it is called like a column.
            let name = match wanted.is_none() && self.random.percent(5) && place == 0 {
                true => (*self.random.pick(&["a", "b", "u"])).to_owned(),
                false => self.alias(),
            };
            items.push(Tree::node("# AS #", [tree, Tree::leaf(name.clone())]));
            outputs.push(Column { name, kind });
        }
        // A key may be named by its place or its name among the outputs.
        if wanted.is_none() && !keys.is_empty() && self.random.percent(25) {
            let place = self.random.below(keys.len().min(outputs.len()));
            let named = if self.random.percent(50) {
                (place + 1).to_string()
            } else {
                outputs[place].name.clone()
            };
            let mut named = vec![Tree::leaf(named)];
            let rest = keys.iter().enumerate().filter(|(at, _)| *at != place);
            named.extend(rest.map(|(_, (tree, _))| tree.clone()));
            group = Tree::node(" GROUP BY #", [Tree::list(named, ", ")]).optional();
        }
        let having = match is_grouped && self.random.percent(30) {
            true => Tree::node(" HAVING #", [self.output("BOOL", true)]).optional(),
            false => Tree::leaf(""),
        };
        self.folds = folds;
        let distinct = if self.random.percent(15) { "DISTINCT " } else { "" };
        let order = self.order(&outputs, is_grouped);
        self.columns = outer;
        let parts = [Tree::list(items, ", "), from, filter, group, having, order];
        (Tree::node(&format!("SELECT {distinct}#######"), parts), outputs)
    }

    fn order(&mut self, outputs: &[Column], is_grouped: bool) -> Tree {
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
            let first = self.output(kind, is_grouped);
            return Tree::node(&format!(" ORDER BY #, {rest}"), [first]).optional();
        }
        Tree::leaf(format!(" ORDER BY {rest}")).optional()
    }

    /// An expression of groups or of rows.
    fn output(&mut self, kind: &str, is_grouped: bool) -> Tree {
        if !is_grouped {
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
            ("STRING" | "BYTES", 0..3) => self.string_agg(kind),
            ("ARRAY<INT64>", _) => self.array_agg("INT64"),
            ("ARRAY<STRING>", _) => self.array_agg("STRING"),
            _ => {
                let forms = forms_giving(kind, true);
                match forms.is_empty() {
                    true => Tree::node("MAX(#)", [self.expr(kind, 1)]),
                    false => {
                        let (name, parameters) = self.random.pick(&forms).clone();
                        let arguments = self.arguments(&parameters, kind, 1);
                        let distinct = if self.random.percent(15) { "DISTINCT " } else { "" };
                        // The rest of an order would be any.
                        let name =
                            if name == "ANY_VALUE" || name == "STRING_AGG" { "MIN" } else { name };
                        let first = arguments.into_iter().take(1);
                        Tree::node(&format!("{name}({distinct}#)"), first)
                    }
                }
            }
        };
        self.folds = folds;
        tree
    }

    fn array_agg(&mut self, kind: &str) -> Tree {
        let (distinct, order) = self.of_many();
        let ignore = if self.random.percent(50) { " IGNORE NULLS" } else { "" };
        let operand = self.expr(kind, 1);
        Tree::node(
            &format!("ARRAY_AGG({distinct}#{ignore} ORDER BY #{order})"),
            [operand.clone(), operand],
        )
    }

    fn string_agg(&mut self, kind: &str) -> Tree {
        let (distinct, order) = self.of_many();
        let separator = match (self.random.below(3), kind) {
            (0, "STRING") => ", '-'",
            (0, _) => ", b'-'",
            _ => "",
        };
        let operand = self.expr(kind, 1);
        Tree::node(
            &format!("STRING_AGG({distinct}#{separator} ORDER BY #{order})"),
            [operand.clone(), operand],
        )
    }

    /// The words before the operand of an aggregate, and behind its order.
    fn of_many(&mut self) -> (&'static str, &'static str) {
        let distinct = if self.random.percent(5) { "DISTINCT " } else { "" };
        (distinct, *self.random.pick(&["", "", " DESC"]))
    }

    fn group_key(&mut self) -> (Tree, String) {
        let kind = TYPES[self.random.below(COMPARABLE)];
        let columns: Vec<Column> =
            self.columns.iter().filter(|column| column.kind == kind).cloned().collect();
        match columns.is_empty() || self.random.percent(30) {
            true => (self.expr(kind, 1), kind.to_owned()),
            false => (Tree::leaf(self.random.pick(&columns).name.clone()), kind.to_owned()),
        }
    }

    fn from(&mut self) -> Tree {
        let first = self.table();
        let mut steps = vec![Tree::node(" FROM #", [first])];
        for _ in 0..self.random.below(3) {
            let step = match self.random.below(8) {
                0 => Tree::node(", #", [self.table()]),
                1 => Tree::node(" CROSS JOIN #", [self.table()]),
                2 | 3 => {
                    let join = if self.random.percent(50) { "," } else { " LEFT JOIN" };
                    let array = self.expr("ARRAY<INT64>", 1);
                    let name = self.alias();
                    self.columns.push(Column { name: name.clone(), kind: "INT64".into() });
                    let mut place = String::new();
                    if self.random.percent(40) {
                        let name = self.alias();
                        place = format!(" WITH OFFSET AS {name}");
                        self.columns.push(Column { name, kind: "INT64".into() });
                    }
                    Tree::node(&format!("{join} UNNEST(#) AS {name}{place}"), [array])
                }
                kind => {
                    let join = if kind < 6 { "JOIN" } else { "LEFT JOIN" };
                    let table = self.table();
                    if self.random.percent(15) {
                        let using = *self.random.pick(&["a", "a, b", "b", "a, a", "v, u"]);
                        steps.push(Tree::node(&format!(" {join} # USING ({using})"), [table]));
                        continue;
                    }
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
