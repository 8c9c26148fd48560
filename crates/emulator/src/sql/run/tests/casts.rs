//! `CAST` and `SAFE_CAST`.

use super::*;

#[test]
fn values_become_those_of_another_type() {
    let mut world = Memory::new("");
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
