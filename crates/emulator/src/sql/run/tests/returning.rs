//! `THEN RETURN`, `INSERT OR UPDATE` and `INSERT OR IGNORE`.

use super::*;

impl Memory {
    /// How many rows a statement wrote, and what it showed of them.
    fn returned(&mut self, text: &str) -> (u64, Vec<String>) {
        match self.run(text, &Parameters::default()) {
            Ok(Outcome::Returned { count, rows, .. }) => {
                let row = |row: &Vec<Value>| row.iter().map(shown).collect::<Vec<_>>().join(" ");
                (count, rows.iter().map(row).collect())
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn what_was_written_comes_back() {
    let mut world = world();
    assert_eq!(
        world.returned(
            "INSERT Flags (k, v) VALUES ('a', 1 + 1), ('b', NULL) THEN RETURN *, v * 10 AS ten"
        ),
        (2, vec!["a 2 20".to_owned(), "b NULL NULL".to_owned()])
    );
    assert_eq!(
        world.returned("UPDATE Flags f SET v = v + 1 WHERE k IN ('a', 'on') THEN RETURN f.v, k"),
        (2, vec!["3 a".to_owned(), "2 on".to_owned()])
    );
    assert_eq!(
        world.returned("DELETE Flags WHERE k < 'c' THEN RETURN Flags.*"),
        (2, vec!["a 3".to_owned(), "b NULL".to_owned()])
    );
    assert_eq!(world.returned("DELETE Flags WHERE k = 'zz' THEN RETURN k"), (0, vec![]));
    assert_eq!(
        world.returned("INSERT Flags (k) SELECT k || '2' FROM Flags THEN RETURN k"),
        (3, vec!["off2".to_owned(), "on2".to_owned(), "x2".to_owned()])
    );
    let outcome =
        world.run("DELETE Flags WHERE true THEN RETURN v AS w, NULL", &Parameters::default());
    match outcome.unwrap() {
        Outcome::Returned { columns, .. } => {
            assert_eq!(columns, [("w".into(), Type::Int64), (String::new(), Type::Int64)]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_cannot_come_back_is_refused_and_nothing_is_written() {
    let mut world = world();
    for (text, code) in [
        ("INSERT Flags (k) VALUES ('n') THEN RETURN nope", Code::InvalidArgument),
        ("INSERT Flags (k) VALUES ('n') THEN RETURN COUNT(*)", Code::InvalidArgument),
        ("INSERT Flags (k) VALUES ('n') THEN RETURN 1/0", Code::OutOfRange),
        ("INSERT Flags (k) VALUES ('n') THEN RETURN WITH ACTION k", Code::Unimplemented),
        ("INSERT Flags (k) VALUES ('n') THEN RETURN * EXCEPT (k)", Code::Unimplemented),
        (
            "DELETE Flags WHERE true THEN RETURN NOT EXISTS (SELECT 1 FROM Flags)",
            Code::Unimplemented,
        ),
        (
            "INSERT locktable (name, token) VALUES ('n', PENDING_COMMIT_TIMESTAMP()) THEN RETURN token",
            Code::InvalidArgument,
        ),
        (
            "UPDATE locktable SET token = PENDING_COMMIT_TIMESTAMP() WHERE true THEN RETURN nope",
            Code::InvalidArgument,
        ),
    ] {
        assert_eq!(world.error(text).0, code, "{text}");
    }
    assert_eq!(world.rows("SELECT COUNT(*) FROM Flags"), ["3"]);
    assert_eq!(world.rows("SELECT COUNT(*) FROM locktable"), ["0"]);
    let pending =
        "INSERT locktable (name, token) VALUES ('n', PENDING_COMMIT_TIMESTAMP()) THEN RETURN name";
    assert_eq!(world.returned(pending), (1, vec!["n".to_owned()]));
}

#[test]
fn rows_that_are_there_are_updated_or_left_alone() {
    let mut world = world();
    assert_eq!(
        world.returned(
            "INSERT OR UPDATE Flags (k, v) VALUES ('on', 5), ('new', 6) THEN RETURN k, v"
        ),
        (2, vec!["on 5".to_owned(), "new 6".to_owned()])
    );
    assert_eq!(
        world.returned("INSERT OR IGNORE INTO Flags (k, v) VALUES ('on', 9), ('z', 1), ('z', 2) THEN RETURN k, v"),
        (1, vec!["z 1".to_owned()])
    );
    assert_eq!(world.write("INSERT OR IGNORE INTO Flags (k, v) VALUES ('on', 9)"), 0);
    assert_eq!(world.rows("SELECT k, v FROM Flags"), ["new 6", "off 0", "on 5", "x NULL", "z 1"]);
    assert_eq!(world.write("INSERT OR UPDATE Orders (shard, id, note) VALUES (1, 1, 'n')"), 1);
    assert_eq!(
        world.rows("SELECT note, price FROM Orders WHERE shard = 1 AND id = 1"),
        ["n 1.5"],
        "what isn't mentioned stays"
    );
    assert_eq!(
        world.error("INSERT OR UPDATE Flags (k, v) VALUES ('q', 1), ('q', 2)"),
        (Code::InvalidArgument, "Cannot affect a row second time for key: {String(\"q\")}".into())
    );
    assert_eq!(world.ranges_of("INSERT OR IGNORE Flags (k) VALUES ('on')"), "(on) to (on)+");
    assert_eq!(
        world.error("INSERT OR REPLACE Flags (k) VALUES ('on')"),
        (Code::Unimplemented, "Not supported here: OR [at 1:8]".into())
    );
}
