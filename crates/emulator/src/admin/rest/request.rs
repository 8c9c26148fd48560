//! The content of requests, in JSON and behind the `?`. Fields have their names in JSON, or those that they
//! have in the message.

use std::collections::HashMap;

use database::DatabaseDialect;
use instance::instance::Edition;
use percent_encoding::percent_decode_str;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _, IgnoredAny};

use crate::admin::{database, instance};
use crate::engine::{Error, Result};
use crate::http1;

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

/// Reads a request; a field that it doesn't have may be one of Google's.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    http1::parse(body, |error| Error::unimplemented(format!("Not supported here: {error}")))
}

#[derive(Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CreateInstance {
    #[serde(alias = "instance_id")]
    instance_id: String,
    instance: Instance,
    #[serde(rename = "parent")]
    _parent: IgnoredAny,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Instance {
    name: String,
    config: String,
    #[serde(alias = "display_name")]
    display_name: String,
    #[serde(alias = "node_count", deserialize_with = "number")]
    node_count: i32,
    #[serde(alias = "processing_units", deserialize_with = "number")]
    processing_units: i32,
    labels: HashMap<String, String>,
    #[serde(deserialize_with = "edition")]
    edition: i32,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CreateDatabase {
    #[serde(alias = "create_statement")]
    create_statement: String,
    #[serde(alias = "extra_statements")]
    extra_statements: Vec<String>,
    #[serde(alias = "database_dialect", deserialize_with = "dialect")]
    database_dialect: i32,
    #[serde(rename = "parent")]
    _parent: IgnoredAny,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct UpdateDatabaseDdl {
    statements: Vec<String>,
    #[serde(alias = "operation_id")]
    operation_id: String,
    #[serde(rename = "database")]
    _database: IgnoredAny,
}

impl CreateInstance {
    pub fn below(self, parent: String) -> instance::CreateInstanceRequest {
        let CreateInstance { instance_id, instance, .. } = self;
        let instance = Some(instance::Instance {
            name: instance.name,
            config: instance.config,
            display_name: instance.display_name,
            node_count: instance.node_count,
            processing_units: instance.processing_units,
            labels: instance.labels,
            edition: instance.edition,
            ..Default::default()
        });
        instance::CreateInstanceRequest { parent, instance_id, instance }
    }
}

impl CreateDatabase {
    pub fn below(self, parent: String) -> database::CreateDatabaseRequest {
        let CreateDatabase { create_statement, extra_statements, database_dialect, .. } = self;
        database::CreateDatabaseRequest {
            parent,
            create_statement,
            extra_statements,
            database_dialect,
            ..Default::default()
        }
    }
}

impl UpdateDatabaseDdl {
    pub fn of(self, database: String) -> database::UpdateDatabaseDdlRequest {
        let UpdateDatabaseDdl { statements, operation_id, .. } = self;
        database::UpdateDatabaseDdlRequest {
            database,
            statements,
            operation_id,
            ..Default::default()
        }
    }
}

fn number<'de, D: Deserializer<'de>>(input: D) -> Result<i32, D::Error> {
    number_or_text(input, |text| text.parse().ok())
}

fn edition<'de, D: Deserializer<'de>>(input: D) -> Result<i32, D::Error> {
    number_or_text(input, |name| Edition::from_str_name(name).map(Into::into))
}

fn dialect<'de, D: Deserializer<'de>>(input: D) -> Result<i32, D::Error> {
    number_or_text(input, |name| DatabaseDialect::from_str_name(name).map(Into::into))
}

/// Reads a number, or a text that stands for one.
fn number_or_text<'de, D: Deserializer<'de>>(
    input: D,
    known: impl Fn(&str) -> Option<i32>,
) -> Result<i32, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(i32),
        Text(String),
    }
    match Either::deserialize(input)? {
        Either::Number(number) => Ok(number),
        Either::Text(text) => {
            known(&text).ok_or_else(|| D::Error::custom(format_args!("unknown value `{text}`")))
        }
    }
}
