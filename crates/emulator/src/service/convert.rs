//! Values, keys and mutations between the wire and the engine.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use googleapis_tonic_google_spanner_v1::google::spanner::v1 as proto;
use prost_types::value::Kind;
use prost_types::{ListValue, Value as WireValue};
use proto::key_range::{EndKeyType, StartKeyType};
use proto::mutation::Operation;

use crate::engine::{
    Cell, Column, Error, Key, KeyRange, Mutation, Result, Schema, Table, Timestamp, Type, Value,
    WriteKind,
};
use crate::sql;

/// The text by which a request asks for the timestamp of its own commit.
const COMMIT_TIMESTAMP: &str = "spanner.commit_timestamp()";

/// Returns a value as a reply carries it.
pub(super) fn encode(value: &Value) -> WireValue {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(value) => Kind::BoolValue(*value),
        Value::Int64(value) => Kind::StringValue(value.to_string()),
        Value::Float64(value) if value.is_nan() => Kind::StringValue("NaN".into()),
        Value::Float64(f64::INFINITY) => Kind::StringValue("Infinity".into()),
        Value::Float64(f64::NEG_INFINITY) => Kind::StringValue("-Infinity".into()),
        Value::Float64(value) => Kind::NumberValue(*value),
        Value::String(value) => Kind::StringValue(value.clone()),
        Value::Bytes(value) => Kind::StringValue(BASE64_STANDARD.encode(value)),
        Value::Date(value) => Kind::StringValue(value.to_string()),
        Value::Timestamp(value) => Kind::StringValue(value.to_string()),
        Value::Numeric(value) => Kind::StringValue(value.to_string()),
        Value::Json(value) => Kind::StringValue(value.to_string()),
        Value::Array { values, .. } => {
            Kind::ListValue(ListValue { values: values.iter().map(encode).collect() })
        }
    };
    WireValue { kind: Some(kind) }
}

/// Returns a value of a request, which is to be of this type.
fn decode(value: &WireValue, value_type: Type) -> Result<Value> {
    sql::decode(value, value_type).map_err(Error::failed_precondition)
}

/// The name of a type on the wire.
fn type_code(value_type: Type) -> proto::TypeCode {
    match value_type {
        Type::Bool => proto::TypeCode::Bool,
        Type::Int64 => proto::TypeCode::Int64,
        Type::Float64 => proto::TypeCode::Float64,
        Type::String => proto::TypeCode::String,
        Type::Bytes => proto::TypeCode::Bytes,
        Type::Date => proto::TypeCode::Date,
        Type::Timestamp => proto::TypeCode::Timestamp,
        Type::Numeric => proto::TypeCode::Numeric,
        Type::Json => proto::TypeCode::Json,
        Type::Array(_) => proto::TypeCode::Array,
    }
}

fn encode_type(value_type: Type) -> proto::Type {
    proto::Type {
        code: type_code(value_type) as i32,
        array_element_type: value_type.element().map(|element| Box::new(encode_type(element))),
        ..proto::Type::default()
    }
}

/// Returns the type that a request states for a parameter.
pub(super) fn type_of(stated: &proto::Type, parameter: &str) -> Result<Type> {
    let code = proto::TypeCode::try_from(stated.code).unwrap_or(proto::TypeCode::Unspecified);
    let known = match (code, &stated.array_element_type) {
        (proto::TypeCode::Array, Some(element)) => type_of(element, parameter)?.array(),
        _ => Type::scalars().find(|candidate| type_code(*candidate) == code),
    };
    known.ok_or_else(|| {
        Error::unimplemented(format!("parameter @{parameter}: {}", code.as_str_name()))
    })
}

/// Returns the description of a result's columns.
pub(super) fn row_type<'a>(
    columns: impl IntoIterator<Item = (&'a str, Type)>,
) -> proto::StructType {
    let field = |(name, value_type): (&str, Type)| proto::struct_type::Field {
        name: name.to_owned(),
        r#type: Some(encode_type(value_type)),
    };
    proto::StructType { fields: columns.into_iter().map(field).collect() }
}

/// Returns the ranges of keys that a request names, each of at most so many `parts`. With `stamped`,
/// they can name the commit timestamp.
pub(super) fn key_ranges(
    table: &Table,
    parts: usize,
    keys: &proto::KeySet,
    stamped: bool,
) -> Result<Vec<KeyRange>> {
    if keys.all {
        return Ok(vec![KeyRange::all()]);
    }
    let prefix = |key: &ListValue| key_prefix(table, parts, key, stamped);
    let mut ranges = Vec::with_capacity(keys.keys.len() + keys.ranges.len());
    for key in &keys.keys {
        if key.values.len() < parts {
            return Err(wrong_key_parts(table, parts, key));
        }
        ranges.push(KeyRange::prefix(prefix(key)?));
    }
    for range in &keys.ranges {
        ranges.push(KeyRange {
            start: match &range.start_key_type {
                Some(StartKeyType::StartClosed(key)) => prefix(key)?,
                Some(StartKeyType::StartOpen(key)) => prefix(key)?.after(),
                None => return Err(Error::invalid_argument("KeyRange must specify a start.")),
            },
            end: match &range.end_key_type {
                Some(EndKeyType::EndClosed(key)) => prefix(key)?.after(),
                Some(EndKeyType::EndOpen(key)) => prefix(key)?,
                None => return Err(Error::invalid_argument("KeyRange must specify an end.")),
            },
        });
    }
    Ok(ranges)
}

