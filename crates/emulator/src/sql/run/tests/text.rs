//! Functions on texts and numbers, and `LIKE`.

use super::*;

#[test]
fn texts_are_matched_against_patterns() {
    let mut world = world();
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
