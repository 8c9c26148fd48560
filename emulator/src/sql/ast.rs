//! What a statement says, before anyone looks whether its names exist.

use super::error::Pos;
use crate::engine::Type;

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
    pub from: Option<TableName>,
    /// Which rows count.
    pub filter: Option<Expr>,
    /// In which order.
    pub order: Vec<Order>,
    /// How many of them at most, and how many of them are left out first.
    pub limit: Option<Limit>,
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

/// `INSERT INTO table (columns) …`
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    /// Where to.
    pub table: TableName,
    /// The columns, in the order of the values.
    pub columns: Vec<Name>,
    /// The rows.
    pub source: Source,
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

/// `UPDATE table SET … WHERE …`
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// Which table.
    pub table: TableName,
    /// The new values.
    pub assignments: Vec<(Name, Expr)>,
    /// Which rows.
    pub filter: Expr,
}

/// `DELETE FROM table WHERE …`
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// Which table.
    pub table: TableName,
    /// Which rows.
    pub filter: Expr,
}

/// A column's name.
#[derive(Clone, Debug, PartialEq)]
pub struct Name {
    /// As written.
    pub text: String,
    /// Where it stands.
    pub at: Pos,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it says.
    pub kind: ExprKind,
    /// Where it starts.
    pub at: Pos,
    /// How many levels of nodes it has.
    pub height: usize,
}

impl Expr {
    /// An expression made of the expressions in `kind`.
    pub fn new(at: Pos, kind: ExprKind) -> Expr {
        let mut below = 0;
        kind.for_each_child(&mut |child| below = below.max(child.height));
        Expr { kind, at, height: below + 1 }
    }
}

impl ExprKind {
    /// Shows every expression that this one is directly made of.
    pub fn for_each_child<'a>(&'a self, see: &mut impl FnMut(&'a Expr)) {
        match self {
            ExprKind::Literal(_)
            | ExprKind::Parameter(_)
            | ExprKind::Column { .. }
            | ExprKind::CountRows => {}
            ExprKind::And(parts) | ExprKind::Or(parts) => parts.iter().for_each(see),
            ExprKind::Not(operand) | ExprKind::Negate(operand) => see(operand),
            ExprKind::Is { operand, .. } => see(operand),
            ExprKind::Binary(_, left, right) => {
                [left, right].into_iter().for_each(|side| see(side))
            }
            ExprKind::In { operand, list, .. } => {
                see(operand);
                list.iter().for_each(see);
            }
            ExprKind::Between { operand, low, high, .. } => {
                [operand, low, high].into_iter().for_each(|part| see(part));
            }
            ExprKind::Case { operand, branches, otherwise } => {
                operand.iter().chain(otherwise).for_each(|part| see(part));
                for (when, then) in branches {
                    see(when);
                    see(then);
                }
            }
            ExprKind::Call { arguments, .. } => arguments.iter().for_each(see),
            ExprKind::Interval { amount, .. } => see(amount),
            ExprKind::Exists(select) => select.for_each_expr(see),
        }
    }
}

impl Select {
    /// Shows every expression that stands in the clauses.
    pub fn for_each_expr<'a>(&'a self, see: &mut impl FnMut(&'a Expr)) {
        for item in &self.items {
            if let Item::Expr { expr, .. } = item {
                see(expr);
            }
        }
        self.filter.iter().for_each(&mut *see);
        self.order.iter().for_each(|order| see(&order.expr));
        if let Some(limit) = &self.limit {
            see(&limit.count);
            limit.skip.iter().for_each(see);
        }
    }
}

/// What an expression says.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A constant.
    Literal(Literal),
    /// `@name`
    Parameter(String),
    /// `column` or `table.column`
    Column {
        /// The table's name or alias.
        table: Option<String>,
        /// The column's name.
        name: String,
    },
    /// `left AND right AND …`
    And(Vec<Expr>),
    /// `left OR right OR …`
    Or(Vec<Expr>),
    /// `NOT …`
    Not(Box<Expr>),
    /// `-…`
    Negate(Box<Expr>),
    /// An operator between two operands.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `… IS [NOT] NULL`, `… IS [NOT] TRUE`, `… IS [NOT] FALSE`
    Is {
        /// What is asked about.
        operand: Box<Expr>,
        /// What it may be: NULL for `None`.
        what: Option<bool>,
        /// Whether it is to be something else.
        negated: bool,
    },
    /// `… [NOT] IN (…)`
    In {
        /// What is sought.
        operand: Box<Expr>,
        /// Where it is sought.
        list: Vec<Expr>,
        /// Whether it is to be absent.
        negated: bool,
    },
    /// `… [NOT] BETWEEN … AND …`
    Between {
        /// What is compared.
        operand: Box<Expr>,
        /// The least value.
        low: Box<Expr>,
        /// The greatest value.
        high: Box<Expr>,
        /// Whether it is to lie outside.
        negated: bool,
    },
    /// `CASE [operand] WHEN … THEN … [ELSE …] END`
    Case {
        /// What the branches are compared with; without it, they are conditions.
        operand: Option<Box<Expr>>,
        /// Each `WHEN` and its `THEN`.
        branches: Vec<(Expr, Expr)>,
        /// `ELSE`
        otherwise: Option<Box<Expr>>,
    },
    /// `function(arguments)`
    Call {
        /// The function's name, as written.
        function: String,
        /// What it is applied to.
        arguments: Vec<Expr>,
    },
    /// `COUNT(*)`
    CountRows,
    /// `INTERVAL amount unit`, an argument of some functions.
    Interval {
        /// How many.
        amount: Box<Expr>,
        /// Of what.
        unit: Name,
    },
    /// `EXISTS (SELECT …)`
    Exists(Box<Select>),
}

/// A constant as it stands in the text.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `NULL`
    Null,
    /// `TRUE`, `FALSE`
    Bool(bool),
    /// An integer; up to 2^63, which only a minus sign makes an INT64.
    Integer(u64),
    /// A floating point number.
    Float(f64),
    /// A string.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// `DATE '…'`, `TIMESTAMP '…'`
    Typed(Type, String),
}

/// An operator between two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    /// A comparison.
    Compare(Comparison),
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `||`
    Concat,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `!=`, `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl BinaryOp {
    /// As it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            BinaryOp::Compare(comparison) => comparison.symbol(),
            BinaryOp::Add => "+",
            BinaryOp::Subtract => "-",
            BinaryOp::Multiply => "*",
            BinaryOp::Divide => "/",
            BinaryOp::Concat => "||",
        }
    }
}

impl Comparison {
    /// As it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }

    /// What is said of the right side when this is said of the left.
    pub fn mirrored(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }
}
