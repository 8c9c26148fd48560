//! The words a text consists of.

use std::fmt;

use super::error::Pos;

/// A token and where it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// Its kind.
    pub kind: Kind,
    /// Its first character.
    pub at: Pos,
    /// The byte of the text that it starts with.
    pub byte: usize,
}

/// The kinds of tokens.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// An identifier without quotes, or a keyword, as written.
    Word(String),
    /// The content of `` `…` ``, with its escapes resolved.
    Quoted(String),
    /// The content of a string literal, with its escapes resolved.
    Text(String),
    /// The content of a bytes literal, with its escapes resolved.
    Bytes(Vec<u8>),
    /// An integer literal. A minus sign is a token of its own.
    Integer(u64),
    /// A floating point literal, as written.
    Float(String),
    /// A query parameter, without its `@`.
    Parameter(String),
    /// An operator or a bracket. `@{` opens a hint.
    Symbol(&'static str),
    /// The end of the text.
    End,
}

/// Operators and brackets, each before its own prefixes. Those that the parsers don't know are here
/// so that an error can name them whole.
pub const SYMBOLS: &[&str] = &[
    "@{", "<=", ">=", "<>", "!=", "<<", ">>", "||", "=>", "->", "|>", "+=", "-=", "(", ")", "[",
    "]", "{", "}", ",", ";", ".", "=", "<", ">", "+", "-", "*", "/", "%", "|", "&", "^", "~", "?",
    ":", "!", "$",
];

/// Words that are identifiers only in backticks.
const RESERVED: &str = "
ALL AND ANY ARRAY AS ASC ASSERT_ROWS_MODIFIED AT BETWEEN BY CASE CAST COLLATE CONTAINS CREATE
CROSS CUBE CURRENT DEFAULT DEFINE DESC DISTINCT ELSE END ENUM ESCAPE EXCEPT EXCLUDE EXISTS
EXTRACT FALSE FETCH FOLLOWING FOR FROM FULL GRAPH_TABLE GROUP GROUPING GROUPS HASH HAVING IF
IGNORE IN INNER INTERSECT INTERVAL INTO IS JOIN LATERAL LEFT LIKE LIMIT LOOKUP MERGE NATURAL NEW
NO NOT NULL NULLS OF ON OR ORDER OUTER OVER PARTITION PRECEDING PROTO RANGE RECURSIVE RESPECT
RIGHT ROLLUP ROWS SELECT SET SOME STRUCT TABLESAMPLE THEN TO TREAT TRUE UNBOUNDED UNION UNNEST
USING WHEN WHERE WINDOW WITH WITHIN
";

/// Returns true if `word` is an identifier only in backticks.
pub fn is_reserved(word: &str) -> bool {
    RESERVED.split_whitespace().any(|reserved| reserved.eq_ignore_ascii_case(word))
}

/// As syntax errors name it.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Word(word) if is_reserved(word) => {
                write!(f, "keyword {}", word.to_ascii_uppercase())
            }
            Kind::Word(word) => write!(f, "identifier \"{word}\""),
            Kind::Quoted(name) => write!(f, "identifier `{name}`"),
            Kind::Text(_) => f.write_str("string literal"),
            Kind::Bytes(_) => f.write_str("bytes literal"),
            Kind::Integer(value) => write!(f, "integer literal \"{value}\""),
            Kind::Float(value) => write!(f, "floating point literal \"{value}\""),
            Kind::Parameter(name) => write!(f, "parameter \"@{name}\""),
            Kind::Symbol(symbol) => write!(f, "\"{symbol}\""),
            Kind::End => f.write_str("end of statement"),
        }
    }
}
