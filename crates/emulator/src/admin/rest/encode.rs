//! Replies in JSON: fields at their defaults are left out, as protocol buffers have it.

use googleapis_tonic_google_rpc::google::rpc;
use longrunning::operation;
use prost::Message;
use serde_json::{Map, Value, json};

use crate::admin::{database, instance, longrunning};
use crate::engine::{Detail, Error, Result, Timestamp};

/// Puts together the object of these fields, without those at their defaults.
fn object(fields: Vec<(&str, Value)>) -> Value {
    let is_set = |value: &Value| match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_i64() != Some(0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    };
    let mut set = Map::new();
    for (name, value) in fields.into_iter().filter(|(_, value)| is_set(value)) {
        set.insert(name.to_owned(), value);
    }
    Value::Object(set)
}

fn time(timestamp: Option<&prost_types::Timestamp>) -> Value {
    let moment = timestamp.and_then(|timestamp| {
        Timestamp::from_parts(timestamp.seconds, u32::try_from(timestamp.nanos).ok()?)
    });
    moment.map(|moment| moment.to_string().into()).unwrap_or_default()
}

/// One page of a list, in a field of this name.
pub(super) fn page<T>(field: &str, items: &[T], item: fn(&T) -> Value, next: &str) -> Value {
    let items: Vec<Value> = items.iter().map(item).collect();
    object(vec![(field, items.into()), ("nextPageToken", next.into())])
}

pub(super) fn config(config: &instance::InstanceConfig) -> Value {
    object(vec![
        ("name", config.name.as_str().into()),
        ("displayName", config.display_name.as_str().into()),
        ("configType", config.config_type().as_str_name().into()),
        ("state", config.state().as_str_name().into()),
    ])
}

pub(super) fn instance(instance: &instance::Instance) -> Value {
    let mut labels = Map::new();
    labels.extend(instance.labels.iter().map(|(name, text)| (name.clone(), text.as_str().into())));
    // Unspecified is the default of both.
    let edition = (instance.edition != 0).then(|| instance.edition().as_str_name());
    let kind = (instance.instance_type != 0).then(|| instance.instance_type().as_str_name());
    object(vec![
        ("name", instance.name.as_str().into()),
        ("config", instance.config.as_str().into()),
        ("displayName", instance.display_name.as_str().into()),
        ("nodeCount", instance.node_count.into()),
        ("processingUnits", instance.processing_units.into()),
        ("state", instance.state().as_str_name().into()),
        ("labels", labels.into()),
        ("instanceType", kind.into()),
        ("edition", edition.into()),
        ("createTime", time(instance.create_time.as_ref())),
        ("updateTime", time(instance.update_time.as_ref())),
    ])
}

pub(super) fn database(database: &database::Database) -> Value {
    object(vec![
        ("name", database.name.as_str().into()),
        ("state", database.state().as_str_name().into()),
        ("createTime", time(database.create_time.as_ref())),
        ("versionRetentionPeriod", database.version_retention_period.as_str().into()),
        ("earliestVersionTime", time(database.earliest_version_time.as_ref())),
        ("databaseDialect", database.database_dialect().as_str_name().into()),
    ])
}

pub(super) fn operation(operation: &longrunning::Operation) -> Result<Value> {
    let (error, response) = match &operation.result {
        Some(operation::Result::Error(error)) => (status(error), Value::Null),
        Some(operation::Result::Response(response)) => (Value::Null, packed(response)?),
        None => (Value::Null, Value::Null),
    };
    Ok(object(vec![
        ("name", operation.name.as_str().into()),
        ("metadata", operation.metadata.as_ref().map(packed).transpose()?.unwrap_or_default()),
        ("done", operation.done.into()),
        ("error", error),
        ("response", response),
    ]))
}

fn status(status: &rpc::Status) -> Value {
    json!({ "code": status.code, "message": status.message })
}

/// A message in an envelope that names its type beside its fields.
fn packed(any: &prost_types::Any) -> Result<Value> {
    let kind = any.type_url.rsplit('/').next().unwrap_or_default();
    let bytes = any.value.as_slice();
    let broken =
        |error: prost::DecodeError| Error::new(crate::engine::Code::Internal, error.to_string());
    let mut fields = match kind.rsplit('.').next().unwrap_or_default() {
        "Instance" => instance(&instance::Instance::decode(bytes).map_err(broken)?),
        "Database" => database(&database::Database::decode(bytes).map_err(broken)?),
        "CreateInstanceMetadata" => {
            let metadata = instance::CreateInstanceMetadata::decode(bytes).map_err(broken)?;
            progress(&metadata.instance, &metadata.start_time, &metadata.end_time)
        }
        "CreateDatabaseMetadata" => {
            let metadata = database::CreateDatabaseMetadata::decode(bytes).map_err(broken)?;
            json!({ "database": metadata.database })
        }
        "UpdateDatabaseDdlMetadata" => {
            let metadata = database::UpdateDatabaseDdlMetadata::decode(bytes).map_err(broken)?;
            let times: Vec<Value> =
                metadata.commit_timestamps.iter().map(|at| time(Some(at))).collect();
            object(vec![
                ("database", metadata.database.into()),
                ("statements", metadata.statements.into()),
                ("commitTimestamps", times.into()),
            ])
        }
        // Types that have a form of their own in JSON stand in a field of this name.
        _ => json!({ "value": {} }),
    };
    fields["@type"] = any.type_url.as_str().into();
    Ok(fields)
}

fn progress(
    made: &Option<instance::Instance>,
    start: &Option<prost_types::Timestamp>,
    end: &Option<prost_types::Timestamp>,
) -> Value {
    object(vec![
        ("instance", made.as_ref().map(instance).unwrap_or_default()),
        ("startTime", time(start.as_ref())),
        ("endTime", time(end.as_ref())),
    ])
}

/// Returns the parts that an error carries besides its message.
pub(super) fn details(error: &Error) -> Value {
    match error.detail() {
        Detail::Resource { kind, name } => json!([{
            "@type": "type.googleapis.com/google.rpc.ResourceInfo",
            "resourceType": kind,
            "resourceName": name,
        }]),
        Detail::None | Detail::RetryAfter(_) => json!([]),
    }
}
