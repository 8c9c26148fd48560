//! Statements with their answers, many with parameters that are sent without a type.

use std::fmt::Write as _;

use serde_json::Value as Json;

use super::*;

/// The table, its row, and then in each line a statement, its parameters and the answer of Google's
/// emulator: types and rows, or a code. The differential test asks both servers the same.
const FORMS: &str = include_str!("answers.txt");

#[tokio::test]
async fn a_statement_is_answered_as_googles_emulator_answers_it() {
    let mut world = World::start().await;
    let mut forms = FORMS.lines();
    change(&world, forms.next().unwrap()).unwrap();
    let row = serde_json::from_str(forms.next().unwrap()).unwrap();
    let Json::Object(row) = row else { panic!("it is an object") };
    let insert = Operation::Insert(Write {
        table: "Tab".into(),
        columns: row.keys().cloned().collect(),
        values: vec![list(row.values().map(value).collect::<Vec<_>>())],
    });
    world.commit_once([mutation(insert)]).await.unwrap();
    let mut wrong = String::new();
    for form in forms {
        let [sql, parameters, expected] =
            form.splitn(3, '\t').collect::<Vec<_>>().try_into().unwrap();
        // The second time, the plan for any values answers.
        for _ in 0..2 {
            let found = answer(&mut world, sql, parameters).await;
            if found != expected {
                writeln!(wrong, "{sql} {parameters}: {found} instead of {expected}").unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// Runs a statement that leaves nothing behind.
async fn answer(world: &mut World, sql: &str, parameters: &str) -> String {
    let Json::Object(parameters) = serde_json::from_str(parameters).unwrap() else {
        panic!("{parameters} is no object")
    };
    let fields = parameters.iter().map(|(name, content)| (name.clone(), value(content))).collect();
    let id = world.begin_read_write().await;
    let selector = proto::TransactionSelector { selector: Some(Selector::Id(id.clone())) };
    let request = proto::ExecuteSqlRequest {
        session: world.session.clone(),
        transaction: Some(selector),
        sql: sql.into(),
        params: Some(prost_types::Struct { fields }),
        seqno: 1,
        ..Default::default()
    };
    let answer = world.client.execute_sql(request).await;
    world.rollback(&id).await.unwrap();
    match answer {
        Ok(answer) => described(&answer.into_inner()),
        Err(status) => match status.code() {
            Code::InvalidArgument => "INVALID_ARGUMENT".into(),
            Code::OutOfRange => "OUT_OF_RANGE".into(),
            Code::Unimplemented => "UNIMPLEMENTED".into(),
            _ => format!("{status:?}"),
        },
    }
}

/// Returns the count, the types and the rows of a result.
fn described(result: &proto::ResultSet) -> String {
    let mut parts = Vec::new();
    let stats = result.stats.as_ref().and_then(|stats| stats.row_count.as_ref());
    if let Some(proto::result_set_stats::RowCount::RowCountExact(count)) = stats {
        parts.push(format!("count {count}"));
    }
    let metadata = result.metadata.as_ref().and_then(|metadata| metadata.row_type.as_ref());
    let fields = metadata.map(|row| row.fields.as_slice()).unwrap_or_default();
    if !fields.is_empty() {
        parts.extend(fields.iter().map(|field| type_name(field.r#type.as_ref().unwrap())));
        let rows = result.rows.iter().map(|row| Json::Array(row.values.iter().map(json).collect()));
        parts.push(Json::Array(rows.collect()).to_string());
    }
    parts.join(" ")
}

fn type_name(kind: &proto::Type) -> String {
    match &kind.array_element_type {
        Some(element) => format!("ARRAY<{}>", type_name(element)),
        None => kind.code().as_str_name().into(),
    }
}

fn value(json: &Json) -> Value {
    let kind = match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(value) => Kind::BoolValue(*value),
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap()),
        Json::String(text) => Kind::StringValue(text.clone()),
        Json::Array(all) => Kind::ListValue(list(all.iter().map(value).collect::<Vec<_>>())),
        Json::Object(_) => panic!("no parameter is a STRUCT"),
    };
    Value { kind: Some(kind) }
}

fn json(value: &Value) -> Json {
    match value.kind.as_ref().unwrap() {
        Kind::NullValue(_) => Json::Null,
        Kind::BoolValue(value) => Json::Bool(*value),
        // As Google's emulator shows it: a whole number has no point.
        #[allow(clippy::cast_possible_truncation, reason = "the forms have small numbers")]
        Kind::NumberValue(number) if number.fract() == 0.0 => Json::from(*number as i64),
        Kind::NumberValue(number) => Json::from(*number),
        Kind::StringValue(text) => Json::String(text.clone()),
        Kind::ListValue(list) => Json::Array(list.values.iter().map(json).collect()),
        Kind::StructValue(_) => panic!("no value is a STRUCT"),
    }
}
