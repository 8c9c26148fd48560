//! The resources to administer, and the calls about operations.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::operations::{Filter, Operations};
use super::{configuration, database, instance, longrunning, names, page, refuse};
use crate::engine::{Database, Dialect, Error, Result, SchemaChange};
use crate::service::Core;

/// The resources to administer. The databases themselves are the server's.
#[derive(Debug)]
pub(crate) struct Admin {
    pub(super) core: Arc<Core>,
    registry: Mutex<Registry>,
}

#[derive(Debug, Default)]
pub(super) struct Registry {
    /// By full name.
    pub instances: BTreeMap<String, instance::Instance>,
    pub operations: Operations,
    /// The descriptors of protos that a lenient server keeps, by the name of the database.
    pub proto_descriptors: BTreeMap<String, Vec<u8>>,
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
                .or_insert_with(|| configuration::implied(instance, now));
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
}

impl Admin {
    pub(super) fn get_operation(
        &self,
        request: longrunning::GetOperationRequest,
    ) -> Result<longrunning::Operation> {
        self.registry().operations.find(&request.name).cloned()
    }

    pub(super) fn wait_operation(
        &self,
        request: longrunning::WaitOperationRequest,
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

    /// Lists the operations of one resource, whose name with `/operations` is what is asked for.
    pub(super) fn list_operations(
        &self,
        request: longrunning::ListOperationsRequest,
    ) -> Result<longrunning::ListOperationsResponse> {
        if !request.name.ends_with("/operations") {
            return Err(Error::invalid_argument(format!(
                "`{}` is not the name of a collection of operations",
                request.name
            )));
        }
        refuse("a filter of operations", !request.filter.is_empty())?;
        let below = format!("{}/", request.name);
        let (operations, next_page_token) = self.operations_below(
            &below,
            &Filter::default(),
            request.page_size,
            &request.page_token,
        );
        Ok(longrunning::ListOperationsResponse {
            operations,
            next_page_token,
            ..Default::default()
        })
    }

    /// Lists the operations of an instance's databases.
    pub(super) fn list_database_operations(
        &self,
        request: database::ListDatabaseOperationsRequest,
    ) -> Result<database::ListDatabaseOperationsResponse> {
        names::instance(&request.parent)?;
        let filter = Filter::parse(&request.filter)?;
        let below = format!("{}/databases/", request.parent);
        let (operations, next_page_token) =
            self.operations_below(&below, &filter, request.page_size, &request.page_token);
        Ok(database::ListDatabaseOperationsResponse { operations, next_page_token })
    }

    /// Returns one page of the operations whose names begin with `below`, and the token of the next.
    fn operations_below(
        &self,
        below: &str,
        filter: &Filter,
        page_size: i32,
        page_token: &str,
    ) -> (Vec<longrunning::Operation>, String) {
        let registry = self.registry();
        let recent = registry.operations.recent.iter();
        let mut all: Vec<_> =
            recent.filter(|found| found.name.starts_with(below) && filter.passes(found)).collect();
        all.sort_by(|left, right| left.name.cmp(&right.name));
        let (operations, next) = page(all.into_iter(), |found| &found.name, page_size, page_token);
        (operations.into_iter().cloned().collect(), next)
    }

    /// Changes nothing: what is done is done.
    pub(super) fn cancel_operation(
        &self,
        request: longrunning::CancelOperationRequest,
    ) -> Result<()> {
        self.registry().operations.find(&request.name).map(|_| ())
    }

    pub(super) fn delete_operation(
        &self,
        request: longrunning::DeleteOperationRequest,
    ) -> Result<()> {
        let mut registry = self.registry();
        registry.operations.find(&request.name)?;
        registry.operations.recent.retain(|operation| operation.name != request.name);
        Ok(())
    }
}
