//! NUMERIC, JSON, arrays and defaults on the wire, and what statements return of what they wrote.

use proto::TypeCode;
use proto::result_set_stats::RowCount;

use super::*;

fn array(values: impl Into<Vec<Value>>) -> Value {
    Value { kind: Some(Kind::ListValue(list(values))) }
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
async fn parameters_have_a_type_or_take_that_of_their_place() {
    let mut world = World::start().await;
    world.commit_once([insert(1), insert(2), insert(3)]).await.unwrap();
    let typed = |code: TypeCode| proto::Type { code: code as i32, ..Default::default() };
    let of = |code| proto::Type {
        array_element_type: Some(Box::new(typed(code))),
        ..typed(TypeCode::Array)
    };
    let (one, many) = ("id = @p", "id IN UNNEST(@p)");
    for (filter, value, kind, expected) in [
        (one, text("1"), None, Ok(1)),
        (one, text("1"), Some(typed(TypeCode::Int64)), Ok(1)),
        (one, text("x"), Some(typed(TypeCode::Int64)), Err(Code::InvalidArgument)),
        (one, text("1"), Some(typed(TypeCode::Numeric)), Ok(1)),
        (one, text("1"), Some(typed(TypeCode::Uuid)), Err(Code::Unimplemented)),
        (one, null(), None, Ok(0)),
        (many, array([text("1"), text("3"), null()]), Some(of(TypeCode::Int64)), Ok(2)),
        (many, array([text("1"), text("3")]), None, Ok(2)),
        (many, array([]), None, Ok(0)),
        (many, null(), Some(of(TypeCode::Int64)), Ok(0)),
        (many, array([text("x")]), Some(of(TypeCode::Int64)), Err(Code::InvalidArgument)),
        (many, array([text("1")]), Some(of(TypeCode::Uuid)), Err(Code::Unimplemented)),
        (many, text("1"), None, Err(Code::InvalidArgument)),
        (many, array([array([])]), None, Err(Code::Unimplemented)),
    ] {
        let request = proto::ExecuteSqlRequest {
            params: Some(prost_types::Struct { fields: [("p".to_owned(), value.clone())].into() }),
            param_types: kind.map(|kind| ("p".to_owned(), kind)).into_iter().collect(),
            ..world.statement(&format!("SELECT name FROM users WHERE {filter}"))
        };
        let found = world.client.execute_sql(request).await;
        let found = found.map(|reply| reply.into_inner().rows.len()).map_err(|error| error.code());
        assert_eq!(found, expected, "{filter} {value:?}");
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
            transaction: selected(inside()),
            seqno: 2,
            ..world.statement("UPDATE things SET note = DEFAULT WHERE true THEN RETURN price + 1")
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
    let committed = world.commit(&id, [thing("2")]).await.unwrap().commit_timestamp.unwrap();
    let found = world.query("SELECT price, note, made FROM things").await.unwrap();
    let made: prost_types::Timestamp = found[0].rsplit(' ').next().unwrap().parse().unwrap();
    assert_eq!(made, committed);
    let notes: Vec<&str> = found.iter().map(|row| &row[..6]).collect();
    assert_eq!(notes, ["1 none", "2 none"]);
}
