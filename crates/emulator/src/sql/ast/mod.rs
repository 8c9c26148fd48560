//! The content of a statement, before anyone checks that its names exist.

mod expr;

use super::error::Pos;

pub use expr::{BinaryOp, Comparison, Expr, ExprKind, Literal, SubqueryKind};

/// A statement that reads or writes rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `SELECT`
    Query(Box<Select>),
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
    /// The index that `FORCE_INDEX` names, or `_BASE_TABLE`.
    pub index: Option<Name>,
    /// Where it stands.
    pub at: Pos,
}

/// `SELECT … FROM … WHERE … ORDER BY … LIMIT … OFFSET …`
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// The parts of each row of the result.
    pub items: Vec<Item>,
    /// Where the rows come from; without any, there is one row.
    pub from: Vec<FromStep>,
    /// The condition for a row to count.
    pub filter: Option<Expr>,
    /// In which order.
    pub order: Vec<Order>,
    /// How many of them at most, and how many of them are left out first.
    pub limit: Option<Limit>,
    /// True if rows are locked as if they were written: `FOR UPDATE`.
    pub for_update: bool,
}

/// One thing behind `FROM`, and how it comes to what stands before it.
#[derive(Clone, Debug, PartialEq)]
pub struct FromStep {
    /// What comes.
    pub item: FromItem,
    /// How it comes; the first comes as if after a comma.
    pub join: Join,
    /// The condition for a pair of rows to count.
    pub condition: Option<Expr>,
    /// Where it stands.
    pub at: Pos,
}

/// How rows come to rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// `,`
    Comma,
    /// `CROSS JOIN`
    Cross,
    /// `[INNER] JOIN`
    Inner,
    /// `LEFT [OUTER] JOIN`
    Left,
}

/// An item behind `FROM`.
#[derive(Clone, Debug, PartialEq)]
pub enum FromItem {
    /// A table.
    Table(TableName),
    /// `(SELECT …) [AS alias]`
    Query {
        /// The query.
        query: Box<Select>,
        /// The statement's name for a row.
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
        /// The expression to compute.
        expr: Expr,
        /// The name of the result's column.
        alias: Option<String>,
    },
}

/// One item of `ORDER BY`.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// The expression to order by.
    pub expr: Expr,
    /// True if large values come first.
    pub descending: bool,
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
    /// The effect on rows that are there already.
    pub mode: InsertMode,
    /// Where to.
    pub table: TableName,
    /// The columns, in the order of the values.
    pub columns: Vec<Name>,
    /// The rows.
    pub source: Source,
    /// The shown parts of each row that was written; nothing if empty.
    pub returning: Vec<Item>,
}

/// The effect of an `INSERT` where there is a row with the key already.
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
    pub assignments: Vec<Assignment>,
    /// The condition that picks the rows.
    pub filter: Expr,
    /// The shown parts of each of them; nothing if empty.
    pub returning: Vec<Item>,
}

/// `[table.]column = value`
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The table's name or alias, if it is said.
    pub table: Option<Name>,
    /// The column.
    pub column: Name,
    /// Its new value.
    pub value: Expr,
}

/// `DELETE FROM table WHERE … [THEN RETURN …]`
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// Which table.
    pub table: TableName,
    /// The condition that picks the rows.
    pub filter: Expr,
    /// The shown parts of each of them; nothing if empty.
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
    /// Returns how many levels of nodes the highest of its expressions has.
    pub fn height(&self) -> usize {
        let mut height = 0;
        let mut see = |expr: &Expr| height = height.max(expr.height);
        for item in &self.items {
            if let Item::Expr { expr, .. } = item {
                see(expr);
            }
        }
        let mut below = 0;
        for step in &self.from {
            match &step.item {
                FromItem::Table(_) => {}
                FromItem::Query { query, .. } => below = below.max(query.height() + 1),
            }
            step.condition.iter().for_each(&mut see);
        }
        self.filter.iter().for_each(&mut see);
        self.order.iter().for_each(|order| see(&order.expr));
        if let Some(limit) = &self.limit {
            see(&limit.count);
            limit.skip.iter().for_each(see);
        }
        height.max(below)
    }
}
