//! The index that a statement reads, and that it shows the same rows.

use spindle_emulator::engine::Read;

use crate::memory::Memory;

const INDEXED: &str = "
    CREATE TABLE p (k INT64 NOT NULL, town STRING(9), age INT64, note STRING(9), n INT64 NOT NULL)
      PRIMARY KEY (k DESC);
    CREATE INDEX by_town ON p (town, age DESC);
    CREATE NULL_FILTERED INDEX by_note ON p (note);
    CREATE INDEX by_n ON p (n) STORING (town)";

fn indexed() -> Memory {
    let world = Memory::new(INDEXED);
    world.write(
        "INSERT INTO p (k, town, age, note, n) VALUES (1, 'a', 5, 'x', 7), (2, 'a', 9, NULL, 7),
           (3, 'b', NULL, 'y', 8), (4, NULL, 1, 'x', 9), (5, 'b', 5, NULL, 9)",
    );
    world
}

/// The rows of a query in order, and by which indexes it reads.
fn seen(world: &Memory, text: &str) -> (String, Vec<String>) {
    let mut rows = world.rows(text);
    rows.sort();
    (rows.join(", "), indexes_of(&world.reads_of(text)))
}

fn indexes_of(reads: &[Read]) -> Vec<String> {
    reads.iter().map(|read| read.index.clone().unwrap_or("table".into())).collect()
}

#[test]
fn a_condition_on_an_index_reads_it_and_the_rows_behind_it() {
    let world = indexed();
    for (condition, rows, reads) in [
        ("town = 'a'", "1, 2", "by_town"),
        ("town = 'a' AND age > 5", "2", "by_town"),
        ("town = 'a' AND age BETWEEN 1 AND 5", "1", "by_town"),
        ("town IN ('a', 'b') AND age = 5", "1, 5", "by_town"),
        ("town IS NULL", "4", "by_town"),
        ("age = 5", "1, 5", "table"),
        ("n = 9 AND town = 'b'", "5", "by_n"),
        ("n > 8", "4, 5", "by_n"),
        ("k > 4 AND n > 8", "5", "table"),
        ("k > 4 AND n = 9", "5", "by_n"),
        ("k = 5 AND n = 9", "5", "table"),
        ("note = 'x'", "1, 4", "by_note"),
        ("note = 'x' OR note IS NULL", "1, 2, 4, 5", "table"),
        ("note IS NULL", "2, 5", "table"),
    ] {
        let (found, read) = seen(&world, &format!("SELECT k FROM p WHERE {condition}"));
        // By `by_n` and `note`, nothing else is used than what the index keeps.
        assert_eq!((found.as_str(), read[0].as_str()), (rows, reads), "{condition}");
    }
    let behind = "SELECT note FROM p WHERE town = 'a'";
    let (rows, reads) = seen(&world, behind);
    assert_eq!((rows.as_str(), reads), ("NULL, x", vec!["by_town".into(), "table".into()]));
    assert_eq!(world.reads_of(behind)[1].keys.len(), 2, "only the rows that the index names");
    let (_, reads) = seen(&world, "SELECT town FROM p WHERE n = 7 FOR UPDATE");
    assert_eq!(reads, ["by_n", "table"], "what is locked is the row");
}

#[test]
fn joins_and_statements_that_write_go_by_indexes_too() {
    let world = indexed();
    let join = "SELECT a.k, b.k FROM p AS a JOIN p AS b ON b.town = a.town WHERE a.k = 1";
    let (rows, reads) = seen(&world, join);
    assert_eq!((rows.as_str(), reads), ("1 1, 1 2", vec!["table".into(), "by_town".into()]));
    let update = "UPDATE p SET note = 'z' WHERE n = 7";
    assert_eq!(world.write(update), 2);
    assert_eq!(indexes_of(&world.reads_of(update)), ["by_n"]);
    assert_eq!(seen(&world, "SELECT k FROM p WHERE note = 'z'").0, "1, 2");
    assert_eq!(world.write("DELETE FROM p@{FORCE_INDEX=by_town} WHERE town = 'b'"), 2);
    assert_eq!(seen(&world, "SELECT COUNT(*) FROM p").0, "3");
}

#[test]
fn a_forced_index_is_read() {
    let world = indexed();
    for (query, rows, reads) in [
        ("SELECT k FROM p@{FORCE_INDEX=by_town}", "1, 2, 3, 4, 5", "by_town"),
        ("SELECT k FROM p@{FORCE_INDEX=_BASE_TABLE} WHERE town = 'a'", "1, 2", "table"),
        ("SELECT k FROM p@{FORCE_INDEX=by_n} WHERE k = 2", "2", "by_n"),
        ("SELECT k FROM p@{FORCE_INDEX=by_note} WHERE note IS NOT NULL", "1, 3, 4", "by_note"),
        ("SELECT k FROM p@{FORCE_INDEX=by_note} WHERE note LIKE 'x%'", "1, 4", "by_note"),
        (
            "SELECT k FROM p@{FORCE_INDEX=by_note} WHERE note > 'a' OR note = 'a'",
            "1, 3, 4",
            "by_note",
        ),
    ] {
        let (found, read) = seen(&world, query);
        assert_eq!((found.as_str(), read[0].as_str()), (rows, reads), "{query}");
    }
}
