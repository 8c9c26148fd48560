//! Expressions.

use super::{Name, Select};
use crate::engine::Type;
use crate::sql::error::Pos;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Its kind.
    pub kind: ExprKind,
    /// Where it starts.
    pub at: Pos,
    /// How many levels of nodes it has.
    pub height: usize,
}

impl Expr {
    /// Returns an expression made of the expressions in `kind`.
    pub fn new(at: Pos, kind: ExprKind) -> Expr {
        let mut below = 0;
        kind.for_each_child(&mut |child| below = below.max(child.height));
        if let ExprKind::Subquery { query, .. } | ExprKind::InQuery { query, .. } = &kind {
            below = below.max(query.height());
        }
        Expr { kind, at, height: below + 1 }
    }
}

impl ExprKind {
    /// Shows every expression that this one is directly made of. The parts of a subquery are its
    /// own.
    pub fn for_each_child<'a>(&'a self, see: &mut impl FnMut(&'a Expr)) {
        match self {
            ExprKind::Literal(_)
            | ExprKind::Parameter(_)
            | ExprKind::Column { .. }
            | ExprKind::CountRows
            | ExprKind::Subquery { .. }
            | ExprKind::Default => {}
            ExprKind::And(parts) | ExprKind::Or(parts) => parts.iter().for_each(see),
            ExprKind::Not(operand) | ExprKind::Negate(operand) | ExprKind::Plus(operand) => {
                see(operand);
            }
            ExprKind::Is { operand, .. }
            | ExprKind::Cast { operand, .. }
            | ExprKind::InQuery { operand, .. } => see(operand),
            ExprKind::Binary(_, left, right)
            | ExprKind::Like { operand: left, pattern: right, .. }
            | ExprKind::InArray { operand: left, array: right, .. } => {
                [left, right].into_iter().for_each(|side| see(side));
            }
            ExprKind::Chain(first, others) => {
                see(first);
                others.iter().for_each(|(_, operand)| see(operand));
            }
            ExprKind::Array { items, .. } => items.iter().for_each(see),
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
        }
    }
}

/// The kinds of expressions.
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
    /// `+…`
    Plus(Box<Expr>),
    /// An operator between two operands.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `left + right - …`, from left to right: two operators of one rank or more.
    Chain(Box<Expr>, Vec<(BinaryOp, Expr)>),
    /// `… IS [NOT] NULL`, `… IS [NOT] TRUE`, `… IS [NOT] FALSE`
    Is {
        /// The operand.
        operand: Box<Expr>,
        /// The value to find: NULL for `None`.
        what: Option<bool>,
        /// True if it is to be something else.
        negated: bool,
    },
    /// `… [NOT] IN (…)`
    In {
        /// The value to find.
        operand: Box<Expr>,
        /// Where it is sought.
        list: Vec<Expr>,
        /// True if it is to be absent.
        negated: bool,
    },
    /// `… [NOT] IN UNNEST(…)`
    InArray {
        /// The value to find.
        operand: Box<Expr>,
        /// The array in which it is sought.
        array: Box<Expr>,
        /// True if it is to be absent.
        negated: bool,
    },
    /// `… [NOT] LIKE …`
    Like {
        /// The value to compare.
        operand: Box<Expr>,
        /// The pattern.
        pattern: Box<Expr>,
        /// True if it is to look otherwise.
        negated: bool,
    },
    /// `… [NOT] BETWEEN … AND …`
    Between {
        /// The value to compare.
        operand: Box<Expr>,
        /// The least value.
        low: Box<Expr>,
        /// The greatest value.
        high: Box<Expr>,
        /// True if it is to lie outside.
        negated: bool,
    },
    /// `CASE [operand] WHEN … THEN … [ELSE …] END`
    Case {
        /// The value to compare with the branches; without it, they are conditions.
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
        /// The arguments.
        arguments: Vec<Expr>,
        /// True if `DISTINCT` stands before the arguments.
        distinct: bool,
    },
    /// `CAST(… AS type)`, `SAFE_CAST(… AS type)`
    Cast {
        /// The value to convert.
        operand: Box<Expr>,
        /// The type that it gets.
        target: Type,
        /// True if it becomes NULL where it cannot be converted.
        safe: bool,
    },
    /// `[…]`, `ARRAY<type>[…]`
    Array {
        /// The type, if it is said.
        element: Option<Type>,
        /// The elements.
        items: Vec<Expr>,
    },
    /// `DEFAULT`, which stands only where a column gets a value.
    Default,
    /// `COUNT(*)`
    CountRows,
    /// `INTERVAL amount unit`, an argument of some functions.
    Interval {
        /// How many.
        amount: Box<Expr>,
        /// Of what.
        unit: Name,
    },
    /// `(SELECT …)`, `EXISTS (SELECT …)`
    Subquery {
        /// The use of its rows.
        kind: SubqueryKind,
        /// The query.
        query: Box<Select>,
    },
    /// `… [NOT] IN (SELECT …)`
    InQuery {
        /// The value to find.
        operand: Box<Expr>,
        /// Where it is sought.
        query: Box<Select>,
        /// True if it is to be absent.
        negated: bool,
    },
}

/// The use of the rows of a query inside an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubqueryKind {
    /// The only value.
    Value,
    /// True if there are any rows.
    Exists,
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
    /// A floating point number, as written.
    Float(String),
    /// A string.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// `DATE '…'`, `TIMESTAMP '…'`, `NUMERIC '…'`, `JSON '…'`
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

    /// Returns the comparison of right with left that says the same.
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
