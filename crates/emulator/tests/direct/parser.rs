//! The meanings of texts, and the texts that aren't understood.

use spindle_emulator::engine::Code;
use spindle_emulator::sql::ast::Statement;
use spindle_emulator::sql::{MAX_DEPTH, MAX_STATEMENT_CHARS, parse_statement};

fn parsed(text: &str) -> Statement {
    parse_statement(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn nesting_is_bounded_in_every_direction_before_the_stack_is() {
    // Half of what a runtime's worker thread has.
    let small = std::thread::Builder::new().stack_size(1 << 20);
    let thread = small.spawn(|| {
        let deep = |open: &str, inner: &str, close: &str, levels: usize| {
            format!("SELECT {}{inner}{}", open.repeat(levels), close.repeat(levels))
        };
        for (open, inner, close) in [
            ("(", "1", ")"),
            ("NOT ", "a", ""),
            ("- ", "a", ""),
            ("+ ", "a", ""),
            ("f(", "1", ")"),
            ("CASE WHEN true THEN ", "1", " END"),
            ("CASE ", "1", " WHEN 1 THEN 1 END"),
            ("(1 + ", "1", ")"),
            ("a IN (", "1", ")"),
            ("a IN UNNEST(", "a", ")"),
            ("[", "1", "]"),
            ("CAST(", "1", " AS INT64)"),
            ("a LIKE (", "a", ")"),
            ("EXISTS(SELECT ", "1", ")"),
            ("EXISTS(SELECT 1 FROM t WHERE ", "true", ")"),
            ("EXISTS(SELECT 1 ORDER BY ", "true", ")"),
            ("(SELECT ", "1", ")"),
            ("a IN (SELECT ", "1", ")"),
            ("1 FROM (SELECT ", "1", ")"),
        ] {
            let fits =
                deep(open, inner, close, if open.contains("SELECT") { 3 } else { MAX_DEPTH - 2 });
            parsed(&fits);
            for levels in [MAX_DEPTH + 1, 1_000, 20_000] {
                let error = parse_statement(&deep(open, inner, close, levels)).unwrap_err();
                assert!(error.to_string().contains("nested more than"), "{open}: {error}");
            }
        }
    });
    thread.unwrap().join().unwrap();
}

#[test]
fn long_chains_are_flat_and_long_texts_are_refused() {
    parsed(&format!("SELECT a{}", " AND a".repeat(10_000)));
    parsed(&format!("SELECT a{}", " OR a AND b".repeat(10_000)));
    for operator in [" + 1", " || a", " * 2 - 1"] {
        parsed(&format!("SELECT a{}", operator.repeat(1_000)));
        let error = parse_statement(&format!("SELECT a{}", operator.repeat(1_001))).unwrap_err();
        assert!(error.to_string().contains("more than 1000 operators in a row"), "{error}");
    }
    let text = format!("SELECT '{}'", "é".repeat(MAX_STATEMENT_CHARS));
    assert_eq!(parse_statement(&text).unwrap_err().code(), Code::InvalidArgument);
    parsed(&format!("SELECT '{}'", "é".repeat(MAX_STATEMENT_CHARS - 9)));
}
