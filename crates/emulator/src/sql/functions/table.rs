//! The table.

use super::fold::Fold;
use super::function::Code::{
    Aggregate, Coalesce, If, Now, NullIf, PendingCommitTimestamp, Plain, Strict,
};
use super::function::{Code, Function};
use super::{
    array, date, encoding, extract, fold, format, json, like, number, padding, regexp, text,
    time_format, timestamp,
};

const fn row(name: &'static str, forms: &'static str, code: Code) -> Function {
    Function { name, forms, code }
}

const OF_TEXT: &str = "STRING -> STRING; BYTES -> BYTES";
const OF_NUMBER: &str = "INT64 -> INT64; FLOAT64 -> FLOAT64; NUMERIC -> NUMERIC";
const OF_FRACTION: &str = "FLOAT64 -> FLOAT64; NUMERIC -> NUMERIC";
const OF_NUMBERS: &str =
    "INT64, INT64 -> INT64; FLOAT64, FLOAT64 -> FLOAT64; NUMERIC, NUMERIC -> NUMERIC";
const OF_FRACTIONS: &str = "FLOAT64, FLOAT64 -> FLOAT64; NUMERIC, NUMERIC -> NUMERIC";
const PADDED: &str = "STRING, INT64, [STRING] -> STRING; BYTES, INT64, [BYTES] -> BYTES";
const TRIMMED: &str = "STRING, [STRING] -> STRING; BYTES, BYTES -> BYTES";
const ABOUT_TWO: &str = "STRING, STRING -> BOOL; BYTES, BYTES -> BOOL";
const SUBSTR: &str = "STRING, INT64, [INT64] -> STRING; BYTES, INT64, [INT64] -> BYTES";
const SHIFTED: &str = "TIMESTAMP, INTERVAL -> TIMESTAMP";
const SHIFTED_DATE: &str = "DATE, INTERVAL -> DATE";

