//! Functions on texts and numbers, and `LIKE`.

use super::*;

#[test]
fn texts_are_matched_against_patterns() {
    let mut world = world();
    for (expr, value) in [
        ("'abc' LIKE 'a%'", "true"),
        ("'abc' LIKE '_b_'", "true"),
        ("'abc' LIKE 'a'", "false"),
        ("'abc' NOT LIKE '%x%'", "true"),
        ("'' LIKE '%'", "true"),
        ("'' LIKE '_'", "false"),
        ("'é' LIKE '_'", "true"),
        ("'a%c' LIKE r'a\\%c'", "true"),
        ("'abc' LIKE r'a\\%c'", "false"),
        ("'a\\nb' LIKE 'a_b'", "true"),
        ("'aXbXc' LIKE '%X%c'", "true"),
        ("'mississippi' LIKE '%iss%ip%'", "true"),
        ("'mississippi' LIKE '%iss%iss%iss%'", "false"),
        ("b'\\xff\\x00' LIKE b'_\\x00'", "true"),
        ("CAST(NULL AS STRING) LIKE 'a'", "NULL"),
        ("'a' LIKE CAST(NULL AS STRING)", "NULL"),
    ] {
        assert_eq!(world.one(expr), value, "{expr}");
    }
    assert_eq!(world.rows("SELECT k FROM Flags WHERE k LIKE 'o%' ORDER BY k"), ["off", "on"]);
    assert_eq!(
        world.error("SELECT 'a' LIKE 'a\\\\'"),
        (Code::OutOfRange, "LIKE pattern ends with a backslash".into())
    );
    assert_eq!(world.error("SELECT 1 LIKE 'a'").0, Code::InvalidArgument);
    assert_eq!(
        world.error("SELECT 'a' LIKE ANY ('a', 'b')"),
        (Code::Unimplemented, "Not supported here: ANY [at 1:17]".into())
    );
    let long = format!("SELECT LOWER('{}') LIKE '%{}b'", "a".repeat(900_000), "a".repeat(50_000));
    assert_eq!(world.error(&long).0, Code::ResourceExhausted, "it would take minutes");
    let bytes = format!("STRPOS(b'{}', b'{}b')", "a".repeat(450_000), "a".repeat(200_000));
    assert_eq!(world.error(&format!("SELECT {bytes}")).0, Code::ResourceExhausted);
}

