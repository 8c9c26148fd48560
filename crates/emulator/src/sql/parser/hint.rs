//! Hints: how Cloud Spanner should go about a statement. The documented ones change no result, so
//! they are read and left at that; others are refused, since nobody knows what they would do.

use super::Parser;
use crate::sql::ast::Name;
use crate::sql::error::Result;
use crate::sql::token::Kind;

const STATEMENT_HINTS: &[&str] = &[
    "USE_ADDITIONAL_PARALLELISM",
    "OPTIMIZER_VERSION",
    "OPTIMIZER_STATISTICS_PACKAGE",
    "ALLOW_DISTRIBUTED_MERGE",
    "LOCK_SCANNED_RANGES",
    "SCAN_METHOD",
    "EXECUTION_METHOD",
    "USE_UNENFORCED_FOREIGN_KEY",
    "ALLOW_TIMESTAMP_PREDICATE_PUSHDOWN",
    "PDML_MAX_PARALLELISM",
];
const TABLE_HINTS: &[&str] = &["GROUPBY_SCAN_OPTIMIZATION", "SCAN_METHOD"];
const OPERATOR_HINTS: &[&str] = &[
    "FORCE_JOIN_ORDER",
    "JOIN_METHOD",
    "JOIN_TYPE",
    "HASH_JOIN_BUILD_SIDE",
    "HASH_JOIN_EXECUTION",
    "BATCH_MODE",
    "GROUP_METHOD",
    "GROUP_TYPE",
];

impl Parser {
    /// Reads the hint before a statement, if there is one.
    pub(super) fn statement_hint(&mut self) -> Result<()> {
        self.hint(STATEMENT_HINTS).map(drop)
    }

    /// Reads the hint behind `JOIN` or `GROUP`, if there is one: it only says how to go about it.
    pub(super) fn operator_hint(&mut self) -> Result<()> {
        self.hint(OPERATOR_HINTS).map(drop)
    }

    /// Reads the hint behind a table, if there is one. The result is the index that it forces.
    pub(super) fn table_hint(&mut self) -> Result<Option<Name>> {
        self.hint(TABLE_HINTS)
    }

    fn hint(&mut self, known: &[&str]) -> Result<Option<Name>> {
        if !self.symbol("@{") {
            return Ok(None);
        }
        let mut index = None;
        self.list(|parser| {
            if known == TABLE_HINTS && parser.sees("FORCE_INDEX") {
                index = parser.forced_index()?;
                return Ok(());
            }
            parser.one_hint(known)
        })?;
        self.expect_symbol("}")?;
        Ok(index)
    }

    fn forced_index(&mut self) -> Result<Option<Name>> {
        self.advance();
        self.expect_symbol("=")?;
        let at = self.at();
        let text = match self.peek() {
            Kind::Word(index) | Kind::Quoted(index) | Kind::Text(index) => index.clone(),
            _ => return Err(self.expected("the name of an index")),
        };
        self.advance();
        Ok(Some(Name { text, at }))
    }

    fn one_hint(&mut self, known: &[&str]) -> Result<()> {
        // A hint for Google's emulator says what that is to leave unchecked.
        let is_emulators = self.keyword("spanner_emulator .");
        if !is_emulators && !known.iter().any(|hint| self.sees(hint)) {
            return match self.peek() {
                Kind::Word(hint) => Err(self.unsupported(format_args!("the hint {hint}"))),
                _ => Err(self.expected("a hint")),
            };
        }
        self.advance();
        self.expect_symbol("=")?;
        match self.peek() {
            Kind::Word(_) | Kind::Quoted(_) | Kind::Text(_) | Kind::Integer(_) => {
                self.advance();
                Ok(())
            }
            _ => Err(self.expected("the value of a hint")),
        }
    }
}
