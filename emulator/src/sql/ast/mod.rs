//! What a statement says, before anyone looks whether its names exist.

mod expr;

use super::error::Pos;

pub use expr::{BinaryOp, Comparison, Expr, ExprKind, Literal};

/// A statement that reads or writes rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `SELECT`
    Query(Select),
    /// `INSERT`
    Insert(Insert),
    /// `UPDATE`
    Update(Update),
    /// `DELETE`
    Delete(Delete),
}

/// A table, and what the statement calls it.
#[derive(Clone, Debug, PartialEq)]
pub struct TableName {
    /// `INFORMATION_SCHEMA`, if anything.
    pub schema: Option<String>,
    /// The table's own name.
    pub name: String,
    /// The name that replaces it in the statement.
    pub alias: Option<String>,
    /// Where it stands.
    pub at: Pos,
}

/// `SELECT … FROM … WHERE … ORDER BY … LIMIT … OFFSET …`
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// What each row of the result consists of.
    pub items: Vec<Item>,
    /// Where the rows come from; without it, there is one row.
    pub from: Option<FromItem>,
    /// Which rows count.
    pub filter: Option<Expr>,
    /// In which order.
    pub order: Vec<Order>,
    /// How many of them at most, and how many of them are left out first.
    pub limit: Option<Limit>,
}

/// What stands behind `FROM`.
#[derive(Clone, Debug, PartialEq)]
pub enum FromItem {
    /// A table.
    Table(TableName),
    /// `UNNEST(array) [AS alias]`: a row for each element.
    Unnest {
        /// The array.
        array: Expr,
        /// What the statement calls an element.
        alias: Option<String>,
    },
}

/// One item of a select list.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// `*` or `table.*`
    Star {
        /// The table's name or alias.
        table: Option<String>,
        /// Where it stands.
        at: Pos,
    },
    /// An expression.
    Expr {
        /// What to compute.
        expr: Expr,
        /// The name of the result's column.
        alias: Option<String>,
    },
}

/// One item of `ORDER BY`.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// What to order by.
    pub expr: Expr,
    /// Whether large values come first.
    pub descending: bool,
    /// Where NULLs come, if that is said.
    pub nulls_first: Option<bool>,
}

/// `LIMIT count OFFSET skip`, both literals or parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// How many rows at most.
    pub count: Expr,
    /// How many rows to leave out before.
    pub skip: Option<Expr>,
}

/// `INSERT [OR UPDATE | OR IGNORE] INTO table (columns) … [THEN RETURN …]`
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    /// What becomes of rows that are there already.
    pub mode: InsertMode,
    /// Where to.
    pub table: TableName,
    /// The columns, in the order of the values.
    pub columns: Vec<Name>,
    /// The rows.
    pub source: Source,
    /// What is shown of each row that was written; nothing if empty.
    pub returning: Vec<Item>,
}

/// What an `INSERT` does where there is a row with the key already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertMode {
    /// It fails.
    Insert,
    /// It updates the row: `INSERT OR UPDATE`.
    OrUpdate,
    /// It leaves the row as it is: `INSERT OR IGNORE`.
    OrIgnore,
}

/// Where the rows of an `INSERT` come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// `VALUES (…), (…)`
    Values(Vec<Row>),
    /// A query.
    Query(Box<Select>),
}

/// One row of `VALUES`.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// One value for each column.
    pub values: Vec<Expr>,
    /// Where it stands.
    pub at: Pos,
}

/// `UPDATE table SET … WHERE … [THEN RETURN …]`
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// Which table.
    pub table: TableName,
    /// The new values.
    pub assignments: Vec<(Name, Expr)>,
    /// Which rows.
    pub filter: Expr,
    /// What is shown of each of them; nothing if empty.
    pub returning: Vec<Item>,
}

/// `DELETE FROM table WHERE … [THEN RETURN …]`
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// Which table.
    pub table: TableName,
    /// Which rows.
    pub filter: Expr,
    /// What is shown of each of them; nothing if empty.
    pub returning: Vec<Item>,
}

/// A column's name.
#[derive(Clone, Debug, PartialEq)]
pub struct Name {
    /// As written.
    pub text: String,
    /// Where it stands.
    pub at: Pos,
}

impl Select {
    /// Shows every expression that stands in the clauses.
    pub fn for_each_expr<'a>(&'a self, see: &mut impl FnMut(&'a Expr)) {
        for item in &self.items {
            if let Item::Expr { expr, .. } = item {
                see(expr);
            }
        }
        if let Some(FromItem::Unnest { array, .. }) = &self.from {
            see(array);
        }
        self.filter.iter().for_each(&mut *see);
        self.order.iter().for_each(|order| see(&order.expr));
        if let Some(limit) = &self.limit {
            see(&limit.count);
            limit.skip.iter().for_each(see);
        }
    }
}
