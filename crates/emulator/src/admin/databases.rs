//! Databases and their schemas.

use database::database::State;
use database::{DatabaseDialect, UpdateDatabaseDdlMetadata};

use super::operations::Done;
use super::{Admin, database, definition, encode, instances, longrunning, names, page, refuse};
use crate::engine::{Database, Dialect, Error, Result, Schema, SchemaChange};
use crate::service::Core;
use crate::sql::parse_create_database_in;

impl Admin {
    pub(super) fn create_database(
        &self,
        request: database::CreateDatabaseRequest,
    ) -> Result<longrunning::Operation> {
        names::instance(&request.parent)?;
        let dialect = match request.database_dialect() {
            DatabaseDialect::Postgresql => Dialect::PostgreSql,
            _ => Dialect::GoogleSql,
        };
        if dialect == Dialect::PostgreSql && !request.extra_statements.is_empty() {
            return Err(Error::invalid_argument(
                "DDL statements other than CREATE DATABASE are not allowed in the request that \
                 creates a database of the dialect POSTGRESQL.",
            ));
        }
        refuse("encryption_config", request.encryption_config.is_some())?;
        let descriptors = self.descriptors(request.proto_descriptors)?;
        let text = &request.create_statement;
        let id = parse_create_database_in(dialect, text).map_err(|error| error.in_text(text))?;
        names::database_id(&id)?;
        let changes = changes(&self.core, dialect, &request.extra_statements)?;
        let name = format!("{}/databases/{id}", request.parent);

        let mut registry = self.registry();
        if registry.instance(&request.parent).is_none() {
            return Err(instances::not_found(&request.parent));
        }
        let created = self.core.new_database(dialect, &changes)?;
        let created = self.core.add_database(&name, created)?;
        let metadata = database::CreateDatabaseMetadata { database: name.clone() };
        let made = Done::Database(describe(&name, &created));
        registry.proto_descriptors.extend(descriptors.map(|told| (name.clone(), told)));
        Ok(registry.operations.add(&name, "CreateDatabaseMetadata", &metadata, made))
    }

    pub(super) fn get_database(
        &self,
        request: database::GetDatabaseRequest,
    ) -> Result<database::Database> {
        Ok(describe(&request.name, &self.core.database(&request.name)?))
    }

    pub(super) fn list_databases(
        &self,
        request: database::ListDatabasesRequest,
    ) -> Result<database::ListDatabasesResponse> {
        names::instance(&request.parent)?;
        let below = format!("{}/databases/", request.parent);
        // Held, so that an instance and its databases are seen together.
        let registry = self.registry();
        if registry.instance(&request.parent).is_none() {
            return Err(instances::not_found(&request.parent));
        }
        let all = self.core.all_databases();
        let all = all.iter().filter(|(name, _)| name.starts_with(&below));
        let (databases, next_page_token) =
            page(all, |(name, _)| name, request.page_size, &request.page_token);
        let databases = databases.into_iter().map(|(name, found)| describe(name, found)).collect();
        Ok(database::ListDatabasesResponse { databases, next_page_token })
    }

    pub(super) fn drop_database(&self, request: database::DropDatabaseRequest) -> Result<()> {
        self.core.database(&request.database)?;
        self.remove_database(&request.database);
        Ok(())
    }

    pub(super) fn get_database_ddl(
        &self,
        request: database::GetDatabaseDdlRequest,
    ) -> Result<database::GetDatabaseDdlResponse> {
        let found = self.core.database(&request.database)?;
        let registry = self.registry();
        let descriptors = registry.proto_descriptors.get(&request.database);
        Ok(database::GetDatabaseDdlResponse {
            statements: definition::statements(&found.schema()),
            proto_descriptors: descriptors.cloned().unwrap_or_default(),
        })
    }

    /// Returns the descriptors of a request, if there are any, which only a lenient server keeps.
    fn descriptors(&self, told: Vec<u8>) -> Result<Option<Vec<u8>>> {
        refuse("proto_descriptors", !told.is_empty() && !self.core.lenient_ddl)?;
        Ok(Some(told).filter(|told| !told.is_empty()))
    }

