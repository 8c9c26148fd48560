//! NUMERIC, JSON, arrays and defaults on the wire, and what statements return of what they wrote.

use proto::TypeCode;
use proto::result_set_stats::RowCount;

use super::*;

fn array(values: impl Into<Vec<Value>>) -> Value {
    Value { kind: Some(Kind::ListValue(list(values))) }
}

fn number(value: f64) -> Value {
    Value { kind: Some(Kind::NumberValue(value)) }
}

fn thing(price: &str) -> proto::Mutation {
    mutation(Operation::Insert(write("things", ["price"], [text(price)])))
}

/// The names and types of a result's columns.
fn types(result: &proto::ResultSet) -> Vec<String> {
    let shown = |kind: &proto::Type| TypeCode::try_from(kind.code).unwrap().as_str_name();
    let field = |field: &proto::struct_type::Field| {
        let kind = field.r#type.as_ref().unwrap();
        let element = kind.array_element_type.as_ref().map(|kind| format!("<{}>", shown(kind)));
        format!("{} {}{}", field.name, shown(kind), element.unwrap_or_default())
    };
    let metadata = result.metadata.as_ref().unwrap();
    metadata.row_type.as_ref().unwrap().fields.iter().map(field).collect()
}

#[tokio::test]
async fn values_of_every_type_go_in_and_come_back() {
    let mut world = World::start().await;
    let values = [
        text("-1.500"),
        text(" {\"b\": [1, 2.50], \"a\": null} "),
        array([text("x"), null()]),
        array([number(1.5), text("NaN")]),
    ];
    let columns = ["price", "info", "tags", "sizes"];
    let insert = mutation(Operation::Insert(write("things", columns, values)));
    world.commit_once([insert, thing("99999999999999999999999999999.999999999")]).await.unwrap();
    let found = world.read("things", &columns, all(), None).await.unwrap();
    assert_eq!(
        rows(&found),
        [
            "-1.5 {\"a\":null,\"b\":[1,2.5]} [x,NULL] [1.5,NaN]",
            "99999999999999999999999999999.999999999 NULL NULL NULL"
        ]
    );
    assert_eq!(
        types(&found),
        ["price NUMERIC", "info JSON", "tags ARRAY<STRING>", "sizes ARRAY<FLOAT64>"]
    );
    let one = proto::KeySet { keys: vec![list([text("-1.5")])], ..Default::default() };
    assert_eq!(world.read("things", &["price"], one, None).await.unwrap().rows.len(), 1);
    for (columns, values) in [
        (["price", "info"], [text("0.0000000001"), null()]),
        (["price", "info"], [text("100000000000000000000000000000"), null()]),
        (["price", "info"], [number(1.0), null()]),
        (["price", "info"], [text("1"), text("{")]),
        (["price", "tags"], [text("1"), array([text("longer than five")])]),
        (["price", "tags"], [text("1"), array([number(1.0)])]),
        (["price", "tags"], [text("1"), text("x")]),
    ] {
        let wrong = mutation(Operation::Insert(write("things", columns, values.clone())));
        let refused = world.commit_once([wrong]).await;
        assert_eq!(code(refused), Code::FailedPrecondition, "{values:?}");
    }
}

#[tokio::test]
async fn arrays_are_parameters_with_a_type_or_without() {
    let mut world = World::start().await;
    world.commit_once([insert(1), insert(2), insert(3)]).await.unwrap();
    let element = |code: TypeCode| proto::Type { code: code as i32, ..Default::default() };
    let of = |code| proto::Type {
        array_element_type: Some(Box::new(element(code))),
        ..element(TypeCode::Array)
    };
    for (value, kind, expected) in [
        (array([text("1"), text("3"), null()]), Some(of(TypeCode::Int64)), Ok(2)),
        (array([text("1"), text("3")]), None, Ok(2)),
        (array([]), None, Ok(0)),
        (null(), Some(of(TypeCode::Int64)), Ok(0)),
        (array([text("x")]), Some(of(TypeCode::Int64)), Err(Code::InvalidArgument)),
        (array([text("1")]), Some(of(TypeCode::Uuid)), Err(Code::Unimplemented)),
        (text("1"), None, Err(Code::InvalidArgument)),
        (array([array([])]), None, Err(Code::Unimplemented)),
    ] {
        let request = proto::ExecuteSqlRequest {
            session: world.session.clone(),
            sql: "SELECT id FROM users WHERE id IN UNNEST(@ids)".into(),
            params: Some(prost_types::Struct {
                fields: [("ids".to_owned(), value.clone())].into(),
            }),
            param_types: kind.map(|kind| ("ids".to_owned(), kind)).into_iter().collect(),
            ..Default::default()
        };
        let found = world.client.execute_sql(request).await;
        let found = found.map(|reply| reply.into_inner().rows.len()).map_err(|error| error.code());
        assert_eq!(found, expected, "{value:?}");
    }
}

