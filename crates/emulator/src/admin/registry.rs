//! The resources to administer, and the calls about operations.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::operations::Operations;
use super::{configuration, instance, longrunning};
use crate::engine::{Database, Dialect, Result, SchemaChange};
use crate::service::Core;

/// The resources to administer. The databases themselves are the server's.
#[derive(Debug)]
pub(crate) struct Admin {
    pub(super) core: Arc<Core>,
    registry: Mutex<Registry>,
}

#[derive(Debug, Default)]
pub(super) struct Registry {
    /// In the order of their names.
    pub instances: Vec<instance::Instance>,
    pub operations: Operations,
    /// The descriptors of protos that a lenient server keeps, by the name of the database.
    pub proto_descriptors: HashMap<String, Vec<u8>>,
}

impl Registry {
    /// Returns the instance of this name.
    pub fn instance(&self, name: &str) -> Option<&instance::Instance> {
        self.instances.iter().find(|instance| instance.name == name)
    }

    /// Adds an instance, which must be new.
    pub fn add_instance(&mut self, new: instance::Instance) {
        let at = self.instances.partition_point(|instance| instance.name < new.name);
        self.instances.insert(at, new);
    }
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
            if registry.instance(instance).is_none() {
                registry.add_instance(configuration::implied(instance, now));
            }
        }
        Ok(database)
    }

    /// Removes a database. It returns true if it was there.
    pub fn remove_database(&self, name: &str) -> bool {
        let mut registry = self.registry();
        registry.operations.forget_below(name);
        registry.proto_descriptors.remove(name);
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

    pub(super) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get_operation(
        &self,
        request: longrunning::GetOperationRequest,
    ) -> Result<longrunning::Operation> {
        self.registry().operations.find(&request.name).cloned()
    }

    /// Copies a database under another name.
    pub fn copy_database(&self, from: &str, to: &str) -> Result<Database> {
        let copied = self.add_made(to, self.core.database(from)?.copy())?;
        let mut registry = self.registry();
        if let Some(told) = registry.proto_descriptors.get(from).cloned() {
            registry.proto_descriptors.insert(to.to_owned(), told);
        }
        Ok(copied)
    }
}
