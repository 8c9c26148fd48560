//! `CAST` and `SAFE_CAST`.

use super::*;

#[test]
fn values_become_those_of_another_type() {
    let mut world = Memory::new("");
    for (expr, value) in [
        ("CAST('12' AS INT64)", "12"),
        ("CAST(' -0x1F ' AS INT64)", "-31"),
        ("CAST('-0x8000000000000000' AS INT64)", "-9223372036854775808"),
        ("CAST(1.5 AS INT64)", "2"),
        ("CAST(-2.5 AS INT64)", "-3"),
        ("CAST(NUMERIC '0.5' AS INT64)", "1"),
        ("CAST(true AS INT64)", "1"),
        ("CAST(0 AS BOOL)", "false"),
        ("CAST('TRUE' AS BOOL)", "true"),
        ("CAST(7 AS FLOAT64)", "7.0"),
        ("CAST('1e3' AS FLOAT64)", "1000.0"),
        ("CAST('-inf' AS FLOAT64)", "-inf"),
        ("SAFE_CAST('0x1f' AS FLOAT64)", "31.0"),
        ("CAST('-0X1F' AS FLOAT64)", "-31.0"),
        ("CAST(1.123456789123456789 AS NUMERIC)", "1.123456789"),
        (
            "CAST(99999999999999999999999999999.999999999 AS NUMERIC)",
            "99999999999999999999999999999.999999999",
        ),
        ("IF(FALSE, CAST('x' AS INT64), 1)", "1"),
        ("CAST('nan' AS FLOAT64)", "NaN"),
        ("CAST('1.0000000005' AS NUMERIC)", "1.000000001"),
        ("CAST(0.1 AS NUMERIC)", "0.1"),
        ("CAST(-7 AS NUMERIC)", "-7"),
        ("CAST(12 AS STRING)", "12"),
        ("CAST(1.0 AS STRING)", "1"),
        ("CAST(-0.0 AS STRING)", "0"),
        ("CAST(-1e-5 AS STRING)", "-1e-05"),
        ("CAST(CAST('nan' AS FLOAT64) AS STRING)", "nan"),
        ("CAST(1e20 AS STRING)", "1e+20"),
        ("CAST(false AS STRING)", "false"),
        ("CAST(NUMERIC '1.50' AS STRING)", "1.5"),
        ("CAST(b'abc' AS STRING)", "abc"),
        ("CAST('é' AS BYTES)", "[195, 169]"),
        ("CAST('2026-1-2' AS DATE)", "2026-01-02"),
        ("CAST(DATE '2026-1-2' AS STRING)", "2026-01-02"),
        ("CAST('2026-01-02 03:04:05+01' AS TIMESTAMP)", "2026-01-02T02:04:05Z"),
        ("CAST(NULL AS INT64)", "NULL"),
        ("CAST('a' AS STRING)", "a"),
        ("CAST(CAST('5' AS INT64) + 1 AS STRING) || '!'", "6!"),
        ("SAFE_CAST('x' AS INT64)", "NULL"),
        ("SAFE_CAST('7' AS INT64)", "7"),
        ("SAFE_CAST(b'\\xff' AS STRING)", "NULL"),
        ("SAFE_CAST(1e300 AS INT64)", "NULL"),
        ("CAST([1] AS ARRAY<INT64>)", "[1]"),
    ] {
        assert_eq!(world.one(expr), value, "{expr}");
    }
    let untyped = Parameters::from_iter([("p", text("7"))]);
    assert_eq!(world.rows_with("SELECT CAST(@p AS INT64) + 1", &untyped), ["8"]);
}

#[test]
fn what_cannot_become_another_is_refused() {
    let mut world = world();
    for (expr, code, message) in [
        ("CAST('x' AS INT64)", Code::OutOfRange, "Bad int64 value: x"),
        ("CAST(LOWER('X') AS INT64)", Code::OutOfRange, "Bad int64 value: x"),
        ("CAST(LOWER('1+') AS FLOAT64)", Code::OutOfRange, "Bad double value: 1+"),
        ("CAST(LOWER('0x+1') AS INT64)", Code::OutOfRange, "Bad int64 value: 0x+1"),
        (
            "CAST(CONCAT(b'\\xff') AS STRING)",
            Code::OutOfRange,
            "Invalid cast of bytes to UTF8 string",
        ),
        ("CAST(1 AS DATE)", Code::InvalidArgument, "Invalid cast from INT64 to DATE [at 1:8]"),
        (
            "SAFE_CAST(1 AS BYTES)",
            Code::InvalidArgument,
            "Invalid cast from INT64 to BYTES [at 1:8]",
        ),
        (
            "CAST([1] AS ARRAY<STRING>)",
            Code::InvalidArgument,
            "Invalid cast from ARRAY<INT64> to ARRAY<STRING> [at 1:8]",
        ),
        (
            "CAST(CURRENT_TIMESTAMP() AS STRING)",
            Code::Unimplemented,
            "Not supported here: CAST from TIMESTAMP to STRING, which depends on the default time zone [at 1:8]",
        ),
        (
            "CAST('a' AS STRING(5))",
            Code::Unimplemented,
            "Not supported here: a type with a length or precision here [at 1:26]",
        ),
        ("CAST('a' AS UUID)", Code::Unimplemented, "Not supported here: the type UUID [at 1:20]"),
        (
            "CAST(1 AS STRING FORMAT '9')",
            Code::Unimplemented,
            "Not supported here: FORMAT [at 1:25]",
        ),
    ] {
        assert_eq!(world.error(&format!("SELECT {expr}")), (code, message.to_owned()), "{expr}");
    }
}
