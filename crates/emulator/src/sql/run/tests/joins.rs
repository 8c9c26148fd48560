//! Queries over several tables.

use super::*;

#[test]
fn rows_are_joined_and_those_without_a_match_stay_on_the_left() {
    let mut world = world();
    let inner = "SELECT f.k, o.id FROM Flags AS f JOIN Orders AS o ON o.shard = f.v ORDER BY 2";
    assert_eq!(world.rows(inner), ["on 1", "on 2", "on 3"]);
    assert_eq!(
        world.rows("SELECT k, id FROM Flags f LEFT JOIN Orders ON shard = v AND id > 2 ORDER BY k"),
        ["off NULL", "on 3", "x NULL"]
    );
    assert_eq!(world.rows("SELECT COUNT(*) FROM Flags, Orders"), ["15"]);
    assert_eq!(
        world.rows(
            "SELECT f.*, n FROM Flags f JOIN (SELECT k, 1 AS n FROM Flags) g
             ON f.k = g.k WHERE n = v"
        ),
        ["on 1 1"]
    );
    assert_eq!(world.error("SELECT k FROM Flags a, Flags b").0, Code::InvalidArgument);
    assert_eq!(world.error("SELECT 1 FROM Flags a JOIN Flags b").0, Code::InvalidArgument);
}

#[test]
fn a_join_by_key_reads_no_other_rows() {
    let mut world = world();
    let join =
        "SELECT o.note FROM Flags f JOIN Orders o ON o.shard = f.v AND o.id = 1 WHERE f.k = 'on'";
    assert_eq!(world.ranges_of(join), "(on) to (on)+; (1,1) to (1,1)+");
    assert_eq!(world.rows(join), ["a"]);
    assert_eq!(
        world.ranges_of(
            "SELECT note FROM Orders WHERE shard IN (SELECT v FROM Flags WHERE k = 'on')"
        ),
        "(on) to (on)+; (1) to (1)+"
    );
    let many: Vec<String> = (0..5_000).map(|id| id.to_string()).collect();
    let wide = format!("SELECT k FROM Flags WHERE k IN UNNEST(['on', '{}'])", many.join("', '"));
    assert_eq!(
        world.ranges_of(&wide).split("; ").count(),
        5_001,
        "thousands of keys are still keys"
    );
}

#[test]
fn a_query_inside_another_is_a_value_a_set_or_a_table() {
    let mut world = world();
    assert_eq!(
        world.rows("SELECT k, (SELECT COUNT(*) FROM Orders WHERE shard = v) FROM Flags ORDER BY k"),
        ["off 0", "on 3", "x 0"]
    );
    assert_eq!(
        world.rows("SELECT k FROM Flags WHERE v NOT IN (SELECT shard FROM Orders)"),
        ["off"]
    );
    assert_eq!(world.error("SELECT (SELECT id FROM Orders)").0, Code::InvalidArgument);
    assert_eq!(
        world.write(
            "INSERT INTO Flags (k, v) SELECT MAX(note), MAX(id) FROM Orders WHERE note > 'a'"
        ),
        1
    );
    assert_eq!(world.rows("SELECT k, v FROM Flags WHERE k IN ('ab', 'b')"), ["b 5"]);
    assert_eq!(
        world.write("UPDATE Flags f SET f.v = (SELECT COUNT(*) FROM Orders) WHERE f.k = 'on'"),
        1
    );
    assert_eq!(world.rows("SELECT v FROM Flags WHERE k = 'on'"), ["5"]);
}

#[test]
fn the_name_of_a_row_is_stronger_than_that_of_a_column() {
    let mut world = Memory::new("CREATE TABLE balance (id INT64, balance INT64) PRIMARY KEY (id)");
    world.write("INSERT balance (id, balance) VALUES (1, NULL)");
    for text in [
        "SELECT id FROM balance WHERE balance IS NULL",
        "DELETE FROM balance WHERE balance IS NULL",
        "UPDATE balance AS id SET balance = 1 WHERE id = 1",
    ] {
        assert_eq!(world.error(text).0, Code::Unimplemented, "{text}");
    }
    assert_eq!(world.rows("SELECT id FROM balance WHERE balance.balance IS NULL"), ["1"]);
    assert_eq!(world.rows("SELECT b.balance FROM balance AS b"), ["NULL"]);
}

#[test]
fn a_column_of_the_result_hides_a_row_of_its_name() {
    let mut world = world();
    assert_eq!(world.rows("SELECT f.k AS f FROM Flags AS f WHERE f.v > 0 ORDER BY f"), ["on"]);
    for query in [
        "SELECT f.v, f.k AS f FROM Flags AS f ORDER BY f.v",
        "SELECT k.v, k.k FROM Flags AS k ORDER BY k.v",
    ] {
        assert_eq!(world.error(query).0, Code::InvalidArgument, "{query}");
    }
}
