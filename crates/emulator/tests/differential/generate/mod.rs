//! Statements from a seed.

mod call;
mod expr;
mod query;
mod texts;
mod write;

use crate::random::Random;
use crate::tables::{self, PARAMETERS, TABLES};
use crate::tree::Tree;

const TYPES: &[&str] = &[
    "BOOL",
    "INT64",
    "FLOAT64",
    "NUMERIC",
    "STRING",
    "BYTES",
    "DATE",
    "TIMESTAMP",
    "JSON",
    "ARRAY<INT64>",
    "ARRAY<STRING>",
];
/// So many of them can be compared, and stand first.
const COMPARABLE: usize = 8;

/// How deep expressions nest.
const DEPTH: usize = 3;

/// A column that an expression can name.
#[derive(Clone)]
struct Column {
    name: String,
    kind: String,
}

/// Makes statements.
pub struct Generator {
    random: Random,
    columns: Vec<Column>,
    aliases: usize,
    subqueries: usize,
    /// True if an expression may use aggregates.
    folds: bool,
    /// True if it may name parameters.
    parameters: bool,
}

impl Generator {
    pub fn new(seed: u64) -> Generator {
        let random = Random::new(seed);
        Generator {
            random,
            columns: Vec::new(),
            aliases: 0,
            subqueries: 0,
            folds: false,
            parameters: true,
        }
    }

    /// The calls of the next case: a statement, or a table that keeps an expression.
    pub fn case(&mut self) -> Vec<Tree> {
        (self.columns, self.aliases, self.subqueries) = (Vec::new(), 0, 0);
        self.parameters = true;
        let statement = match self.random.below(24) {
            0..8 => self.single(),
            8..18 => self.query(None).0,
            18 => self.insert(),
            19 => self.update(),
            20 => self.delete(),
            21 => return self.kept(),
            _ => self.written(),
        };
        vec![Tree::node("sql #", [statement])]
    }

    /// A query of one expression, on a table or without.
    fn single(&mut self) -> Tree {
        let kind = self.kind();
        if self.random.percent(50) {
            return Tree::node("SELECT #", [self.expr(kind, DEPTH)]);
        }
        self.enter_table("t", "t");
        Tree::node("SELECT # FROM t", [self.expr(kind, DEPTH)])
    }

    /// An expression in a generated column, or in a CHECK. There it has no query inside.
    fn kept(&mut self) -> Vec<Tree> {
        self.subqueries = usize::MAX;
        self.parameters = false;
        for (name, kind) in TABLES[0].columns {
            self.columns.push(Column { name: (*name).into(), kind: (*kind).into() });
        }
        let (element, expression, shown) = match self.random.percent(40) {
            true => ("CHECK (#)".to_owned(), self.expr("BOOL", DEPTH), ""),
            false => {
                let kind = TYPES[self.random.below(COMPARABLE)];
                // Beside an expression of another type, a column would convert it.
                let cast = Tree::node(&format!("CAST(# AS {kind})"), [self.expr(kind, DEPTH)]);
                (format!("kept {} AS (#) STORED", tables::stored(kind)), cast, ", kept")
            }
        };
        let mut calls: Vec<Tree> = tables::copy(&element).iter().map(Tree::leaf).collect();
        calls[0] = Tree::node(&calls[0].text(), [expression]);
        calls.push(Tree::leaf(format!("sql SELECT a, b{shown} FROM k")));
        calls
    }

    /// A statement that shows what an UPDATE or a DELETE wrote.
    fn written(&mut self) -> Tree {
        self.enter_table("t", "z");
        let filter = self.expr("BOOL", DEPTH);
        if self.random.percent(30) {
            return Tree::node("DELETE FROM t AS z WHERE # THEN RETURN a, b", [filter]);
        }
        let (name, kind) = TABLES[0].columns[2 + self.random.below(TABLES[0].columns.len() - 2)];
        let value = Tree::node(&format!("CAST(# AS {kind})"), [self.expr(kind, DEPTH)]);
        let pattern = format!("UPDATE t AS z SET {name} = # WHERE # THEN RETURN a, b, {name}");
        Tree::node(&pattern, [value, filter])
    }

    /// A parameter of this type, if there is one.
    fn parameter(&mut self, kind: &str) -> Option<Tree> {
        let fitting: Vec<_> = PARAMETERS.iter().filter(|(_, other, _)| *other == kind).collect();
        let may = self.parameters && !fitting.is_empty();
        may.then(|| Tree::leaf(format!("@{}", self.random.pick(&fitting).0)))
    }

    fn kind(&mut self) -> &'static str {
        TYPES[self.random.below(TYPES.len())]
    }

    fn enter_table(&mut self, table: &str, alias: &str) {
        for table in TABLES.iter().filter(|known| known.name == table) {
            for (name, kind) in table.columns {
                self.columns.push(Column { name: format!("{alias}.{name}"), kind: (*kind).into() });
                if self.random.percent(50) {
                    self.columns.push(Column { name: (*name).into(), kind: (*kind).into() });
                }
            }
        }
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("x{}", self.aliases)
    }
}
