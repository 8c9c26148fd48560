//! The values of expressions.

use super::*;
use crate::sql::MAX_DEPTH;

#[test]
fn a_mean_with_an_infinity_is_infinite() {
    assert_eq!(world().rows("SELECT AVG(price + 1e400) FROM Orders"), ["inf"]);
}

#[test]
fn null_is_neither_true_nor_false() {
    let mut world = Memory::new("");
    for (expr, value) in [
        ("CAST(NULL AS INT64) = 1", "NULL"),
        ("NOT CAST(NULL AS BOOL)", "NULL"),
        ("NULL AND false", "false"),
        ("NULL AND true", "NULL"),
        ("NULL OR true", "true"),
        ("NULL OR false", "NULL"),
        ("1 IN (2, NULL)", "NULL"),
        ("1 IN (1, NULL)", "true"),
        ("1 NOT IN (2, 3)", "true"),
        ("NULL IN (1)", "NULL"),
        ("NULL IS NULL", "true"),
        ("1 IS NOT NULL", "true"),
        ("(CAST(NULL AS INT64) = 1) IS TRUE", "false"),
        ("(CAST(NULL AS INT64) = 1) IS NOT FALSE", "true"),
        ("2 BETWEEN 1 AND NULL", "NULL"),
        ("2 BETWEEN 3 AND NULL", "false"),
        ("2 NOT BETWEEN 1 AND 3", "false"),
        ("1 + CAST(NULL AS INT64)", "NULL"),
        ("'a' || CAST(NULL AS STRING)", "NULL"),
        ("CASE WHEN NULL THEN 1 ELSE 2 END", "2"),
        ("CASE NULL WHEN NULL THEN 1 END", "NULL"),
        ("CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END", "b"),
        ("COALESCE(NULL, 3, 1/0)", "3.0"),
        ("IFNULL(NULL, 'x')", "x"),
        ("NULLIF(1, 1)", "NULL"),
        ("NULLIF(1, 2)", "1"),
        ("IF(1 > 2, 1/0, 2)", "2.0"),
        ("false AND 1/0 = 1", "false"),
    ] {
        assert_eq!(world.one(expr), value, "{expr}");
    }
}

#[test]
fn values_are_computed_as_googlesql_does() {
    let mut world = Memory::new("");
    for (expr, value) in [
        ("-9223372036854775808", "-9223372036854775808"),
        ("7 / 2", "3.5"),
        ("2 * 3 - 4", "2"),
        ("1 + 1.5", "2.5"),
        ("-(1.5)", "-1.5"),
        ("1 = 1.0", "true"),
        ("'b' > 'a'", "true"),
        ("b'a' || b'\\xff'", "[97, 255]"),
        ("LENGTH('é')", "1"),
        ("LENGTH(b'\\xc3\\xa9')", "2"),
        ("CONCAT('a', 'b', 'c')", "abc"),
        ("STARTS_WITH('abc', 'ab')", "true"),
        ("DATE '2026-1-2'", "2026-01-02"),
        ("DATE '2026-01-02' < '2026-01-03'", "true"),
        ("TIMESTAMP '2026-01-02 03:04:05+01'", "2026-01-02T02:04:05Z"),
        ("TIMESTAMP '2026-01-02T00:00:00Z' > '2026-01-01T00:00:00Z'", "true"),
        ("CURRENT_TIMESTAMP()", "2026-01-02T03:04:05.000006Z"),
        ("current_timestamp", "2026-01-02T03:04:05.000006Z"),
        ("TIMESTAMP_DIFF('2026-01-02T00:00:00Z', '2026-01-01T00:00:00.001Z', DAY)", "0"),
        ("TIMESTAMP_DIFF('2026-01-01T00:00:00Z', '2026-01-01T01:59:59Z', hour)", "-1"),
        ("TIMESTAMP_ADD('2026-01-01T00:00:00Z', INTERVAL 90 MINUTE)", "2026-01-01T01:30:00Z"),
        (
            "TIMESTAMP_SUB('2026-01-01T00:00:00Z', INTERVAL 1 NANOSECOND)",
            "2025-12-31T23:59:59.999999999Z",
        ),
        ("CASE WHEN true THEN 1 ELSE 2.5 END", "1.0"),
    ] {
        assert_eq!(world.one(expr), value, "{expr}");
    }
}

#[test]
fn a_plain_literal_becomes_what_a_typed_one_is() {
    let mut world = Memory::new("");
    for (expr, value) in [
        ("0.1234567890123 * NUMERIC '1'", "0.123456789"),
        ("NUMERIC '1' + 0.1234567890123", "1.123456789"),
        ("0.1234567890123 * CAST(NUMERIC '1' AS FLOAT64)", "0.1234567890123"),
    ] {
        assert_eq!(world.one(expr), value, "{expr}");
    }
    let (code, message) = world.error("SELECT 1e30 * NUMERIC '1'");
    assert_eq!(code, Code::OutOfRange);
    assert!(message.starts_with("Invalid NUMERIC value: 1e30"), "{message}");
}

#[test]
fn what_cannot_be_computed_is_out_of_range() {
    let mut world = Memory::new("");
    for expr in [
        "9223372036854775807 + 1",
        "-9223372036854775807 - 2",
        "9223372036854775807 * 2",
        "-(-9223372036854775808)",
        "1 / 0",
        "0.0 / 0",
        "1e308 * 10.0",
        "TIMESTAMP_ADD('9999-12-31T00:00:00Z', INTERVAL 1 DAY)",
        "TIMESTAMP_ADD('9999-12-31T00:00:00Z', INTERVAL 9223372036854775807 DAY)",
        "TIMESTAMP_DIFF('9999-12-31T00:00:00Z', '0001-01-01T00:00:00Z', NANOSECOND)",
        "CAST(CONCAT('x', 'y') AS TIMESTAMP)",
    ] {
        assert_eq!(world.error(&format!("SELECT {expr}")).0, Code::OutOfRange, "{expr}");
    }
}

#[test]
fn a_parameter_that_is_missing_or_of_two_types_is_named() {
    let mut world = world();
    let insert = "INSERT Flags (k, v) VALUES (@Both, @both)";
    let both = Parameters::from_iter([("both", text("5"))]);
    let refused = world.run(insert, &both).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let message = "parameter 'both' is used assuming different types (INT64 vs STRING)";
    assert!(refused.message().contains(message), "{refused}");
    let missing = world.error("SELECT @nobody");
    assert_eq!(
        missing,
        (Code::InvalidArgument, "No parameter found for binding: nobody [at 1:8]".into())
    );
}

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
            ("GREATEST(1, ", "id", ")"),
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
