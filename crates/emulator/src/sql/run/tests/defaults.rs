//! `DEFAULT`.

use super::*;
use crate::sql::parse_ddl;

const FANS: &str = "CREATE TABLE Fans (
    id STRING(36) NOT NULL DEFAULT (GENERATE_UUID()),
    name STRING(MAX) DEFAULT ( UPPER('nobody') ),
    seen TIMESTAMP NOT NULL DEFAULT (CURRENT_TIMESTAMP()),
    stars NUMERIC DEFAULT (1.5), n INT64,
  ) PRIMARY KEY (id)";

#[test]
fn a_column_that_is_not_mentioned_gets_its_default() {
    let mut world = Memory::new(FANS);
    let rows =
        world.rows_of("INSERT Fans (n) VALUES (1), (2) THEN RETURN id, name, seen, stars, n");
    assert_ne!(rows[0][..36], rows[1][..36]);
    assert_eq!(&rows[0][36..], " NOBODY 2026-01-02T03:04:05.000006Z 1.5 1");
    assert_eq!(world.rows("SELECT COUNT(*) FROM Fans WHERE name = 'NOBODY'"), ["2"]);
    assert_eq!(
        world.rows_of("INSERT Fans (id, name, n) VALUES ('a', DEFAULT, DEFAULT), ('b', NULL, 3) THEN RETURN name, n"),
        ["NOBODY NULL", "NULL 3"]
    );
    world.write("UPDATE Fans SET name = 'x', stars = 9 WHERE id = 'a'");
    assert_eq!(
        world.rows_of(
            "UPDATE Fans SET name = DEFAULT, n = DEFAULT WHERE id = 'a' THEN RETURN name, stars, n"
        ),
        ["NOBODY 9 NULL"]
    );
    assert_eq!(
        world.rows_of(
            "INSERT OR UPDATE Fans (id, n) VALUES ('a', 7), ('c', 8) THEN RETURN name, stars, n"
        ),
        ["NOBODY 9 7", "NOBODY 1.5 8"],
        "a row that is there keeps what it has"
    );
    assert_eq!(
        world.rows("SELECT COLUMN_DEFAULT FROM INFORMATION_SCHEMA.COLUMNS"),
        ["GENERATE_UUID()", "UPPER('nobody')", "CURRENT_TIMESTAMP()", "1.5", "NULL"]
    );
    assert_eq!(world.error("SELECT DEFAULT").0, Code::InvalidArgument);
}

impl Memory {
    fn rows_of(&mut self, text: &str) -> Vec<String> {
        match self.run(text, &Parameters::default()) {
            Ok(Outcome::Returned { rows, .. }) => {
                rows.iter().map(|row| row.iter().map(shown).collect::<Vec<_>>().join(" ")).collect()
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn a_default_that_fits_nothing_is_refused_with_the_table() {
    for (default, code) in [
        ("INT64 DEFAULT ('a')", Code::InvalidArgument),
        ("INT64 DEFAULT (b)", Code::InvalidArgument),
        ("INT64 DEFAULT (@p)", Code::InvalidArgument),
        ("INT64 DEFAULT (COUNT(*))", Code::InvalidArgument),
        ("TIMESTAMP DEFAULT (PENDING_COMMIT_TIMESTAMP())", Code::InvalidArgument),
        (
            "TIMESTAMP DEFAULT (CURRENT_TIMESTAMP()) OPTIONS (allow_commit_timestamp = true)",
            Code::InvalidArgument,
        ),
        ("INT64 DEFAULT (SOUNDEX('a'))", Code::Unimplemented),
        ("INT64 DEFAULT (GET_NEXT_SEQUENCE_VALUE(SEQUENCE s))", Code::Unimplemented),
    ] {
        let text = format!("CREATE TABLE t (a {default}, b INT64) PRIMARY KEY (b)");
        let applied = parse_ddl(&text)
            .map_err(crate::engine::Error::from)
            .and_then(|changes| crate::engine::Schema::default().apply(&changes[0]));
        assert_eq!(applied.unwrap_err().code(), code, "{text}");
    }
    let allowed = "CREATE TABLE t (a TIMESTAMP DEFAULT (PENDING_COMMIT_TIMESTAMP())
        OPTIONS (allow_commit_timestamp = true)) PRIMARY KEY ()";
    let mut schema = crate::engine::Schema::default();
    let taken_away = "ALTER TABLE t ALTER COLUMN a SET OPTIONS (allow_commit_timestamp = null)";
    let changes = parse_ddl(&format!("{allowed}; {taken_away}")).unwrap();
    assert_eq!(schema.apply(&changes[0]), Ok(()));
    assert_eq!(schema.apply(&changes[1]).unwrap_err().code(), Code::InvalidArgument);
    let mut world = Memory::new(allowed);
    assert_eq!(world.write("INSERT t (a) VALUES (DEFAULT)"), 1);
    assert_eq!(world.rows("SELECT a FROM t"), ["2026-01-02T03:04:05.000006Z"]);
    assert_eq!(
        world.error("UPDATE t SET a = DEFAULT WHERE true THEN RETURN a").0,
        Code::InvalidArgument
    );
}