    /// Changes the schema, statement by statement.
    ///
    /// Statements that cannot succeed refuse the whole request, as Cloud Spanner looks at all of
    /// them before it begins. One that fails on the way, because of the rows or of somebody else's
    /// change, ends the operation there. The earlier ones stay, with their timestamps.
    pub(super) fn update_database_ddl(
        &self,
        request: database::UpdateDatabaseDdlRequest,
    ) -> Result<longrunning::Operation> {
        let found = self.core.database(&request.database)?;
        let descriptors = self.descriptors(request.proto_descriptors)?;
        if request.statements.is_empty() {
            return Err(Error::invalid_argument("an update of the schema needs a statement"));
        }
        let mut registry = self.registry();
        // A client that repeats itself hears that, and not what is wrong with doing it again.
        let named = registry.operations.name(&request.database, &request.operation_id)?;
        let changes = changes(&self.core, found.schema().dialect(), &request.statements)?;
        check(&found.schema(), &request.statements, &changes)?;
        let database = &request.database;
        registry.proto_descriptors.extend(descriptors.map(|told| (database.clone(), told)));
        let (commit_timestamps, done) = apply(&found, &changes);
        let metadata = UpdateDatabaseDdlMetadata {
            database: request.database.clone(),
            statements: request.statements,
            commit_timestamps,
            ..Default::default()
        };
        let kind = "UpdateDatabaseDdlMetadata";
        Ok(match named {
            Some(name) => registry.operations.note(name, kind, &metadata, done),
            None => registry.operations.add(&request.database, kind, &metadata, done),
        })
    }
}

fn describe(name: &str, found: &Database) -> database::Database {
    let now = found.clock().now();
    database::Database {
        name: name.to_owned(),
        state: State::Ready.into(),
        create_time: Some(encode(found.created_at())),
        version_retention_period: match found.retention().as_secs() {
            hours if hours % 3_600 == 0 => format!("{}h", hours / 3_600),
            seconds => format!("{seconds}s"),
        },
        earliest_version_time: Some(encode(
            now.saturating_sub(found.retention()).max(found.created_at()),
        )),
        database_dialect: match found.schema().dialect() {
            Dialect::GoogleSql => DatabaseDialect::GoogleStandardSql.into(),
            Dialect::PostgreSql => DatabaseDialect::Postgresql.into(),
        },
        default_leader: default_leader(&found.schema()),
        ..Default::default()
    }
}

/// Returns the option of that name; empty without it.
fn default_leader(schema: &Schema) -> String {
    let found = schema.option_values().find(|(name, _)| *name == "default_leader");
    found.map(|(_, value)| value.to_owned()).unwrap_or_default()
}

/// Returns the changes that the statements of a request ask for, one for each.
fn changes(core: &Core, dialect: Dialect, statements: &[String]) -> Result<Vec<SchemaChange>> {
    statements.iter().map(|statement| change(core, dialect, statement)).collect()
}

fn change(core: &Core, dialect: Dialect, statement: &str) -> Result<SchemaChange> {
    let mut changes = core.parse_ddl(dialect, statement).map_err(|error| {
        let error = error.in_text(statement);
        Error::new(
            error.code(),
            format!("Error parsing Spanner DDL statement: {}", error.message()),
        )
    })?;
    match (changes.pop(), changes.is_empty()) {
        (Some(change), true) => Ok(change),
        (None, _) => Err(Error::invalid_argument("a DDL statement is empty")),
        (Some(_), false) => Err(Error::invalid_argument(format!(
            "one DDL statement is expected, but here is more than one: {statement}"
        ))),
    }
}

/// Checks that the changes can be made one after another, and names the one that can't.
fn check(schema: &Schema, statements: &[String], changes: &[SchemaChange]) -> Result<()> {
    let mut schema = schema.clone();
    for (at, (statement, change)) in statements.iter().zip(changes).enumerate() {
        schema.apply(change).map_err(|error| {
            let (at, all, said) = (at + 1, statements.len(), error.message());
            Error::new(error.code(), format!("{said} (statement {at} of {all}: {statement})"))
        })?;
    }
    Ok(())
}

/// Makes the changes up to the first that fails. When each was made, and how it ended.
fn apply(found: &Database, changes: &[SchemaChange]) -> (Vec<prost_types::Timestamp>, Done) {
    let mut timestamps = Vec::new();
    for change in changes {
        match found.change_schema(std::slice::from_ref(change)) {
            Ok(timestamp) => timestamps.push(encode(timestamp)),
            Err(error) => return (timestamps, Done::Failed(error)),
        }
    }
    (timestamps, Done::Nothing)
}
