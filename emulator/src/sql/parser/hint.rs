//! Hints: how Cloud Spanner should go about a statement. The documented ones change no result, so
//! they are read and left at that; others are refused, since nobody knows what they would do.

use super::Parser;
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

impl Parser {
    /// Reads the hint before a statement, if there is one.
    pub(super) fn statement_hint(&mut self) -> Result<()> {
        self.hint(STATEMENT_HINTS)
    }

    /// Reads the hint behind a table, if there is one.
    pub(super) fn table_hint(&mut self) -> Result<()> {
        self.hint(TABLE_HINTS)
    }

    fn hint(&mut self, known: &[&str]) -> Result<()> {
        if !self.symbol("@{") {
            return Ok(());
        }
        self.list(|parser| parser.one_hint(known))?;
        self.expect_symbol("}")
    }

    fn one_hint(&mut self, known: &[&str]) -> Result<()> {
        let at_base_table = self.sees("FORCE_INDEX")
            && matches!(&self.ahead(2).kind, Kind::Word(index) | Kind::Text(index)
                if index.eq_ignore_ascii_case("_BASE_TABLE"));
        if !at_base_table && !known.iter().any(|hint| self.sees(hint)) {
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
