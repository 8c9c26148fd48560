//! The keys that a statement reads.

use spindle_emulator::engine::{Key, KeyRange};

use crate::memory::{Memory, shown};

/// The ranges of keys that a statement reads.
fn ranges_of(world: &Memory, text: &str) -> String {
    let reads = world.reads_of(text);
    let ranges =
        reads.iter().flat_map(|read| &read.keys).map(|range| match *range == KeyRange::all() {
            true => "all".to_owned(),
            false => format!("{} to {}", place(&range.start), place(&range.end)),
        });
    ranges.collect::<Vec<_>>().join("; ")
}

fn place(key: &Key) -> String {
    let values: Vec<String> = key.values().map(shown).collect();
    let behind = if key.0.len() > values.len() { "+" } else { "" };
    format!("({}){behind}", values.join(","))
}

#[test]
fn a_condition_on_the_key_reads_one_row_and_the_columns_used() {
    let world = Memory::with_orders();
    assert_eq!(ranges_of(&world, "SELECT v FROM Flags WHERE k = 'on'"), "(on) to (on)+");
    let columns = |text| world.reads_of(text).swap_remove(0).columns;
    assert_eq!(columns("SELECT v FROM Flags WHERE k = 'on'"), ["k", "v"]);
    let update = "UPDATE Orders SET note = 'x' WHERE shard = 1 AND id = 2 AND paid";
    assert_eq!(columns(update), ["shard", "id", "paid"]);
}

#[test]
fn conditions_become_the_ranges_of_keys_that_can_pass() {
    let world = Memory::with_orders();
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
            ranges_of(&world, &format!("SELECT note FROM Orders WHERE {condition}")),
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
            ranges_of(&world, &format!("SELECT v FROM Flags WHERE {condition}")),
            ranges,
            "{condition}"
        );
    }
}

#[test]
fn a_join_by_key_reads_no_other_rows() {
    let world = Memory::with_orders();
    let join =
        "SELECT o.note FROM Flags f JOIN Orders o ON o.shard = f.v AND o.id = 1 WHERE f.k = 'on'";
    assert_eq!(ranges_of(&world, join), "(on) to (on)+; (1,1) to (1,1)+");
    assert_eq!(world.rows(join), ["a"]);
    assert_eq!(
        ranges_of(
            &world,
            "SELECT note FROM Orders WHERE shard IN (SELECT v FROM Flags WHERE k = 'on')"
        ),
        "(on) to (on)+; (1) to (1)+"
    );
    let many: Vec<String> = (0..5_000).map(|id| id.to_string()).collect();
    let wide = format!("SELECT k FROM Flags WHERE k IN UNNEST(['on', '{}'])", many.join("', '"));
    assert_eq!(
        ranges_of(&world, &wide).split("; ").count(),
        5_001,
        "thousands of keys are still keys"
    );
}

#[test]
fn a_random_value_is_looked_for_in_every_row() {
    let world = Memory::with_orders();
    assert_eq!(ranges_of(&world, "SELECT k FROM Flags WHERE k = GENERATE_UUID()"), "all");
}

#[test]
fn exists_looks_into_another_table_by_its_key() {
    let world = Memory::with_orders();
    let ranges = ranges_of(
        &world,
        "UPDATE Orders SET note = 'late' WHERE shard = 1 AND id = 1
         AND EXISTS (SELECT * FROM Flags WHERE k = 'on' AND v = 1)",
    );
    assert_eq!(ranges, "(1,1) to (1,1)+; (on) to (on)+");
    assert_eq!(
        ranges_of(
            &world,
            "SELECT 1 FROM Flags WHERE k = 'on' AND false AND EXISTS (SELECT 1 FROM Orders)"
        ),
        "(on) to (on)+",
        "what isn't come to isn't read"
    );
}
