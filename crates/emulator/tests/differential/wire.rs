//! Values, keys and mutations, between JSON and the messages of the protocol.

use googleapis_tonic_google_spanner_v1::google::spanner::v1 as proto;
use prost_types::value::Kind;
use prost_types::{ListValue, Timestamp, Value};
use proto::mutation::{Operation, Write};
use proto::result_set_stats::RowCount;
use proto::{Type, TypeCode};
use serde_json::Value as Json;
use tonic::{Code, Status};

use super::answer::Answer;
use super::side::named;

/// A value as it is sent.
pub fn value(json: &Json) -> Value {
    let kind = match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(value) => Kind::BoolValue(*value),
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => Kind::StringValue(text.clone()),
        Json::Array(all) => Kind::ListValue(list(all)),
        Json::Object(all) => {
            let fields = all.iter().map(|(name, json)| (name.clone(), value(json))).collect();
            Kind::StructValue(prost_types::Struct { fields })
        }
    };
    Value { kind: Some(kind) }
}

fn list(all: &[Json]) -> ListValue {
    ListValue { values: all.iter().map(value).collect() }
}

fn json(value: &Value, commits: &[Timestamp]) -> Json {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Json::Null,
        Some(Kind::BoolValue(value)) => Json::Bool(*value),
        // The wire tells both zeros apart, GoogleSQL doesn't.
        Some(Kind::NumberValue(number)) => Json::from(*number + 0.0),
        Some(Kind::StringValue(text)) => Json::from(named(text, commits).unwrap_or(text.clone())),
        Some(Kind::ListValue(list)) => {
            Json::Array(list.values.iter().map(|value| json(value, commits)).collect())
        }
        Some(Kind::StructValue(all)) => Json::Object(
            all.fields.iter().map(|(name, value)| (name.clone(), json(value, commits))).collect(),
        ),
    }
}

/// The type of this name.
pub fn type_of(name: &str) -> Type {
    let element = name.strip_prefix("ARRAY<").and_then(|name| name.strip_suffix('>'));
    let code = if element.is_some() { "ARRAY" } else { name };
    Type {
        code: TypeCode::from_str_name(code).unwrap_or_default() as i32,
        array_element_type: element.map(|name| Box::new(type_of(name))),
        ..Default::default()
    }
}

fn type_name(kind: &Type) -> String {
    match (&kind.array_element_type, &kind.struct_type) {
        (Some(element), _) => format!("ARRAY<{}>", type_name(element)),
        (None, Some(fields)) => {
            let fields = fields.fields.iter();
            let named = fields.map(|field| {
                let kind = field.r#type.as_ref().map(type_name);
                format!("{} {}", field.name, kind.unwrap_or_default())
            });
            format!("STRUCT<{}>", named.collect::<Vec<_>>().join(", "))
        }
        (None, None) => kind.code().as_str_name().into(),
    }
}

/// The answer that a result is.
pub fn describe(result: &proto::ResultSet, commits: &[Timestamp]) -> Answer {
    let metadata = result.metadata.as_ref().and_then(|metadata| metadata.row_type.as_ref());
    let fields = metadata.map(|row| row.fields.as_slice()).unwrap_or_default();
    let column = |field: &proto::struct_type::Field| {
        (field.name.clone(), field.r#type.as_ref().map(type_name).unwrap_or_default())
    };
    let row = |row: &ListValue| row.values.iter().map(|value| json(value, commits)).collect();
    let count = match result.stats.as_ref().and_then(|stats| stats.row_count) {
        Some(RowCount::RowCountExact(count) | RowCount::RowCountLowerBound(count)) => Some(count),
        None => None,
    };
    Answer {
        columns: fields.iter().map(column).collect(),
        rows: result.rows.iter().map(row).collect(),
        count,
        ..Answer::of(Code::Ok, "")
    }
}

fn parse(text: &str) -> Result<Json, Status> {
    serde_json::from_str(text).map_err(|error| Status::internal(format!("{text}: {error}")))
}

fn lists(json: &Json) -> Vec<ListValue> {
    let all = json.as_array().into_iter().flatten();
    all.map(|one| list(one.as_array().map(Vec::as_slice).unwrap_or_default())).collect()
}

/// The keys that a text names.
pub fn key_set(text: &str) -> Result<proto::KeySet, Status> {
    use proto::key_range::{EndKeyType, StartKeyType};
    if text == "all" {
        return Ok(proto::KeySet { all: true, ..Default::default() });
    }
    let json = parse(text)?;
    let Some(range) = json.as_object() else {
        return Ok(proto::KeySet { keys: lists(&json), ..Default::default() });
    };
    let end = |name: &str| list(range[name].as_array().map(Vec::as_slice).unwrap_or_default());
    let ends = range["ends"].as_str().unwrap_or_default();
    let range = proto::KeyRange {
        start_key_type: Some(match ends.starts_with('[') {
            true => StartKeyType::StartClosed(end("from")),
            false => StartKeyType::StartOpen(end("from")),
        }),
        end_key_type: Some(match ends.ends_with(']') {
            true => EndKeyType::EndClosed(end("to")),
            false => EndKeyType::EndOpen(end("to")),
        }),
    };
    Ok(proto::KeySet { ranges: vec![range], ..Default::default() })
}

/// The mutation that a text notes.
pub fn mutation(text: &str) -> Result<proto::Mutation, Status> {
    let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
    let (table, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    if verb == "delete" {
        let key_set = Some(key_set(rest)?);
        let delete = proto::mutation::Delete { table: table.into(), key_set };
        return Ok(proto::Mutation { operation: Some(Operation::Delete(delete)) });
    }
    let (columns, values) = rest.split_once(' ').unwrap_or((rest, "[]"));
    let write = Write {
        table: table.into(),
        columns: columns.split(',').map(str::to_owned).collect(),
        values: lists(&parse(values)?),
    };
    let operation = match verb {
        "insert" => Operation::Insert(write),
        "update" => Operation::Update(write),
        "upsert" => Operation::InsertOrUpdate(write),
        "replace" => Operation::Replace(write),
        // A mutation that does nothing.
        "none" => return Ok(proto::Mutation { operation: None }),
        _ => return Err(Status::internal(format!("no such mutation: {text}"))),
    };
    Ok(proto::Mutation { operation: Some(operation) })
}
