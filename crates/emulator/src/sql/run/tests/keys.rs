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
