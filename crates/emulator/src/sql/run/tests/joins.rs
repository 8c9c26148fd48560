//! Queries over several tables, and over groups of rows.

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
        world.rows("SELECT * FROM Flags JOIN (SELECT k, COUNT(*) AS n FROM Flags GROUP BY k) USING (k) WHERE n = v"),
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
fn groups_have_keys_aggregates_and_conditions() {
    let mut world = world();
    assert_eq!(
        world.rows(
            "SELECT shard, COUNT(*) AS n, MAX(id) FROM Orders GROUP BY shard HAVING n > 2 ORDER BY 1"
        ),
        ["1 3 3"]
    );
    assert_eq!(
        world.rows("SELECT -shard AS s, SUM(id) FROM Orders GROUP BY s ORDER BY s"),
        ["-2 6", "-1 6"]
    );
    assert_eq!(
        world.rows("SELECT DISTINCT note FROM Orders ORDER BY note"),
        ["NULL", "a", "ab", "b"]
    );
    assert_eq!(
        world.rows("SELECT STRING_AGG(note, '+' ORDER BY id), AVG(id) FROM Orders WHERE shard = 1"),
        ["a+b 2.0"]
    );
    assert_eq!(
        world.rows("SELECT SUM(x) FROM UNNEST([9223372036854775807, 1, -1]) x"),
        ["9223372036854775807"]
    );
    assert_eq!(world.rows("SELECT LOGICAL_OR(paid), COUNTIF(paid) FROM Orders"), ["true 3"]);
    for text in [
        "SELECT note FROM Orders GROUP BY shard",
        "SELECT note FROM Orders HAVING TRUE",
        "SELECT DISTINCT note FROM Orders ORDER BY id",
    ] {
        assert_eq!(world.error(text).0, Code::InvalidArgument, "{text}");
    }
}

