//! The values of expressions.

use super::*;
use crate::sql::MAX_DEPTH;

#[test]
fn whatever_can_be_parsed_can_be_evaluated_on_half_a_small_stack() {
    // Half of what a runtime's worker thread has.
    let small = std::thread::Builder::new().stack_size(1 << 20);
    let thread = small.spawn(|| {
        let mut world = world();
        for (open, inner, close) in [
            ("NOT ", "true", ""),
            ("- ", "id", ""),
            ("", "1", " + 1"),
            ("CONCAT('x', ", "note", ")"),
            ("COALESCE(", "1", ")"),
            ("NULLIF(", "1", ", 2)"),
            ("IF(true, ", "1", ", 2)"),
            ("CASE WHEN true THEN ", "1", " END"),
            ("CASE ", "1", " WHEN 1 THEN 1 END"),
            ("true IN (", "true", ")"),
            ("true = (", "true", ")"),
            ("1 + (", "1.5", ")"),
            ("1 / (", "NUMERIC '1'", ")"),
            ("SUBSTR(", "note", ", 1, 5)"),
            ("LOWER(", "note", ")"),
            ("ABS(", "id", ")"),
            ("SAFE_CAST(", "id", " AS INT64)"),
        ] {
            let expr =
                format!("{}{inner}{}", open.repeat(MAX_DEPTH - 2), close.repeat(MAX_DEPTH - 2));
            let rows = world.rows(&format!("SELECT {expr} FROM Orders WHERE shard = 2"));
            assert_eq!(rows.len(), 2, "{expr}");
        }
        for (open, inner, close) in [
            ("CAST(CAST(", "id", " AS STRING) AS INT64)"),
            ("ARRAY_LENGTH([", "id", "])"),
            ("true IN UNNEST([paid, ", "paid", "])"),
            ("CAST('x' LIKE ", "note", " AS STRING)"),
        ] {
            let expr = format!(
                "{}{inner}{}",
                open.repeat(MAX_DEPTH / 2 - 1),
                close.repeat(MAX_DEPTH / 2 - 1)
            );
            let rows = world.rows(&format!("SELECT {expr} FROM Orders WHERE shard = 2"));
            assert_eq!(rows.len(), 2, "{expr}");
        }
        let exists = "EXISTS (SELECT 1 FROM Flags WHERE NOT NOT NOT NOT NOT ";
        let expr = format!("{}v IS NULL{}", exists.repeat(3), ")".repeat(3));
        assert_eq!(world.one(&expr), "true");
    });
    thread.unwrap().join().unwrap();
}

#[test]
fn a_pattern_that_would_take_minutes_is_refused() {
    let long = format!("SELECT LOWER('{}') LIKE '%{}b'", "a".repeat(900_000), "a".repeat(50_000));
    assert_eq!(world().error(&long).0, Code::ResourceExhausted);
}
