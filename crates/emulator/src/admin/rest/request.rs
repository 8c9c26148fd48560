//! The content of requests, in JSON and behind the `?`.

use std::collections::HashMap;

use database::DatabaseDialect;
use instance::instance::Edition;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::admin::{database, instance};
use crate::engine::{Error, Result};

/// The parameters behind the `?`. An unknown one changes nothing.
#[derive(Debug)]
pub(super) struct Query(HashMap<String, String>);

impl Query {
    /// Reads `name=value&name=value`.
    pub fn parse(text: &str) -> Query {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(&name.replace('+', " ")), decoded(&value.replace('+', " ")))
        };
        Query(text.split('&').map(pair).collect())
    }

    /// Returns a text; empty if it was left out.
    pub fn text(&self, name: &str) -> String {
        self.0.get(name).cloned().unwrap_or_default()
    }

    /// Returns how many items a page may have; 0, if that is left to the server.
    pub fn page_size(&self) -> i32 {
        self.text("pageSize").parse().unwrap_or_default()
    }
}

/// Returns a part of an address with its `%41` resolved.
pub(super) fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// The fields of a JSON object, each of which is taken once; what is left over is a mistake.
#[derive(Debug)]
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    /// Reads an object; nothing at all is an empty one.
    pub fn parse(body: &[u8]) -> Result<Fields> {
        if body.is_empty() {
            return Ok(Fields(Map::new()));
        }
        let value = serde_json::from_slice(body).map_err(|error| {
            Error::invalid_argument(format!("the request is not JSON: {error}"))
        })?;
        Fields::of("the request", value)
    }

    pub fn create_instance(mut self, parent: String) -> Result<instance::CreateInstanceRequest> {
        let instance_id = self.text("instanceId")?;
        let instance = self.instance("instance")?;
        self.text("parent")?;
        self.finish()?;
        Ok(instance::CreateInstanceRequest { parent, instance_id, instance: Some(instance) })
    }

    pub fn create_database(mut self, parent: String) -> Result<database::CreateDatabaseRequest> {
        let create_statement = self.text("createStatement")?;
        let extra_statements = self.texts("extraStatements")?;
        let database_dialect = self.named("databaseDialect", |name| {
            DatabaseDialect::from_str_name(name).map(Into::into)
        })?;
        self.text("parent")?;
        self.finish()?;
        Ok(database::CreateDatabaseRequest {
            parent,
            create_statement,
            extra_statements,
            database_dialect,
            ..Default::default()
        })
    }

    pub fn update_database_ddl(
        mut self,
        database: String,
    ) -> Result<database::UpdateDatabaseDdlRequest> {
        let statements = self.texts("statements")?;
        let operation_id = self.text("operationId")?;
        self.text("database")?;
        self.finish()?;
        Ok(database::UpdateDatabaseDdlRequest {
            database,
            statements,
            operation_id,
            ..Default::default()
        })
    }

    fn instance(&mut self, field: &str) -> Result<instance::Instance> {
        let Some(value) = self.take(field) else { return Ok(instance::Instance::default()) };
        let mut fields = Fields::of(field, value)?;
        let read = instance::Instance {
            name: fields.text("name")?,
            config: fields.text("config")?,
            display_name: fields.text("displayName")?,
            node_count: fields.count("nodeCount")?,
            processing_units: fields.count("processingUnits")?,
            labels: fields.labels("labels")?,
            edition: fields
                .named("edition", |name| Edition::from_str_name(name).map(Into::into))?,
            ..Default::default()
        };
        fields.finish()?;
        Ok(read)
    }

    fn of(what: &str, value: Value) -> Result<Fields> {
        match value {
            Value::Object(fields) => Ok(Fields(fields)),
            Value::Null => Ok(Fields(Map::new())),
            _ => Err(Error::invalid_argument(format!("{what} is not a JSON object"))),
        }
    }

    /// Takes a field under its name in JSON, or the one it has in the message.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).or_else(|| self.0.remove(&snake_case(name)))
    }

    fn text(&mut self, name: &str) -> Result<String> {
        match self.take(name) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(malformed(name, "a text")),
        }
    }

    fn texts(&mut self, name: &str) -> Result<Vec<String>> {
        let items = match self.take(name) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => items,
            Some(_) => return Err(malformed(name, "a list of texts")),
        };
        let text = |item: Value| match item {
            Value::String(text) => Ok(text),
            _ => Err(malformed(name, "a list of texts")),
        };
        items.into_iter().map(text).collect()
    }

    /// A number, which may also come as a text.
    fn count(&mut self, name: &str) -> Result<i32> {
        let number = match self.take(name) {
            None | Some(Value::Null) => return Ok(0),
            Some(Value::String(text)) => text.parse().ok(),
            Some(value) => value.as_i64().and_then(|number| i32::try_from(number).ok()),
        };
        number.ok_or_else(|| malformed(name, "a 32-bit number"))
    }

    fn labels(&mut self, name: &str) -> Result<HashMap<String, String>> {
        let Some(value) = self.take(name) else { return Ok(HashMap::new()) };
        let label = |(label, value)| match value {
            Value::String(text) => Ok((label, text)),
            _ => Err(malformed(name, "an object of texts")),
        };
        Fields::of(name, value)?.0.into_iter().map(label).collect()
    }

    /// A value of an enumeration, as its name or its number.
    fn named(&mut self, name: &str, known: impl Fn(&str) -> Option<i32>) -> Result<i32> {
        let value = match self.take(name) {
            None | Some(Value::Null) => return Ok(0),
            Some(Value::String(text)) => known(&text),
            Some(value) => value.as_i64().and_then(|number| i32::try_from(number).ok()),
        };
        value.ok_or_else(|| malformed(name, "one of its names or numbers"))
    }

    fn finish(self) -> Result<()> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(Error::unimplemented(format!("Not supported here: {name}"))),
        }
    }
}

fn malformed(name: &str, wanted: &str) -> Error {
    Error::invalid_argument(format!("{name} is not {wanted}"))
}

/// `displayName` as `display_name`.
fn snake_case(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    for next in name.chars() {
        if next.is_ascii_uppercase() {
            text.push('_');
        }
        text.push(next.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_decoded_and_what_is_no_code_stays() {
        assert_eq!(decoded("a%2Fb%20%c3%bc%"), "a/b ü%");
        let query = Query::parse("pageSize=3&pageToken=a%2Fb&$alt=json;enum-encoding=int");
        assert_eq!((query.page_size(), query.text("pageToken").as_str()), (3, "a/b"));
        assert_eq!(Query::parse("").page_size(), 0);
    }

    #[test]
    fn fields_come_under_either_name_and_in_either_form() {
        let read = |body: &str| Fields::parse(body.as_bytes()).unwrap().instance("instance");
        let one =
            read(r#"{"instance": {"displayName": "A", "nodeCount": 2, "edition": "STANDARD"}}"#);
        let other = read(r#"{"instance": {"display_name": "A", "node_count": "2", "edition": 1}}"#);
        assert_eq!(one.as_ref().unwrap().node_count, 2);
        assert_eq!(one, other);
        assert!(read(r#"{"instance": {"wings": 2}}"#).is_err());
        assert!(read(r#"{"instance": {"nodeCount": "many"}}"#).is_err());
    }
}
