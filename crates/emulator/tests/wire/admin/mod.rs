//! Administration over gRPC: the rules that set-up code relies on.

mod databases;
mod instances;
mod operations;
mod schema;

use database::database_admin_client::DatabaseAdminClient;
use googleapis_tonic_google_longrunning::google::longrunning;
use googleapis_tonic_google_spanner_admin_database_v1::google::spanner::admin::database::v1 as database;
use googleapis_tonic_google_spanner_admin_instance_v1::google::spanner::admin::instance::v1 as instance;
use instance::instance_admin_client::InstanceAdminClient;
use longrunning::operation;
use longrunning::operations_client::OperationsClient;

use super::*;

const PROJECT: &str = "projects/p";
const INSTANCE: &str = "projects/p/instances/orders";
const ORDERS: &str = "projects/p/instances/orders/databases/eu-1";
const TABLE: &str = "CREATE TABLE t (k INT64 NOT NULL, v STRING(10)) PRIMARY KEY (k)";

/// A server's administration, and the server.
struct Office {
    emulator: Emulator,
    instances: InstanceAdminClient<Channel>,
    databases: DatabaseAdminClient<Channel>,
    operations: OperationsClient<Channel>,
}

impl Office {
    async fn open() -> Office {
        Office::of(Emulator::start().await.unwrap()).await
    }

    async fn of(emulator: Emulator) -> Office {
        let channel = connected(emulator.endpoint()).await;
        Office {
            emulator,
            instances: InstanceAdminClient::new(channel.clone()),
            databases: DatabaseAdminClient::new(channel.clone()),
            operations: OperationsClient::new(channel),
        }
    }

    /// One with an instance, and a database with one table.
    async fn with_orders() -> Office {
        let mut office = Office::open().await;
        office.create_instance("orders").await.unwrap();
        office.create_database("CREATE DATABASE `eu-1`", &[TABLE]).await.unwrap();
        office
    }

    async fn create_instance(&mut self, id: &str) -> Result<instance::Instance, Status> {
        let asked = instance::Instance {
            config: format!("{PROJECT}/instanceConfigs/emulator-config"),
            display_name: "Orders".into(),
            node_count: 2,
            ..Default::default()
        };
        let request = instance::CreateInstanceRequest {
            parent: PROJECT.into(),
            instance_id: id.into(),
            instance: Some(asked),
        };
        let operation = self.instances.create_instance(request).await?.into_inner();
        Ok(made(&operation, "google.spanner.admin.instance.v1.Instance"))
    }

    async fn create_database(
        &mut self,
        statement: &str,
        extra: &[&str],
    ) -> Result<database::Database, Status> {
        let request = database::CreateDatabaseRequest {
            parent: INSTANCE.into(),
            create_statement: statement.into(),
            extra_statements: extra.iter().map(|&text| text.into()).collect(),
            ..Default::default()
        };
        let operation = self.databases.create_database(request).await?.into_inner();
        Ok(made(&operation, "google.spanner.admin.database.v1.Database"))
    }

    async fn update(&mut self, statements: &[&str]) -> Result<longrunning::Operation, Status> {
        let request = database::UpdateDatabaseDdlRequest {
            database: ORDERS.into(),
            statements: statements.iter().map(|&text| text.into()).collect(),
            ..Default::default()
        };
        Ok(self.databases.update_database_ddl(request).await?.into_inner())
    }

    async fn get_database(&mut self, name: &str) -> Result<database::Database, Status> {
        let request = database::GetDatabaseRequest { name: name.into() };
        Ok(self.databases.get_database(request).await?.into_inner())
    }

    async fn drop_database(&mut self, name: &str) -> Result<(), Status> {
        let request = database::DropDatabaseRequest { database: name.into() };
        self.databases.drop_database(request).await.map(drop)
    }

    async fn ddl(&mut self) -> Result<Vec<String>, Status> {
        Ok(self.ddl_of(ORDERS).await?.statements)
    }

    async fn ddl_of(&mut self, name: &str) -> Result<database::GetDatabaseDdlResponse, Status> {
        let request = database::GetDatabaseDdlRequest { database: name.into() };
        Ok(self.databases.get_database_ddl(request).await?.into_inner())
    }

    async fn names(&mut self) -> (Vec<String>, Vec<String>) {
        let all = instance::ListInstancesRequest { parent: PROJECT.into(), ..Default::default() };
        let instances = self.instances.list_instances(all).await.unwrap().into_inner().instances;
        let mut names = Vec::new();
        for found in &instances {
            let parent = found.name.clone();
            let all = database::ListDatabasesRequest { parent, ..Default::default() };
            let databases = self.databases.list_databases(all).await.unwrap().into_inner();
            names.extend(databases.databases.into_iter().map(|found| found.name));
        }
        (instances.into_iter().map(|found| found.name).collect(), names)
    }
}

/// Returns what an operation made, which must be done.
fn made<M: Message + Default>(operation: &longrunning::Operation, kind: &str) -> M {
    assert!(operation.done, "{operation:?}");
    match operation.result.as_ref().unwrap() {
        operation::Result::Response(any) => {
            assert_eq!(any.type_url, format!("type.googleapis.com/{kind}"));
            M::decode(any.value.as_slice()).unwrap()
        }
        operation::Result::Error(error) => panic!("{error:?}"),
    }
}

fn metadata(operation: &longrunning::Operation) -> database::UpdateDatabaseDdlMetadata {
    let any = operation.metadata.as_ref().unwrap();
    assert!(any.type_url.ends_with("UpdateDatabaseDdlMetadata"), "{}", any.type_url);
    Message::decode(any.value.as_slice()).unwrap()
}
