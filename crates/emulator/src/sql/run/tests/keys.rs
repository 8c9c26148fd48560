//! The keys that a statement reads.

use super::*;

#[test]
fn a_condition_on_the_key_reads_one_row_and_the_columns_used() {
    let mut world = world();
    assert_eq!(world.ranges_of("SELECT v FROM Flags WHERE k = 'on'"), "(on) to (on)+");
    assert_eq!(world.reads[0].columns, ["k", "v"]);
    world.ranges_of("UPDATE Orders SET note = 'x' WHERE shard = 1 AND id = 2 AND paid");
    assert_eq!(world.reads[0].columns, ["shard", "id", "paid"]);
}

#[test]
fn conditions_become_the_ranges_of_keys_that_can_pass() {
    let mut world = world();
    for (condition, ranges) in [
        ("shard = 1 AND id = 2", "(1,2) to (1,2)+"),
        ("2 = id AND (note = 'b' AND shard = 1)", "(1,2) to (1,2)+"),
        ("shard = 1", "(1) to (1)+"),
        ("id = 1", "all"),
        ("shard IN (2, 1, 2, NULL) AND id = 1", "(1,1) to (1,1)+; (2,1) to (2,1)+"),
        ("shard = 1 OR shard = 2", "(1) to (1)+; (2) to (2)+"),
        ("shard = 2 AND id = 1 OR shard = 1 AND id = 3", "(1,3) to (1,3)+; (2,1) to (2,1)+"),
        ("shard = 1 OR id = 1", "all"),
        ("shard > 1", "(1)+ to ()+"),
        ("shard >= 1 AND shard < 3 AND 2 > shard", "(1) to (2)"),
        ("shard <= 1", "(NULL)+ to (1)+"),
        ("shard BETWEEN 1 AND 2", "(1) to (2)+"),
        ("shard = 1 AND id < 3", "(1,3)+ to (1,NULL)"),
        ("shard = 1 AND id >= 2", "(1) to (1,2)+"),
        ("shard = CAST(NULL AS INT64)", ""),
        ("shard > CAST(NULL AS INT64)", ""),
        ("shard = 1 AND shard IS NULL", "(1) to (1)+"),
        ("shard IS NULL", "(NULL) to (NULL)+"),
        ("shard = 1 + 1", "(2) to (2)+"),
        ("shard = 1.0", "all"),
        ("shard != 1", "all"),
        ("NOT shard = 1", "all"),
        ("TRUE", "all"),
        ("shard > 2 AND shard < 1", ""),
    ] {
        assert_eq!(
            world.ranges_of(&format!("SELECT note FROM Orders WHERE {condition}")),
            ranges,
            "{condition}"
        );
    }
    for (condition, ranges) in [
        ("STARTS_WITH(k, 'o')", "(o) to (p)"),
        ("STARTS_WITH(k, '\u{d7ff}')", "(\u{d7ff}) to (\u{e000})"),
        ("STARTS_WITH(k, '')", "() to ()+"),
        ("k IS NULL", "(NULL) to (NULL)+"),
        ("k = CONCAT('o', 'n')", "(on) to (on)+"),
    ] {
        assert_eq!(
            world.ranges_of(&format!("SELECT v FROM Flags WHERE {condition}")),
            ranges,
            "{condition}"
        );
    }
}

#[test]
fn reading_fewer_keys_changes_no_result() {
    let mut world = world();
    for condition in [
        "shard = 1",
        "shard > 1",
        "shard < 2",
        "shard >= 2",
        "shard IN (1, 7)",
        "shard IS NULL",
        "id > 1",
        "shard = 1 AND id > 1",
        "shard = 1 AND id <= 2",
        "shard = 1 AND id BETWEEN 2 AND 3",
        "shard = 1 AND id IN (3, 1)",
        "shard = 2 OR id = 3",
        "shard BETWEEN 2 AND 1",
    ] {
        let narrow = format!("SELECT shard, id FROM Orders WHERE {condition}");
        // The same, but of no form that keys are taken from.
        let wide = format!("SELECT shard, id FROM Orders WHERE ({condition}) IS TRUE");
        assert_eq!(world.rows(&narrow), world.rows(&wide), "{condition}");
        assert_eq!(world.ranges_of(&wide), "all");
    }
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
fn an_element_is_found_in_an_array_by_key_or_row_by_row() {
    let mut world = world();
    let list = |all: &[&str]| {
        let all = all.iter().map(|one| Untyped::Text((*one).into())).collect();
        Parameters::from_iter([("p", Parameter::Untyped(Untyped::List(all)))])
    };
    let query = "SELECT k FROM Flags WHERE k IN UNNEST(@p)";
    assert_eq!(world.rows_with(query, &list(&["on", "x", "z"])), ["on", "x"]);
    assert_eq!(world.rows_with(query, &list(&[])), [""; 0]);
    let numbers = "SELECT k FROM Flags WHERE v IN UNNEST(@p)";
    assert_eq!(world.rows_with(numbers, &list(&["0", "1"])), ["off", "on"]);
    assert_eq!(
        world.ranges_of("SELECT k FROM Flags WHERE k IN UNNEST(['on', 'off'])"),
        "(off) to (off)+; (on) to (on)+"
    );
    let of_columns = "SELECT k FROM Flags WHERE v IN UNNEST([v, 7]) AND k IN UNNEST([k])";
    assert_eq!(world.rows(of_columns), ["off", "on"]);
}

#[test]
fn a_random_value_is_looked_for_in_every_row() {
    let mut world = world();
    assert_eq!(world.ranges_of("SELECT k FROM Flags WHERE k = GENERATE_UUID()"), "all");
}