#[tokio::test]
async fn a_statement_returns_what_it_wrote_with_its_count() {
    let mut world = World::start().await;
    let id = world.begin_read_write().await;
    let inside = || Some(Selector::Id(id.clone()));
    let insert = "INSERT INTO things (price, tags) VALUES (2, ['a']), (1.5, []) THEN RETURN price, tags, note AS n";
    let result = world.execute(insert, 1, inside()).await.unwrap();
    assert_eq!(rows(&result), ["2 [a] none", "1.5 [] none"]);
    assert_eq!(types(&result), ["price NUMERIC", "tags ARRAY<STRING>", "n STRING"]);
    assert_eq!(result.stats.as_ref().unwrap().row_count, Some(RowCount::RowCountExact(2)));
    assert_eq!(world.execute(insert, 1, inside()).await.unwrap(), result, "a repeated request");

    let mut stream = world
        .client
        .execute_streaming_sql(proto::ExecuteSqlRequest {
            session: world.session.clone(),
            transaction: Some(proto::TransactionSelector { selector: inside() }),
            sql: "UPDATE things SET note = DEFAULT WHERE true THEN RETURN price + 1".into(),
            seqno: 2,
            ..Default::default()
        })
        .await
        .unwrap()
        .into_inner();
    let first = stream.message().await.unwrap().unwrap();
    assert_eq!(first.values.iter().map(shown).collect::<Vec<_>>(), ["2.5", "3"]);
    assert_eq!(first.stats.unwrap().row_count, Some(RowCount::RowCountExact(2)));

    let batch = ["DELETE FROM things WHERE price = 2 THEN RETURN note"];
    let reply = world.batch(&id, 3, &batch).await.unwrap();
    assert_eq!(reply.result_sets[0].rows, [], "a batch shows no rows");
    let count = reply.result_sets[0].stats.as_ref().unwrap().row_count;
    assert_eq!(count, Some(RowCount::RowCountExact(1)));
    let action =
        world.execute("DELETE FROM things WHERE true THEN RETURN WITH ACTION *", 4, inside());
    assert_eq!(code(action.await), Code::Unimplemented);
    world.commit(&id, []).await.unwrap();
    assert_eq!(world.query("SELECT price FROM things").await.unwrap(), ["1.5"]);
}

#[tokio::test]
async fn rows_get_their_defaults_and_the_time_of_the_commit() {
    let mut world = World::start().await;
    let id = world.begin_read_write().await;
    let upsert = "INSERT OR UPDATE INTO things (price, info) VALUES (1, JSON '1')";
    assert_eq!(world.write(&id, 1, upsert).await.unwrap(), 1);
    assert_eq!(world.write(&id, 2, upsert).await.unwrap(), 1);
    let ignored = "INSERT OR IGNORE INTO things (price, note) VALUES (1, 'x')";
    assert_eq!(world.write(&id, 3, ignored).await.unwrap(), 0);
    let committed = world.commit(&id, [thing("2")]).await.unwrap().commit_timestamp.unwrap();
    let found = world.query("SELECT price, note, made FROM things").await.unwrap();
    let made: prost_types::Timestamp = found[0].rsplit(' ').next().unwrap().parse().unwrap();
    assert_eq!(made, committed);
    let notes: Vec<&str> = found.iter().map(|row| &row[..6]).collect();
    assert_eq!(notes, ["1 none", "2 none"]);
}

#[tokio::test]
async fn what_is_made_of_all_rows_has_its_type() {
    let mut world = World::start().await;
    world.commit_once([thing("1.5"), thing("2"), insert(7)]).await.unwrap();
    let sql = "SELECT SUM(price) AS s, COUNT(DISTINCT note) AS c, MAX(CAST(price AS STRING)) AS m,
               MIN(CAST(price AS FLOAT64)) AS f FROM things WHERE note LIKE 'n%'";
    let found = world.execute(sql, 0, None).await.unwrap();
    assert_eq!(rows(&found), ["3.5 1 2 1.5"]);
    assert_eq!(types(&found), ["s NUMERIC", "c INT64", "m STRING", "f FLOAT64"]);
    for (sql, named) in [
        ("SELECT note FROM things GROUP BY note", "GROUP [at 1:25]"),
        ("SELECT 1 FROM things AS a FULL JOIN users", "FULL [at 1:27]"),
        ("SELECT SUM(price) OVER () FROM things", "OVER [at 1:19]"),
        ("SELECT SOUNDEX(note) FROM things", "the function SOUNDEX [at 1:8]"),
    ] {
        let error = world.query(sql).await.unwrap_err();
        assert_eq!(error.code(), Code::Unimplemented, "{sql}: {error}");
        assert!(error.message().contains(named), "{sql}: {error}");
    }
}