#[test]
fn a_query_inside_another_is_a_value_a_set_an_array_or_a_table() {
    let mut world = world();
    assert_eq!(
        world.rows("SELECT k, (SELECT COUNT(*) FROM Orders WHERE shard = v) FROM Flags ORDER BY k"),
        ["off 0", "on 3", "x 0"]
    );
    assert_eq!(world.one("ARRAY(SELECT id FROM Orders WHERE shard = 1 ORDER BY id)"), "[1,2,3]");
    assert_eq!(
        world.rows("SELECT k FROM Flags WHERE v NOT IN (SELECT shard FROM Orders)"),
        ["off"]
    );
    assert_eq!(
        world.rows("WITH big AS (SELECT id FROM Orders WHERE id > 2) SELECT SUM(id) FROM big"),
        ["8"]
    );
    assert_eq!(world.error("SELECT (SELECT id FROM Orders)").0, Code::InvalidArgument);
    assert_eq!(world.write("INSERT INTO Flags (k, v) SELECT note, MAX(id) FROM Orders WHERE note > 'a' GROUP BY note"), 2);
    assert_eq!(world.rows("SELECT k, v FROM Flags WHERE k IN ('ab', 'b')"), ["ab 1", "b 5"]);
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
fn a_column_that_stands_for_two_is_of_both_sides_and_comes_first() {
    let mut world = world();
    let star = |world: &mut Memory, from: &str| match world
        .run(&format!("SELECT * FROM {from}"), &Parameters::default())
    {
        Ok(Outcome::Rows { columns, .. }) => {
            columns.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ")
        }
        other => panic!("{from}: {other:?}"),
    };
    for (from, columns) in [
        ("Flags AS a JOIN Flags AS b USING (v, k)", "v k"),
        ("Flags AS a JOIN Flags AS b USING (v, v)", "v k k"),
        ("Flags AS a JOIN Flags AS b USING (v) LEFT JOIN Flags AS c USING (v)", "v k k k"),
        (
            "Flags AS a JOIN (SELECT v, 1 AS n FROM Flags) USING (v) JOIN (SELECT 1 AS n) USING (n)",
            "n v k",
        ),
    ] {
        assert_eq!(star(&mut world, from), columns, "{from}");
    }
    for (query, reason) in [
        (
            "SELECT (SELECT COUNT(*) FROM Flags JOIN Orders USING (shard)) FROM Orders",
            "Column shard in USING clause not found on left side of join [at 1:55]",
        ),
        (
            "SELECT 1 FROM Flags JOIN Flags AS v USING (v)",
            "Name v in USING clause is a table alias, not a column name, on right side of join [at 1:44]",
        ),
        (
            "SELECT 1 FROM UNNEST([1]) AS n WITH OFFSET AS n",
            "Duplicate table alias n in the same FROM clause [at 1:15]",
        ),
        (
            "SELECT 1 FROM UNNEST([1]) AS n WITH OFFSET AS f, Flags AS f",
            "Duplicate table alias f in the same FROM clause [at 1:50]",
        ),
    ] {
        assert_eq!(world.error(query), (Code::InvalidArgument, reason.to_owned()), "{query}");
    }
}

#[test]
fn an_expression_of_the_groups_is_one_as_a_whole_only() {
    let mut world = world();
    assert_eq!(
        world.rows("SELECT shard + 1, COUNT(*) FROM Orders GROUP BY shard + 1 ORDER BY shard + 1"),
        ["2 3", "3 2"]
    );
    assert_eq!(world.rows("SELECT shard FROM Orders GROUP BY +1 ORDER BY +1"), ["1", "2"]);
    // A query too, that has to do with each row.
    let lesser = "(SELECT COUNT(*) FROM Flags WHERE v < shard)";
    for group in ["n", "1"] {
        let query = format!("SELECT {lesser} AS n, COUNT(*) > 0 FROM Orders GROUP BY {group}");
        assert_eq!(world.rows(&query).len(), 2, "{query}");
    }
    let query = format!("SELECT {lesser} FROM Orders GROUP BY {lesser}");
    assert_eq!(world.error(&query).0, Code::InvalidArgument);
    for query in [
        "SELECT shard FROM Orders GROUP BY +2",
        "SELECT (shard + 1) * 2 FROM Orders GROUP BY shard + 1",
        "SELECT 1 FROM Orders GROUP BY shard + 1 HAVING shard + 1 > 1",
        "SELECT 1 FROM Orders GROUP BY shard + 1 ORDER BY -(shard + 1)",
        "SELECT DISTINCT shard + 1 FROM Orders GROUP BY shard + 1 ORDER BY shard + 1",
        "SELECT shard FROM Orders ORDER BY MAX(id)",
        "SELECT 1 FROM Orders HAVING MAX(id) > 1 ORDER BY MAX(id)",
        "SELECT STRING_AGG(note, NULL) FROM Orders",
    ] {
        assert_eq!(world.error(query).0, Code::InvalidArgument, "{query}");
    }
    let nothing = Parameters::from_iter([("p", Parameter::Typed(Type::String, Value::Null))]);
    let joined = world.run("SELECT STRING_AGG(note, @p) FROM Orders", &nothing);
    assert_eq!(joined.unwrap_err().code(), Code::OutOfRange);
}

#[test]
fn a_column_of_the_result_hides_a_row_of_its_name() {
    let mut world = world();
    assert_eq!(world.rows("SELECT f.k AS f FROM Flags AS f WHERE f.v > 0 ORDER BY f"), ["on"]);
    for query in [
        "SELECT f.v, f.k AS f FROM Flags AS f ORDER BY f.v",
        "SELECT k.v, k.k FROM Flags AS k ORDER BY k.v",
        "SELECT MAX(f.v) AS f FROM Flags AS f HAVING COUNT(f.k) > 0",
        "SELECT k.k FROM Flags AS k GROUP BY k.k",
        "SELECT f.k AS f FROM Flags AS f GROUP BY f.k",
    ] {
        assert_eq!(world.error(query).0, Code::InvalidArgument, "{query}");
    }
}
