//! Regular expressions and formats.

use super::*;

#[test]
fn regular_expressions_match_as_re2_does() {
    let mut world = world();
    for (expr, value) in [
        (r"REGEXP_CONTAINS('foo@example.com', r'@[a-z]+\.com$')", "true"),
        ("REGEXP_CONTAINS('x', NULL)", "NULL"),
        (r"REGEXP_EXTRACT('2026-01-02', r'\d+-(\d+)')", "01"),
        ("REGEXP_EXTRACT('b', '(a)|b')", "NULL"),
        ("REGEXP_EXTRACT('b', 'a')", "NULL"),
        ("REGEXP_EXTRACT('b', '')", ""),
        (r"REGEXP_REPLACE('aXbx', '(?i)x', r'<\0>')", "a<X>b<x>"),
        ("REGEXP_REPLACE('abc', 'b*', '-')", "-a-c-"),
        (r"REGEXP_REPLACE('ab', '(a)(b)', r'\2\1\\')", r"ba\"),
    ] {
        assert_eq!(world.one(expr), value, "{expr}");
    }
    for (expr, code) in [
        ("REGEXP_CONTAINS('a', '(')", Code::OutOfRange),
        ("REGEXP_EXTRACT('a', '(a)(b)')", Code::OutOfRange),
        (r"REGEXP_REPLACE('a', 'a', r'\1')", Code::OutOfRange),
        (r"REGEXP_REPLACE('a', 'a', '\\')", Code::OutOfRange),
        (r"REGEXP_CONTAINS('a', r'\pL')", Code::Unimplemented),
        ("REGEXP_CONTAINS(b'a', b'a')", Code::Unimplemented),
    ] {
        assert_eq!(world.error(&format!("SELECT {expr}")).0, code, "{expr}");
    }
}

#[test]
fn format_shows_values_as_they_are_asked_for() {
    let mut world = world();
    for (expr, value) in [
        ("FORMAT('%d|%5d|%-3d|%04d', 1, -2, 3, -4)", "1|   -2|3  |-004"),
        ("FORMAT('%s%%%4s|%-3s', 'é', 'ß', 'x')", "é%   ß|x  "),
        ("FORMAT('%f %.1f %6.2f', 1.5, 2.25, NUMERIC '-2.345')", "1.500000 2.2  -2.35"),
        ("FORMAT('%f %.0f', -0.0, NUMERIC '-0.1')", "0.000000 -0"),
        ("FORMAT('%t %T', 'a', 'a')", "a \"a\""),
        ("FORMAT('%t %T', DATE '2026-01-02', NUMERIC '1.5')", "2026-01-02 NUMERIC \"1.5\""),
        ("FORMAT('%T', ['x', NULL])", "[\"x\", NULL]"),
        ("FORMAT('%t', CAST(NULL AS STRING))", "NULL"),
        ("FORMAT('%d %t', NULL, 1)", "NULL"),
    ] {
        assert_eq!(world.one(expr), value, "{expr}");
    }
    for (expr, code) in [
        ("FORMAT('%d', 'x')", Code::InvalidArgument),
        ("FORMAT('%d')", Code::InvalidArgument),
        ("FORMAT('x', 1)", Code::InvalidArgument),
        ("FORMAT('%x', 1)", Code::Unimplemented),
        ("FORMAT('%t', CURRENT_TIMESTAMP())", Code::Unimplemented),
        ("FORMAT(k, 1) FROM Flags", Code::Unimplemented),
    ] {
        assert_eq!(world.error(&format!("SELECT {expr}")).0, code, "{expr}");
    }
}

#[test]
fn dates_and_times_have_formats() {
    let mut world = world();
    let moment = "TIMESTAMP '2026-01-02 13:04:05.25Z'";
    for (expr, value) in [
        ("FORMAT_DATE('%Y-%m-%d %j %a %B', DATE '2026-01-02')", "2026-01-02 002 Fri January"),
        ("FORMAT_TIMESTAMP('%FT%H:%M:%E*SZ', @, 'UTC')", "2026-01-02T13:04:05.25Z"),
        ("FORMAT_TIMESTAMP('%I %p %E3S %Ez', @, 'UTC')", "01 PM 05.250 +00:00"),
        ("PARSE_DATE('%d.%m.%Y', ' 2.1.2026')", "2026-01-02"),
        ("PARSE_TIMESTAMP('%F %T', '2026-01-02 13:04:05', 'UTC')", "2026-01-02T13:04:05Z"),
        ("PARSE_TIMESTAMP('%Y%m%dT%E*S%Ez', '20260102T5.5+01:30')", "2026-01-01T22:30:05.5Z"),
    ] {
        let expr = expr.replace('@', moment);
        assert_eq!(world.one(&expr), value, "{expr}");
    }
    for (expr, code) in [
        ("PARSE_DATE('%F', '2026-02-30')", Code::OutOfRange),
        ("PARSE_DATE('%F', '2026-02-03x')", Code::OutOfRange),
        ("PARSE_TIMESTAMP('%F', '2026-02-03')", Code::Unimplemented),
        ("PARSE_TIMESTAMP('%F', '2026-02-03', 'Europe/Berlin')", Code::Unimplemented),
        ("PARSE_DATE('%H', '1')", Code::Unimplemented),
        ("FORMAT_TIMESTAMP('%F', CURRENT_TIMESTAMP())", Code::Unimplemented),
        ("FORMAT_DATE('%G', DATE '2026-01-02')", Code::Unimplemented),
    ] {
        assert_eq!(world.error(&format!("SELECT {expr}")).0, code, "{expr}");
    }
}
