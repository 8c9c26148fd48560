//! The values of expressions.

use super::*;
use crate::sql::MAX_DEPTH;

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
        ("TIMESTAMP('2026-01-02T03:04:05.5Z')", "2026-01-02T03:04:05.5Z"),
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
        ("SAFE_DIVIDE(0.1234567890123, NUMERIC '1')", "0.123456789"),
        ("0.1234567890123 * CAST(NUMERIC '1' AS FLOAT64)", "0.1234567890123"),
    ] {
        assert_eq!(world.one(expr), value, "{expr}");
    }
    let (code, message) = world.error("SELECT 1e30 * NUMERIC '1'");
    assert_eq!(code, Code::InvalidArgument);
    assert!(message.starts_with("Invalid NUMERIC value: 1e30"), "{message}");
}

#[test]
fn a_mean_is_rounded_once() {
    let mut world = Memory::new("");
    for (values, mean) in [
        ("1.0, 2.5, 0.0, 1.0, 2.5, 0.0", "1.1666666666666667"),
        ("592.0, 920.0, 741.0, -55.2380566612, 867.6, 387.4", "575.4603238898"),
        ("1e308, 1e308, 1.6e308", "1.2e308"),
        ("1e400, 1.5", "NaN"),
        ("-99, -99, -98, -103, 9223372036854775707", "1.844674407370955e18"),
        ("9007199254740993, 9007199254740993, 9007199254740995", "9007199254740994.0"),
    ] {
        let query = format!("SELECT AVG(x) FROM UNNEST([{values}]) AS x");
        assert_eq!(world.rows(&query), [mean], "{values}");
    }
}

#[test]
fn a_part_is_taken_from_a_date_and_from_a_time_in_utc() {
    let mut world = Memory::new("");
    let time = "TIMESTAMP '1969-12-31 23:59:58.987654321Z' AT TIME ZONE 'UTC'";
    for (from, parts) in [
        ("DATE '2026-01-02'", "YEAR 2026, QUARTER 1, MONTH 1, DAY 2, DAYOFWEEK 6, DAYOFYEAR 2"),
        ("DATE '2024-12-30'", "WEEK 52, ISOWEEK 1, ISOYEAR 2025, DAYOFYEAR 365, QUARTER 4"),
        ("DATE '2023-01-01'", "WEEK 1, ISOWEEK 52, ISOYEAR 2022, DAYOFWEEK 1"),
        ("DATE '2026-01-03'", "WEEK 0, ISOWEEK 1, ISOYEAR 2026, DAYOFWEEK 7"),
        ("DATE '0001-01-01'", "ISOWEEK 1, ISOYEAR 1"),
        ("DATE '9999-12-31'", "ISOWEEK 52, ISOYEAR 9999"),
        (time, "HOUR 23, MINUTE 59, SECOND 58, MILLISECOND 987, NANOSECOND 987654321, DAY 31"),
        ("CAST(NULL AS DATE)", "YEAR NULL"),
    ] {
        for (part, value) in parts.split(", ").filter_map(|part| part.split_once(' ')) {
            let expr = format!("EXTRACT({part} FROM {from})");
            assert_eq!(world.one(&expr), value, "{expr}");
        }
    }
    for (expr, code) in [
        ("EXTRACT(HOUR FROM DATE '2026-01-02')", Code::InvalidArgument),
        ("EXTRACT(AGE FROM DATE '2026-01-02')", Code::InvalidArgument),
        ("EXTRACT(DAY FROM DATE '2026-01-02' AT TIME ZONE 'UTC')", Code::InvalidArgument),
        ("EXTRACT(DAY FROM '2026-01-02')", Code::InvalidArgument),
        ("EXTRACT(DAY FROM 1)", Code::InvalidArgument),
        ("EXTRACT(DAY FROM CURRENT_TIMESTAMP())", Code::Unimplemented),
        ("EXTRACT(DAY FROM CURRENT_TIMESTAMP() AT TIME ZONE '+01')", Code::Unimplemented),
        ("EXTRACT(DATE FROM CURRENT_TIMESTAMP() AT TIME ZONE 'UTC')", Code::Unimplemented),
        ("EXTRACT(WEEK(MONDAY) FROM DATE '2026-01-02')", Code::Unimplemented),
    ] {
        assert_eq!(world.error(&format!("SELECT {expr}")).0, code, "{expr}");
    }
}

#[test]
fn documents_are_taken_apart_and_written() {
    let mut world = Memory::new("");
    let document = r#"JSON '{"a": [1.50, "x", null, {"b c": true}], "d": {}, "0": 7}'"#;
    for (path, scalar, part) in [
        ("$.a[0]", "1.5", "1.5"),
        ("$.a.1", "x", "\"x\""),
        ("$.a[2]", "NULL", "null"),
        (r#"$.a[3]."b c""#, "true", "true"),
        ("$.a[4]", "NULL", "NULL"),
        ("$.a.b", "NULL", "NULL"),
        ("$.a[0].b", "NULL", "NULL"),
        ("$.d", "NULL", "{}"),
        ("$[0]", "7", "7"),
    ] {
        let found = format!("JSON_VALUE({document}, '{path}')");
        assert_eq!(world.one(&found), scalar, "{path}");
        let found = format!("JSON_QUERY({document}, '{path}')");
        assert_eq!(world.one(&found), part, "{path}");
    }
    for (expr, value) in [
        ("JSON_VALUE(JSON '2')", "2"),
        ("PARSE_JSON(' [1, 2.50] ')", "[1,2.5]"),
        ("PARSE_JSON(CAST(NULL AS STRING))", "NULL"),
        ("TO_JSON_STRING(NULL)", "null"),
        (
            "TO_JSON_STRING([9007199254740992, 9007199254740993])",
            "[9007199254740992,\"9007199254740993\"]",
        ),
        ("TO_JSON_STRING([NUMERIC '1', NUMERIC '1.5'])", "[1,\"1.5\"]"),
        ("TO_JSON_STRING([-0.0, 1e400])", "[0,\"Infinity\"]"),
        (r"TO_JSON_STRING('a\u2028\n')", r#""a\u2028\n""#),
        ("TO_JSON_STRING(b'x')", "\"eA==\""),
        (
            "TO_JSON_STRING(TIMESTAMP '2026-01-02 03:04:05.1234Z')",
            "\"2026-01-02T03:04:05.123400Z\"",
        ),
        ("TO_JSON_STRING(DATE '2026-01-02')", "\"2026-01-02\""),
        ("TO_JSON_STRING(JSON '{\"a\": 1}')", "{\"a\":1}"),
    ] {
        assert_eq!(world.one(expr), value, "{expr}");
    }
    for (expr, code) in [
        ("PARSE_JSON('{')", Code::OutOfRange),
        ("JSON_VALUE(JSON '1', 'a')", Code::OutOfRange),
        ("JSON_VALUE(JSON '1', CONCAT('$', '.a'))", Code::InvalidArgument),
        ("JSON_VALUE(JSON '1', '$[-1]')", Code::Unimplemented),
        ("JSON_VALUE('1', '$')", Code::Unimplemented),
        ("TO_JSON_STRING(1, TRUE)", Code::Unimplemented),
    ] {
        assert_eq!(world.error(&format!("SELECT {expr}")).0, code, "{expr}");
    }
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
        "TIMESTAMP(CONCAT('x', 'y'))",
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
