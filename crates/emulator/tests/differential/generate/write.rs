//! Statements that write.

use super::Generator;
use crate::tables::TABLES;
use crate::tree::Tree;

impl Generator {
    pub(super) fn insert(&mut self) -> Tree {
        let table = &TABLES[self.random.below(TABLES.len())];
        let mut columns = table.columns.to_vec();
        while columns.len() > 1 && self.random.percent(60) {
            columns.remove(self.random.below(columns.len()));
        }
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        let from_query = self.random.percent(40);
        let values: Vec<Tree> = columns.iter().map(|(_, kind)| self.expr(kind, 1)).collect();
        let pattern = match from_query {
            true => format!("INSERT INTO {} ({}) SELECT #", table.name, names.join(", ")),
            false => format!("INSERT INTO {} ({}) VALUES (#)", table.name, names.join(", ")),
        };
        // An item that is left out would need its column left out.
        let pattern = pattern.replace('#', &vec!["#"; values.len()].join(", "));
        Tree::node(&pattern, values)
    }

    pub(super) fn update(&mut self) -> Tree {
        let table = &TABLES[self.random.below(TABLES.len())];
        self.enter_table(table.name, "z");
        let (name, kind) = table.columns[self.random.below(table.columns.len() - 2) + 2];
        let qualifier = if self.random.percent(30) { "z." } else { "" };
        let (value, filter) = (self.expr(kind, 2), self.expr("BOOL", 2));
        let pattern = format!("UPDATE {} AS z SET {qualifier}{name} = # WHERE #", table.name);
        Tree::node(&pattern, [value, filter])
    }

    pub(super) fn delete(&mut self) -> Tree {
        let table = &TABLES[self.random.below(TABLES.len())];
        self.enter_table(table.name, table.name);
        let filter = self.expr("BOOL", 2);
        let kind = self.kind();
        let returning = match self.random.percent(30) {
            true => Tree::node(" THEN RETURN #", [self.expr(kind, 1)]).optional(),
            false => Tree::leaf(""),
        };
        Tree::node(&format!("DELETE FROM {} WHERE ##", table.name), [filter, returning])
    }
}
