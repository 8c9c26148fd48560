//! Arrays, NUMERIC and JSON.

use super::*;

const SHELF: &str = "CREATE TABLE Shelf (
    id INT64 NOT NULL, tags ARRAY<STRING(5)>, sizes ARRAY<FLOAT64>, price NUMERIC, info JSON,
  ) PRIMARY KEY (id);
  CREATE TABLE Prices (price NUMERIC, item STRING(MAX)) PRIMARY KEY (price)";

#[test]
fn arrays_are_stored_and_come_back() {
    let mut world = Memory::new(SHELF);
    world.write(
        "INSERT Shelf (id, tags, sizes) VALUES (1, ['a', NULL, 'b'], [1, 2.5]), (2, [], NULL)",
    );
    assert_eq!(
        world.rows("SELECT tags, sizes, ARRAY_LENGTH(tags) FROM Shelf"),
        ["[a,NULL,b] [1.0,2.5] 3", "[] NULL 0"]
    );
    let tags = Parameter::Untyped(Untyped::List(vec![
        Untyped::Text("x".into()),
        Untyped::Null,
        Untyped::Text("y".into()),
    ]));
    let parameters = Parameters::from_iter([("tags", tags)]);
    world.run("UPDATE Shelf SET tags = @tags WHERE id = 2", &parameters).unwrap();
    assert_eq!(world.rows("SELECT tags FROM Shelf WHERE id = 2"), ["[x,NULL,y]"]);
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
fn an_array_without_elements_is_one_of_its_columns_type() {
    let mut world = Memory::new("CREATE TABLE t (k INT64, a ARRAY<STRING(9)>) PRIMARY KEY (k)");
    assert_eq!(world.write("INSERT INTO t (k, a) SELECT 100, []"), 1);
    assert_eq!(world.rows("SELECT a FROM t"), ["[]"]);
}

#[test]
fn arrays_and_documents_are_not_compared_and_no_keys() {
    let mut world = Memory::new(SHELF);
    for (text, message) in [
        ("SELECT [1] = [1]", "Equality is not defined for arguments of type ARRAY<INT64> [at 1:8]"),
        ("SELECT [1] < [2]", "< is not defined for arguments of type ARRAY<INT64> [at 1:8]"),
        (
            "SELECT [1] IN ([1])",
            "Equality is not defined for arguments of type ARRAY<INT64> [at 1:8]",
        ),
        (
            "SELECT NUMERIC '1.5' IN UNNEST([1.5, NULL])",
            "No matching signature for IN UNNEST for argument types: NUMERIC, ARRAY<FLOAT64> [at 1:8]",
        ),
        (
            "SELECT info = JSON '1' FROM Shelf",
            "Equality is not defined for arguments of type JSON [at 1:8]",
        ),
        (
            "SELECT NULLIF(JSON '1', JSON '1')",
            "Equality is not defined for arguments of type JSON [at 1:8]",
        ),
        (
            "SELECT id FROM Shelf ORDER BY tags",
            "ORDER BY does not support expressions of type ARRAY<STRING> [at 1:31]",
        ),
        (
            "SELECT info FROM Shelf ORDER BY 1",
            "ORDER BY does not support expressions of type JSON [at 1:33]",
        ),
        ("SELECT MAX(info) FROM Shelf", "MAX is not defined for arguments of type JSON [at 1:8]"),
        (
            "SELECT [1, 'a']",
            "Array elements of types INT64, STRING do not have a common supertype [at 1:8]",
        ),
        ("SELECT [[1]]", "Cannot construct array with element type ARRAY [at 1:8]"),
        (
            "SELECT 1 IN UNNEST(2)",
            "Values referenced in UNNEST must be arrays. UNNEST contains expression of type INT64 [at 1:20]",
        ),
        (
            "INSERT Shelf (id, tags) VALUES (1, [1])",
            "Value has type ARRAY<INT64> which cannot be inserted into column tags, which has type ARRAY<STRING> [at 1:36]",
        ),
    ] {
        assert_eq!(world.error(text), (Code::InvalidArgument, message.to_owned()), "{text}");
    }
    for text in [
        "CREATE TABLE t (a ARRAY<INT64>) PRIMARY KEY (a)",
        "CREATE TABLE t (a JSON) PRIMARY KEY (a)",
    ] {
        let mut schema = crate::engine::Schema::default();
        let changes = crate::sql::parse_ddl(text).unwrap();
        let refused = schema.apply(&changes[0]).unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{text}");
    }
}

#[test]
fn decimals_are_exact_and_order_keys() {
    let mut world = Memory::new(SHELF);
    world.write("INSERT Prices (price, item) VALUES (10, 'c'), (NUMERIC '9.5', 'b'), (-0.5, 'a')");
    assert_eq!(world.rows("SELECT price, item FROM Prices"), ["-0.5 a", "9.5 b", "10 c"]);
    assert_eq!(
        world.rows("SELECT item FROM Prices WHERE price > 9.25 ORDER BY price DESC"),
        ["c", "b"]
    );
    assert_eq!(world.ranges_of("SELECT item FROM Prices WHERE price = 9.50"), "(9.5) to (9.5)+");
    assert_eq!(world.rows("SELECT SUM(price), MIN(price), MAX(price) FROM Prices"), ["19 -0.5 10"]);
    let nines = "NUMERIC '99999999999999999999999999999.999999999'";
    for expr in [
        format!("{nines} + 1"),
        format!("{nines} * 10"),
        format!("{nines} / NUMERIC '0.5'"),
        "NUMERIC '1' / 0".into(),
    ] {
        assert_eq!(world.error(&format!("SELECT {expr}")).0, Code::OutOfRange, "{expr}");
    }
    assert_eq!(
        world.error("SELECT NUMERIC 'x'"),
        (Code::InvalidArgument, "Invalid NUMERIC literal: \"x\" [at 1:8]".into())
    );
}

#[test]
fn documents_are_kept_in_their_one_form() {
    let mut world = Memory::new(SHELF);
    let info = Parameter::Typed(
        Type::Json,
        Value::Json(crate::engine::Json::parse("[1, {\"b\": 2, \"a\": 1}]").unwrap()),
    );
    let parameters = Parameters::from_iter([("info", info)]);
    world.run("INSERT Shelf (id, info) VALUES (1, @info)", &parameters).unwrap();
    world.write(r#"INSERT Shelf (id, info) VALUES (2, JSON ' {"z": null } ')"#);
    assert_eq!(world.rows("SELECT info FROM Shelf"), [r#"[1,{"a":1,"b":2}]"#, r#"{"z":null}"#]);
    assert_eq!(world.rows("SELECT id FROM Shelf WHERE info IS NULL"), [""; 0]);
    assert_eq!(world.error("SELECT JSON '{'").0, Code::InvalidArgument);
    assert_eq!(world.error("INSERT Shelf (id, info) VALUES (3, '1')").0, Code::InvalidArgument);
    for unknown in ["JSON_VALUE(info)", "TO_JSON(1)", "JSON_TYPE(info)", "CAST(1 AS JSON)"] {
        let (code, message) = world.error(&format!("SELECT {unknown} FROM Shelf"));
        assert_eq!(code, Code::Unimplemented, "{unknown}: {message}");
    }
}
