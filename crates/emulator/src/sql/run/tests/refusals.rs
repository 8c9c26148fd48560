//! The refusals of statements.

use super::*;

#[test]
fn what_names_nothing_or_fits_nowhere_is_refused_at_its_place() {
    let mut world = world();
    for (text, message) in [
        ("SELECT * FROM Nothing", "Table not found: Nothing [at 1:15]"),
        ("SELECT a FROM Flags", "Unrecognized name: a [at 1:8]"),
        ("SELECT f.a FROM Flags AS f", "Name a not found inside f [at 1:8]"),
        ("SELECT Flags.k FROM Flags AS f", "Unrecognized name: Flags [at 1:8]"),
        (
            "SELECT 1 FROM Flags WHERE v",
            "WHERE clause should return type BOOL, but returns type INT64 [at 1:27]",
        ),
        (
            "SELECT k = 1 FROM Flags",
            "No matching signature for = for argument types: STRING, INT64 [at 1:8]",
        ),
        (
            "INSERT Flags (k, nope) VALUES (1, 2)",
            "Column nope is not present in table Flags [at 1:18]",
        ),
        (
            "INSERT Flags (k, v) VALUES ('a')",
            "Inserted row has wrong column count; Has 1, expected 2 [at 1:28]",
        ),
        (
            "INSERT Flags (k, v) VALUES ('a', 'b')",
            "Value has type STRING which cannot be inserted into column v, which has type INT64 [at 1:34]",
        ),
        ("UPDATE Flags SET x = 1 WHERE true", "Unrecognized name: x [at 1:18]"),
        ("UPDATE Flags SET k = 'a' WHERE true", "Cannot UPDATE primary key column k [at 1:18]"),
        ("SELECT 9223372036854775808", "Invalid integer literal: 9223372036854775808 [at 1:8]"),
        ("SELECT 1 WHERE true", "Query without FROM clause cannot have a WHERE clause [at 1:16]"),
        (
            "SELECT k FROM Flags LIMIT -1",
            "LIMIT expects a non-negative integer literal or parameter [at 1:27]",
        ),
        ("SELECT v = NULL FROM Flags", "Operands of = cannot be literal NULL [at 1:12]"),
        ("SELECT COUNT(*)", "Aggregate functions are not allowed in SELECT without FROM clause"),
        (
            "SELECT 1 ORDER BY 1",
            "Query without FROM clause cannot have an ORDER BY clause [at 1:19]",
        ),
        ("SELECT +'a'", "Operands of + must be numeric type but was STRING [at 1:8]"),
        ("SELECT NUMERIC '1.0000000001'", "Invalid NUMERIC literal: \"1.0000000001\" [at 1:8]"),
        ("SELECT k.x FROM Flags", "Cannot access field x on a value with type STRING [at 1:8]"),
        (
            "SELECT IF(TRUE, NULL, NULL) || 'a'",
            "No matching signature for || for argument types: INT64, STRING [at 1:8]",
        ),
        ("SELECT DATE '2026-02-30'", "Invalid DATE literal: \"2026-02-30\" [at 1:8]"),
        (
            "SELECT TIMESTAMP_DIFF(CURRENT_TIMESTAMP(), CURRENT_TIMESTAMP(), WEEK)",
            "TIMESTAMP_DIFF does not support the WEEK date part [at 1:65]",
        ),
    ] {
        let (code, found) = world.error(text);
        assert_eq!((code, found.as_str()), (Code::InvalidArgument, message), "{text}");
    }
    let pending = world.error("SELECT PENDING_COMMIT_TIMESTAMP()");
    assert_eq!(pending.0, Code::InvalidArgument);
    let unknown = world.error("SELECT SOUNDEX('a')");
    let message = "Not supported here: the function SOUNDEX [at 1:8]".to_owned();
    assert_eq!(unknown, (Code::Unimplemented, message));
    let alias = world.error("INSERT INTO Flags AS f (k) VALUES ('new')");
    let message = "Not supported here: an alias of the table in INSERT [at 1:13]".to_owned();
    assert_eq!(alias, (Code::Unimplemented, message));
}

#[test]
fn a_statement_that_fails_has_written_nothing() {
    let mut world = world();
    assert_eq!(world.error("INSERT Flags (k) VALUES ('new'), ('on')").0, Code::AlreadyExists);
    assert_eq!(world.rows("SELECT COUNT(*) FROM Flags"), ["3"]);
}

#[test]
fn functions_of_a_sequence_are_named() {
    let mut world = world();
    for function in ["GET_INTERNAL_SEQUENCE_STATE", "GET_NEXT_SEQUENCE_VALUE"] {
        let (code, message) = world.error(&format!("SELECT {function}(SEQUENCE s)"));
        assert_eq!(code, Code::Unimplemented);
        assert!(message.contains(function), "{message}");
    }
    let column = "SELECT COUNT(sequence), MAX(sequence + 1) FROM (SELECT 1 AS sequence)";
    assert_eq!(world.rows(column), ["1 2"], "a column may have that name");
    let column = "SELECT LOGICAL_OR(sequence IS NULL) FROM (SELECT 1 AS sequence)";
    assert_eq!(world.rows(column), ["false"]);
}