pub static TABLE: &[Function] = &[
    row("+", OF_NUMBERS, Strict(number::add)),
    row("-", OF_NUMBERS, Strict(number::subtract)),
    row("*", OF_NUMBERS, Strict(number::multiply)),
    row("/", OF_FRACTIONS, Strict(number::divide)),
    row(
        "||",
        "STRING, STRING -> STRING; BYTES, BYTES -> BYTES; ARRAY<T>, ARRAY<T> -> ARRAY<T>",
        Strict(text::concat),
    ),
    row("LIKE", ABOUT_TWO, Strict(like::like)),
    // These functions decide by themselves what is evaluated.
    row("IF", "BOOL, T, T -> T", If),
    row("COALESCE", "T, T... -> T", Coalesce),
    row("IFNULL", "T, T -> T", Coalesce),
    row("NULLIF", "T=, T= -> T", NullIf),
    // Numbers.
    row("ABS", OF_NUMBER, Strict(number::absolute)),
    row("SIGN", OF_NUMBER, Strict(number::sign)),
    row("MOD", "INT64, INT64 -> INT64; NUMERIC, NUMERIC -> NUMERIC", Strict(number::remainder)),
    row("DIV", "INT64, INT64 -> INT64; NUMERIC, NUMERIC -> NUMERIC", Strict(number::quotient)),
    row("ROUND", "FLOAT64, [INT64] -> FLOAT64; NUMERIC, [INT64] -> NUMERIC", Strict(number::round)),
    row(
        "TRUNC",
        "FLOAT64, [INT64] -> FLOAT64; NUMERIC, [INT64] -> NUMERIC",
        Strict(number::truncate),
    ),
    row("CEIL", OF_FRACTION, Strict(number::ceiling)),
    row("CEILING", OF_FRACTION, Strict(number::ceiling)),
    row("FLOOR", OF_FRACTION, Strict(number::floor)),
    row("SQRT", OF_FRACTION, Strict(number::square_root)),
    row("POW", OF_FRACTIONS, Strict(number::power)),
    row("POWER", OF_FRACTIONS, Strict(number::power)),
    row("IEEE_DIVIDE", "FLOAT64, FLOAT64 -> FLOAT64", Strict(number::ieee_divide)),
    row("SAFE_DIVIDE", OF_FRACTIONS, Strict(number::safe_divide)),
    row("SAFE_ADD", OF_NUMBERS, Strict(number::safe_add)),
    row("SAFE_SUBTRACT", OF_NUMBERS, Strict(number::safe_subtract)),
    row("SAFE_MULTIPLY", OF_NUMBERS, Strict(number::safe_multiply)),
    row("SAFE_NEGATE", OF_NUMBER, Strict(number::safe_negate)),
    row("IS_NAN", "FLOAT64 -> BOOL", Strict(number::is_nan)),
    row("IS_INF", "FLOAT64 -> BOOL", Strict(number::is_infinite)),
    row("GREATEST", "T=, T=... -> T", Strict(fold::greatest)),
    row("LEAST", "T=, T=... -> T", Strict(fold::least)),
    // Texts.
    row("STARTS_WITH", ABOUT_TWO, Strict(text::starts_with)),
    row("ENDS_WITH", ABOUT_TWO, Strict(text::ends_with)),
    row("STRPOS", "STRING, STRING -> INT64; BYTES, BYTES -> INT64", Strict(text::place)),
    row("LENGTH", "STRING -> INT64; BYTES -> INT64", Strict(text::length)),
    row("CHAR_LENGTH", "STRING -> INT64", Strict(text::length)),
    row("CHARACTER_LENGTH", "STRING -> INT64", Strict(text::length)),
    row("BYTE_LENGTH", "STRING -> INT64; BYTES -> INT64", Strict(text::byte_length)),
    row("OCTET_LENGTH", "STRING -> INT64; BYTES -> INT64", Strict(text::byte_length)),
    row("CONCAT", "STRING, STRING... -> STRING; BYTES, BYTES... -> BYTES", Strict(text::concat)),
    row("LOWER", OF_TEXT, Strict(text::lower)),
    row("UPPER", OF_TEXT, Strict(text::upper)),
    row(
        "REPLACE",
        "STRING, STRING, STRING -> STRING; BYTES, BYTES, BYTES -> BYTES",
        Strict(text::replaced),
    ),
    row("TRIM", TRIMMED, Strict(text::trim)),
    row("LTRIM", TRIMMED, Strict(text::trim_start)),
    row("RTRIM", TRIMMED, Strict(text::trim_end)),
    row("SUBSTR", SUBSTR, Strict(text::substring)),
    row("SUBSTRING", SUBSTR, Strict(text::substring)),
    row("LPAD", PADDED, Strict(padding::pad_start)),
    row("RPAD", PADDED, Strict(padding::pad_end)),
    row("REPEAT", "STRING, INT64 -> STRING; BYTES, INT64 -> BYTES", Strict(padding::repeat)),
    row("REVERSE", OF_TEXT, Strict(text::reverse)),
    row(
        "SPLIT",
        "STRING, [STRING] -> ARRAY<STRING>; BYTES, BYTES -> ARRAY<BYTES>",
        Strict(text::split),
    ),
    row("TO_HEX", "BYTES -> STRING", Strict(encoding::to_hex)),
    row("FROM_HEX", "STRING -> BYTES", Strict(encoding::from_hex)),
    row("TO_BASE64", "BYTES -> STRING", Strict(encoding::to_base64)),
    row("FROM_BASE64", "STRING -> BYTES", Strict(encoding::from_base64)),
    row("GENERATE_UUID", "-> STRING", Plain(text::uuid)),
    row("REGEXP_CONTAINS", "STRING, STRING -> BOOL; others", Strict(regexp::contains)),
    row("REGEXP_EXTRACT", "STRING, STRING -> STRING; others", Strict(regexp::extract)),
    row("REGEXP_REPLACE", "STRING, STRING, STRING -> STRING; others", Strict(regexp::replace)),
    row(format::NAME, "STRING, ANY... -> STRING", Plain(format::format)),
    // Arrays.
    row("ARRAY_LENGTH", "ARRAY<T> -> INT64", Strict(array::length)),
    row("ARRAY_CONCAT", "ARRAY<T>, ARRAY<T>... -> ARRAY<T>", Strict(text::concat)),
    row("ARRAY_REVERSE", "ARRAY<T> -> ARRAY<T>", Strict(array::reverse)),
    row(
        "ARRAY_TO_STRING",
        "ARRAY<STRING>, STRING, [STRING] -> STRING; ARRAY<BYTES>, BYTES, [BYTES] -> BYTES; others",
        Strict(array::to_string),
    ),
    row("GENERATE_ARRAY", "INT64, INT64, [INT64] -> ARRAY<INT64>; others", Strict(array::generate)),
    // Dates and times.
    row("CURRENT_TIMESTAMP", "-> TIMESTAMP", Now),
    row("PENDING_COMMIT_TIMESTAMP", "-> TIMESTAMP", PendingCommitTimestamp),
    row("TIMESTAMP", "STRING -> TIMESTAMP; others", Strict(timestamp::parsed)),
    row("TIMESTAMP_ADD", SHIFTED, Strict(timestamp::add)),
    row("TIMESTAMP_SUB", SHIFTED, Strict(timestamp::subtract)),
    row("TIMESTAMP_DIFF", "TIMESTAMP, TIMESTAMP, PART -> INT64", Strict(timestamp::difference)),
    row("TIMESTAMP_SECONDS", "INT64 -> TIMESTAMP", Strict(timestamp::of_seconds)),
    row("TIMESTAMP_MILLIS", "INT64 -> TIMESTAMP", Strict(timestamp::of_millis)),
    row("TIMESTAMP_MICROS", "INT64 -> TIMESTAMP", Strict(timestamp::of_micros)),
    row("UNIX_SECONDS", "TIMESTAMP -> INT64", Strict(timestamp::seconds)),
    row("UNIX_MILLIS", "TIMESTAMP -> INT64", Strict(timestamp::millis)),
    row("UNIX_MICROS", "TIMESTAMP -> INT64", Strict(timestamp::micros)),
    row("DATE", "INT64, INT64, INT64 -> DATE; others", Strict(date::of_civil)),
    row("DATE_ADD", SHIFTED_DATE, Strict(date::add)),
    row("DATE_SUB", SHIFTED_DATE, Strict(date::subtract)),
    row("DATE_DIFF", "DATE, DATE, PART -> INT64", Strict(date::difference)),
    row("DATE_TRUNC", "DATE, PART -> DATE", Strict(date::truncate)),
    row("UNIX_DATE", "DATE -> INT64", Strict(date::days)),
    row("DATE_FROM_UNIX_DATE", "INT64 -> DATE", Strict(date::of_days)),
    row("FORMAT_DATE", "STRING, DATE -> STRING", Strict(time_format::format_date)),
    row(
        "FORMAT_TIMESTAMP",
        "STRING, TIMESTAMP, STRING -> STRING; others",
        Strict(time_format::format_timestamp),
    ),
    row("PARSE_DATE", "STRING, STRING -> DATE", Strict(time_format::parse_date)),
    row(
        "PARSE_TIMESTAMP",
        "STRING, STRING, [STRING] -> TIMESTAMP",
        Strict(time_format::parse_timestamp),
    ),
    row(
        extract::NAME,
        "DATE, PART -> INT64; TIMESTAMP, PART, STRING -> INT64",
        Strict(extract::extract),
    ),
    // Documents.
    row("JSON_VALUE", "JSON, [STRING] -> STRING; others", Strict(json::scalar)),
    row("JSON_QUERY", "JSON, STRING -> JSON; others", Strict(json::part)),
    row("PARSE_JSON", "STRING -> JSON; others", Strict(json::parsed)),
    row("TO_JSON_STRING", "T -> STRING; others", Plain(json::text)),
    // Of all rows.
    row("COUNT", "T -> INT64", Aggregate(Fold::Count)),
    row("COUNTIF", "BOOL -> INT64", Aggregate(Fold::CountIf)),
    row("SUM", OF_NUMBER, Aggregate(Fold::Sum)),
    row(
        "AVG",
        "INT64 -> FLOAT64; FLOAT64 -> FLOAT64; NUMERIC -> NUMERIC",
        Aggregate(Fold::Average),
    ),
    row("MIN", "T= -> T", Aggregate(Fold::Min)),
    row("MAX", "T= -> T", Aggregate(Fold::Max)),
    row("ANY_VALUE", "T -> T", Aggregate(Fold::Any)),
    row("LOGICAL_AND", "BOOL -> BOOL", Aggregate(Fold::And)),
    row("LOGICAL_OR", "BOOL -> BOOL", Aggregate(Fold::Or)),
    row(
        "STRING_AGG",
        "STRING, [STRING] -> STRING; BYTES, [BYTES] -> BYTES",
        Aggregate(Fold::Joined),
    ),
    row("ARRAY_AGG", "T -> ARRAY<T>", Aggregate(Fold::Array)),
];