#[test]
fn texts_are_taken_apart_and_put_together() {
    let mut world = Memory::new("");
    for (expr, value) in [
        ("LOWER('ÄB')", "äb"),
        ("UPPER('äb')", "ÄB"),
        ("UPPER(b'a\\xe4')", "[65, 228]"),
        ("CHAR_LENGTH('é')", "1"),
        ("BYTE_LENGTH('é')", "2"),
        ("SUBSTR('apple', 2)", "pple"),
        ("SUBSTR('apple', 2, 2)", "pp"),
        ("SUBSTR('apple', -2)", "le"),
        ("SUBSTR('apple', 0, 2)", "ap"),
        ("SUBSTR('apple', -9, 2)", "ap"),
        ("SUBSTR('apple', 9)", ""),
        ("SUBSTR('apple', 2, 9223372036854775807)", "pple"),
        ("SUBSTR('apple', -9223372036854775808)", "apple"),
        ("SUBSTR(b'apple', 5, 5)", "[101]"),
        ("'[' || TRIM('  a b\\n') || ']'", "[a b]"),
        ("TRIM('***a*', '*')", "a"),
        ("LTRIM('xya', 'yx')", "a"),
        ("RTRIM('axy', 'yx')", "a"),
        ("TRIM(b'aba', b'a')", "[98]"),
        ("REPLACE('aXbX', 'X', '')", "ab"),
        ("REPLACE('ab', '', 'x')", "ab"),
        ("REPLACE(b'aXb', b'X', b'yy')", "[97, 121, 121, 98]"),
        ("ENDS_WITH('abc', 'bc')", "true"),
        ("STRPOS('héé', 'é')", "2"),
        ("STRPOS('a', 'x')", "0"),
        ("STRPOS(b'abc', b'c')", "3"),
        ("CONCAT('a', NULL)", "NULL"),
        ("CHAR_LENGTH(GENERATE_UUID())", "36"),
        ("SUBSTR(GENERATE_UUID(), 15, 1)", "4"),
        ("GENERATE_UUID() = GENERATE_UUID()", "false"),
        ("ABS(-5)", "5"),
        ("ABS(-1.5)", "1.5"),
        ("MOD(-7, 3)", "-1"),
        ("MOD(-9223372036854775808, -1)", "0"),
        ("GREATEST(1, 3, 2)", "3"),
        ("GREATEST('a', 'c', 'b')", "c"),
        ("LEAST(1, 0.5)", "0.5"),
        ("LEAST(1, NULL)", "NULL"),
        ("GREATEST(1.0, CAST('nan' AS FLOAT64))", "NaN"),
        ("LEAST(CAST('nan' AS FLOAT64), 1.0)", "NaN"),
    ] {
        assert_eq!(world.one(expr), value, "{expr}");
    }
    for (expr, code) in [
        ("SUBSTR('a', 1, -1)", Code::OutOfRange),
        ("MOD(1, 0)", Code::OutOfRange),
        ("ABS(-9223372036854775808)", Code::OutOfRange),
        ("MOD(CAST(1.5 AS FLOAT64), 1)", Code::InvalidArgument),
        ("CHAR_LENGTH(b'a')", Code::InvalidArgument),
        ("TRIM(b'a')", Code::InvalidArgument),
        ("LOWER(1)", Code::InvalidArgument),
        ("REPLACE('a', 'b')", Code::InvalidArgument),
        ("LOWER()", Code::InvalidArgument),
        ("SUBSTR('a')", Code::InvalidArgument),
        ("GREATEST([1], [2])", Code::InvalidArgument),
        ("NORMALIZE('a')", Code::Unimplemented),
        ("MOD(NUMERIC '1.5', 1)", Code::Unimplemented),
        ("SPLIT('a,b')", Code::Unimplemented),
        ("EXTRACT(DAY FROM CURRENT_TIMESTAMP())", Code::Unimplemented),
        ("FORMAT('%d', 1)", Code::Unimplemented),
        ("SPLITT('a,b')", Code::InvalidArgument),
        ("AVG(1)", Code::InvalidArgument),
    ] {
        assert_eq!(world.error(&format!("SELECT {expr}")).0, code, "{expr}");
    }
}

#[test]
fn a_random_value_is_looked_for_in_every_row() {
    let mut world = world();
    assert_eq!(world.ranges_of("SELECT k FROM Flags WHERE k = GENERATE_UUID()"), "all");
}

#[test]
fn aggregates_make_one_row_of_all() {
    let mut world = world();
    assert_eq!(
        world.rows(
            "SELECT SUM(id), MIN(price), MAX(note), COUNT(DISTINCT note), SUM(price) FROM Orders"
        ),
        ["12 -1.0 b 3 3.0"]
    );
    assert_eq!(world.rows("SELECT SUM(DISTINCT shard) + 1, MAX(id * 2) FROM Orders"), ["4 10"]);
    assert_eq!(
        world.rows("SELECT SUM(id), MIN(id), COUNT(DISTINCT id) FROM Orders WHERE shard = 9"),
        ["NULL NULL 0"]
    );
    assert_eq!(
        world.rows("SELECT AVG(id), LOGICAL_OR(paid), COUNTIF(paid) FROM Orders"),
        ["2.4 true 3"]
    );
    assert_eq!(world.rows("SELECT SUM(id) FROM Orders ORDER BY MAX(id), 1 LIMIT 1"), ["12"]);
    world.write("INSERT Flags (k, v) VALUES ('big', 9223372036854775807)");
    assert_eq!(world.error("SELECT SUM(v) FROM Flags").0, Code::OutOfRange);
    for (text, code) in [
        ("SELECT SUM(note) FROM Orders", Code::InvalidArgument),
        ("SELECT MIN(MAX(id)) FROM Orders", Code::InvalidArgument),
        ("SELECT note FROM Orders ORDER BY MAX(id)", Code::InvalidArgument),
        ("SELECT id, MAX(id) FROM Orders", Code::InvalidArgument),
        ("SELECT 1 FROM Orders WHERE MAX(id) > 1", Code::InvalidArgument),
        ("SELECT LOWER(DISTINCT note) FROM Orders", Code::InvalidArgument),
    ] {
        assert_eq!(world.error(text).0, code, "{text}");
    }
}
