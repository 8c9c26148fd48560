//! The table.

use std::cmp::Ordering;

use super::fold::{Fold, extreme};
use super::function::Code::{
    Aggregate, Coalesce, If, Now, NullIf, PendingCommitTimestamp, Plain, Strict,
};
use super::function::{Code, Function};
use super::{array, like, number, text, timestamp};

const fn row(name: &'static str, forms: &'static str, code: Code) -> Function {
    Function { name, forms, code }
}

const OF_TEXT: &str = "STRING -> STRING; BYTES -> ?";
const OF_NUMBER: &str = "INT64 -> INT64; FLOAT64 -> FLOAT64; NUMERIC -> NUMERIC";
const OF_NUMBERS: &str =
    "INT64, INT64 -> INT64; FLOAT64, FLOAT64 -> FLOAT64; NUMERIC, NUMERIC -> NUMERIC";
const OF_FRACTIONS: &str = "FLOAT64, FLOAT64 -> FLOAT64; NUMERIC, NUMERIC -> NUMERIC";
const ABOUT_TWO: &str = "STRING, STRING -> BOOL; BYTES, BYTES -> BOOL";
const REPLACED: &str = "STRING, STRING, STRING -> STRING; BYTES, BYTES, BYTES -> ?";
const TRIMMED: &str = "STRING, [STRING] -> STRING; BYTES, BYTES -> ?";
const SUBSTR: &str = "STRING, INT64, [INT64] -> STRING; BYTES, INT64, [INT64] -> ?";
const SHIFTED: &str = "TIMESTAMP, INTERVAL -> TIMESTAMP";

pub static TABLE: &[Function] = &[
    row("+", OF_NUMBERS, Strict(|it| number::binary('+', it))),
    row("-", OF_NUMBERS, Strict(|it| number::binary('-', it))),
    row("*", OF_NUMBERS, Strict(|it| number::binary('*', it))),
    row("/", OF_FRACTIONS, Strict(|it| number::binary('/', it))),
    row(
        "||",
        "STRING, STRING -> STRING; BYTES, BYTES -> BYTES; ARRAY<T>, ARRAY<T> -> ARRAY<T>",
        Strict(text::concat),
    ),
    row("LIKE", "STRING, STRING -> BOOL; BYTES, BYTES -> ?", Strict(like::like)),
    // These functions decide by themselves what is evaluated.
    row("IF", "BOOL, T, T -> T", If),
    row("COALESCE", "T, T... -> T", Coalesce),
    row("IFNULL", "T, T -> T", Coalesce),
    row("NULLIF", "T=, T= -> T", NullIf),
    // Numbers.
    row("ABS", OF_NUMBER, Strict(number::absolute)),
    row("DIV", "INT64, INT64 -> INT64; NUMERIC, NUMERIC -> ?", Strict(number::quotient)),
    row("MOD", "INT64, INT64 -> INT64; NUMERIC, NUMERIC -> ?", Strict(number::remainder)),
    row("GREATEST", "T=, T=... -> T", Strict(|it| Ok(extreme(it, Ordering::Greater)))),
    row("LEAST", "T=, T=... -> T", Strict(|it| Ok(extreme(it, Ordering::Less)))),
    // Texts.
    row("STARTS_WITH", ABOUT_TWO, Strict(text::starts_with)),
    row("ENDS_WITH", "STRING, STRING -> BOOL; BYTES, BYTES -> ?", Strict(text::ends_with)),
    row("STRPOS", "STRING, STRING -> INT64; BYTES, BYTES -> ?", Strict(text::place)),
    row("REPLACE", REPLACED, Strict(text::replaced)),
    row("TRIM", TRIMMED, Strict(text::trim)),
    row("LTRIM", TRIMMED, Strict(text::trim_start)),
    row("RTRIM", TRIMMED, Strict(text::trim_end)),
    row("LENGTH", "STRING -> INT64; BYTES -> INT64", Strict(text::length)),
    row("CHAR_LENGTH", "STRING -> INT64", Strict(text::length)),
    row("CHARACTER_LENGTH", "STRING -> INT64", Strict(text::length)),
    row("BYTE_LENGTH", "STRING -> INT64; BYTES -> INT64", Strict(text::byte_length)),
    row("OCTET_LENGTH", "STRING -> INT64; BYTES -> INT64", Strict(text::byte_length)),
    row("CONCAT", "STRING, STRING... -> STRING; BYTES, BYTES... -> BYTES", Strict(text::concat)),
    row("LOWER", OF_TEXT, Strict(text::lower)),
    row("UPPER", OF_TEXT, Strict(text::upper)),
    row("SUBSTR", SUBSTR, Strict(text::substring)),
    row("SUBSTRING", SUBSTR, Strict(text::substring)),
    row("GENERATE_UUID", "-> STRING", Plain(text::uuid)),
    // Arrays.
    row("ARRAY_LENGTH", "ARRAY<T> -> INT64", Strict(array::length)),
    row(
        "ARRAY_TO_STRING",
        "ARRAY<STRING>, STRING, [STRING] -> STRING; ARRAY<T>, STRING, [STRING] -> ?; \
         ARRAY<T>, BYTES, [BYTES] -> ?",
        Strict(array::to_string),
    ),
    // Times.
    row("CURRENT_TIMESTAMP", "-> TIMESTAMP", Now),
    row("PENDING_COMMIT_TIMESTAMP", "-> TIMESTAMP", PendingCommitTimestamp),
    row("TIMESTAMP_ADD", SHIFTED, Strict(timestamp::add)),
    row("TIMESTAMP_SUB", SHIFTED, Strict(timestamp::subtract)),
    row("TIMESTAMP_DIFF", "TIMESTAMP, TIMESTAMP, PART -> INT64", Strict(timestamp::difference)),
    // Of all rows.
    row("COUNT", "T -> INT64", Aggregate(Fold::Count)),
    row("SUM", "INT64 -> INT64; FLOAT64 -> ?; NUMERIC -> NUMERIC", Aggregate(Fold::Sum)),
    row("AVG", "INT64 -> FLOAT64; FLOAT64 -> ?; NUMERIC -> ?", Aggregate(Fold::Average)),
    row("MIN", "T= -> T", Aggregate(Fold::Min)),
    row("MAX", "T= -> T", Aggregate(Fold::Max)),
];
