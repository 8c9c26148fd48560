//! Administration: instances, databases and their schemas, as any client's set-up code asks for them.
//!
//! One set of calls, spoken in two ways: over gRPC beside the data (`grpc`), and over HTTP and JSON
//! on a port of its own (`rest`). Whatever takes long in Cloud Spanner is done at once here, and
//! its operation says so.

mod databases;
mod definition;
pub(crate) mod grpc;
mod instances;
mod names;
mod operations;
pub(crate) mod rest;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use googleapis_tonic_google_longrunning::google::longrunning;
use googleapis_tonic_google_spanner_admin_database_v1::google::spanner::admin::database::v1 as database;
use googleapis_tonic_google_spanner_admin_instance_v1::google::spanner::admin::instance::v1 as instance;

use crate::engine::{Database, Dialect, Error, Result, SchemaChange, Timestamp};
use crate::service::Core;
use operations::Operations;

/// How many items one page lists at most.
const PAGE_MAX: usize = 1_000;

/// What there is to administer. The databases themselves are the server's.
#[derive(Debug)]
pub(crate) struct Admin {
    core: Arc<Core>,
    registry: Mutex<Registry>,
}

#[derive(Debug, Default)]
struct Registry {
    /// By full name.
    instances: BTreeMap<String, instance::Instance>,
    operations: Operations,
}

impl Admin {
    /// Administers this server.
    pub fn new(core: Arc<Core>) -> Admin {
        Admin { core, registry: Mutex::default() }
    }

    /// Adds a database for the program that runs the server. Its instance comes with it, so that
    /// clients can go on from there.
    pub fn add_database(
        &self,
        name: &str,
        dialect: Dialect,
        schema: &[SchemaChange],
    ) -> Result<Database> {
        self.add_made(name, self.core.new_database(dialect, schema)?)
    }

    /// Adds a database that has been made, with its instance.
    pub fn add_made(&self, name: &str, database: Database) -> Result<Database> {
        let mut registry = self.registry();
        let database = self.core.add_database(name, database)?;
        if let Some((instance, _)) = name.split_once("/databases/") {
            let now = self.core.clock().now();
            registry
                .instances
                .entry(instance.to_owned())
                .or_insert_with(|| instances::implied(instance, now));
        }
        Ok(database)
    }

    /// Removes a database. Whether it was there.
    pub fn remove_database(&self, name: &str) -> bool {
        let mut registry = self.registry();
        registry.operations.forget_below(name);
        self.core.drop_database(name)
    }

    /// Forgets everything, databases included.
    pub fn clear(&self) {
        let mut registry = self.registry();
        for (name, _) in self.core.all_databases() {
            self.core.drop_database(&name);
        }
        *registry = Registry::default();
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One page of what is sorted by name, and the token of the next one: the name it starts with.
fn page<T>(
    items: impl Iterator<Item = T>,
    name: impl Fn(&T) -> &str,
    size: i32,
    token: &str,
) -> (Vec<T>, String) {
    let most = match usize::try_from(size) {
        Ok(size @ 1..) => size.min(PAGE_MAX),
        _ => PAGE_MAX,
    };
    let mut items: Vec<T> = items.filter(|item| name(item) >= token).take(most + 1).collect();
    let next = if items.len() > most { items.pop() } else { None };
    (items, next.map(|item| name(&item).to_owned()).unwrap_or_default())
}

/// UNIMPLEMENTED, unless the field of this name was left out.
fn refuse(field: &str, is_set: bool) -> Result<()> {
    match is_set {
        true => Err(Error::unimplemented(format!("Not supported here: {field}"))),
        false => Ok(()),
    }
}

fn encode(timestamp: Timestamp) -> prost_types::Timestamp {
    // Below 10^9, which an i32 holds.
    let nanos = timestamp.subsec_nanos() as i32;
    prost_types::Timestamp { seconds: timestamp.seconds(), nanos }
}