/// Refuses ranges that Cloud Spanner doesn't delete.
fn check_deleted_range(range: &proto::KeyRange) -> Result<()> {
    let (Some(StartKeyType::StartClosed(start) | StartKeyType::StartOpen(start)), Some(end)) =
        (&range.start_key_type, &range.end_key_type)
    else {
        return Ok(());
    };
    let (EndKeyType::EndClosed(end) | EndKeyType::EndOpen(end)) = end;
    let same = start.values.iter().zip(&end.values).take_while(|(start, end)| start == end).count();
    match start.values.len().max(end.values.len()) > same + 1 {
        true => Err(Error::unimplemented(
            "For delete ranges, start and limit keys may only differ in the final key part.",
        )),
        false => Ok(()),
    }
}

fn key_prefix(table: &Table, parts: usize, key: &ListValue, stamped: bool) -> Result<Key> {
    if key.values.len() > parts {
        return Err(wrong_key_parts(table, parts, key));
    }
    let values = table.primary_key.iter().zip(&key.values);
    let value = |(part, value): (&crate::engine::KeyColumn, &WireValue)| {
        let column = &table.columns[part.position];
        match &value.kind {
            // See `Mutation::Delete`.
            Some(Kind::StringValue(text)) if stamped && is_stamp(column, text) => {
                Ok(Value::Timestamp(Timestamp::MAX))
            }
            _ => decode(value, column.column_type),
        }
    };
    table.key(values.map(value).collect::<Result<Vec<_>>>()?)
}

fn wrong_key_parts(table: &Table, parts: usize, key: &ListValue) -> Error {
    Error::failed_precondition(format!(
        "Wrong number of key parts for {}. Expected {parts} key parts, found {}.",
        table.name,
        key.values.len()
    ))
}

/// Returns the mutations of a commit, one per row.
pub(super) fn mutations(schema: &Schema, mutations: &[proto::Mutation]) -> Result<Vec<Mutation>> {
    let mut decoded = Vec::with_capacity(mutations.len());
    for mutation in mutations {
        let (kind, write) = match &mutation.operation {
            Some(Operation::Insert(write)) => (WriteKind::Insert, write),
            Some(Operation::Update(write)) => (WriteKind::Update, write),
            Some(Operation::InsertOrUpdate(write)) => (WriteKind::InsertOrUpdate, write),
            Some(Operation::Replace(write)) => (WriteKind::Replace, write),
            Some(Operation::Delete(delete)) => {
                let table = table(schema, &delete.table)?;
                let keys = delete.key_set.as_ref().map_or(Ok(vec![]), |keys| {
                    keys.ranges.iter().try_for_each(check_deleted_range)?;
                    key_ranges(table, table.primary_key.len(), keys, true)
                })?;
                decoded.push(Mutation::Delete { table: delete.table.clone(), keys });
                continue;
            }
            Some(Operation::Send(_)) => return Err(Error::unimplemented("mutation send (queues)")),
            Some(Operation::Ack(_)) => return Err(Error::unimplemented("mutation ack (queues)")),
            None => return Err(Error::invalid_argument("Mutation must specify an operation.")),
        };
        let table = table(schema, &write.table)?;
        let positions: Vec<usize> =
            write.columns.iter().map(|name| table.find(name)).collect::<Result<_>>()?;
        if write.values.is_empty() {
            return Err(Error::invalid_argument(
                "No value provided for required field: Write.values",
            ));
        }
        for row in &write.values {
            decoded.push(Mutation::Write {
                kind,
                table: write.table.clone(),
                columns: write.columns.clone(),
                cells: cells(table, &positions, row)?,
            });
        }
    }
    Ok(decoded)
}

fn cells(table: &Table, positions: &[usize], row: &ListValue) -> Result<Vec<Cell>> {
    if positions.len() != row.values.len() {
        return Err(Error::invalid_argument(format!(
            "Mutation column and value size mismatch: Found: {} columns and {} values",
            positions.len(),
            row.values.len()
        )));
    }
    let cell = |(&position, value): (&usize, &WireValue)| {
        let column = &table.columns[position];
        match &value.kind {
            Some(Kind::StringValue(text)) if is_stamp(column, text) => Ok(Cell::CommitTimestamp),
            _ => decode(value, column.column_type).map(Cell::Value),
        }
    };
    positions.iter().zip(&row.values).map(cell).collect()
}

/// Returns true if a text in this column asks for the timestamp of the commit.
fn is_stamp(column: &Column, text: &str) -> bool {
    column.column_type == Type::Timestamp && text == COMMIT_TIMESTAMP
}

/// Returns the table that a request names.
pub(super) fn table<'a>(schema: &'a Schema, name: &str) -> Result<&'a Table> {
    if name.is_empty() {
        return Err(Error::invalid_argument("The request does not specify a table."));
    }
    let table = schema.table(name).map(|table| &**table);
    table.ok_or_else(|| schema.missing_table(name))
}

/// Returns a timestamp as a message of its own.
pub(crate) fn encode_timestamp(timestamp: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: timestamp.seconds(),
        // Below 10^9, which an i32 holds.
        nanos: timestamp.subsec_nanos() as i32,
    }
}

/// Returns a moment to read at, which came as a message of its own.
pub(super) fn decode_timestamp(timestamp: &prost_types::Timestamp) -> Result<Timestamp> {
    u32::try_from(timestamp.nanos)
        .ok()
        .and_then(|nanos| Timestamp::from_parts(timestamp.seconds, nanos))
        .filter(|timestamp| *timestamp > Timestamp::EPOCH)
        .ok_or_else(|| Error::invalid_argument("Invalid timestamp."))
}

/// Returns a duration that came as a message, and must not be negative.
pub(super) fn decode_duration(duration: &prost_types::Duration) -> Result<std::time::Duration> {
    std::time::Duration::try_from(*duration)
        .map_err(|_| Error::invalid_argument("A duration must not be negative."))
}
