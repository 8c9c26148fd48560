//! Administration over gRPC: the laws that set-up code relies on.

use database::database_admin_client::DatabaseAdminClient;
use googleapis_tonic_google_longrunning::google::longrunning;
use googleapis_tonic_google_spanner_admin_database_v1::google::spanner::admin::database::v1 as database;
use googleapis_tonic_google_spanner_admin_instance_v1::google::spanner::admin::instance::v1 as instance;
use instance::instance_admin_client::InstanceAdminClient;
use longrunning::operation;
use longrunning::operations_client::OperationsClient;
use spindle_emulator::engine::{Cell, Mutation, WriteKind};

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
        let channel = Channel::from_shared(emulator.endpoint()).unwrap().connect().await.unwrap();
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

    async fn ddl(&mut self) -> Result<Vec<String>, Status> {
        let request = database::GetDatabaseDdlRequest { database: ORDERS.into() };
        Ok(self.databases.get_database_ddl(request).await?.into_inner().statements)
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

#[tokio::test]
async fn an_instance_is_there_from_its_creation_to_its_deletion() {
    let mut office = Office::open().await;
    let created = office.create_instance("orders").await.unwrap();
    assert_eq!((created.name.as_str(), created.processing_units), (INSTANCE, 2_000));
    assert_eq!(created.state(), instance::instance::State::Ready);
    let get = instance::GetInstanceRequest { name: INSTANCE.into(), field_mask: None };
    assert_eq!(office.instances.get_instance(get.clone()).await.unwrap().into_inner(), created);
    assert_eq!(code(office.create_instance("orders").await), Code::AlreadyExists);

    let delete = instance::DeleteInstanceRequest { name: INSTANCE.into() };
    office.instances.delete_instance(delete.clone()).await.unwrap();
    let missing = office.instances.get_instance(get).await.unwrap_err();
    assert_eq!(missing.code(), Code::NotFound);
    let (kind, info) = details(&missing).remove(0);
    let info = rpc::ResourceInfo::decode(info.as_slice()).unwrap();
    assert_eq!(kind, "type.googleapis.com/google.rpc.ResourceInfo");
    assert_eq!(info.resource_name, INSTANCE);
    assert_eq!(code(office.instances.delete_instance(delete).await), Code::NotFound);
}

#[tokio::test]
async fn an_update_changes_what_its_mask_names_and_nothing_else() {
    let mut office = Office::open().await;
    let created = office.create_instance("orders").await.unwrap();
    let update = |paths: &[&str]| instance::UpdateInstanceRequest {
        instance: Some(instance::Instance {
            name: INSTANCE.into(),
            display_name: "Others".into(),
            processing_units: 500,
            ..Default::default()
        }),
        field_mask: Some(prost_types::FieldMask {
            paths: paths.iter().map(|&path| path.into()).collect(),
        }),
    };
    let operation = office.instances.update_instance(update(&["display_name"])).await.unwrap();
    let updated: instance::Instance =
        made(operation.get_ref(), "google.spanner.admin.instance.v1.Instance");
    assert_eq!((updated.display_name.as_str(), updated.node_count), ("Others", 2));
    assert_eq!(updated.create_time, created.create_time);
    office.instances.update_instance(update(&["processing_units"])).await.unwrap();
    let get = instance::GetInstanceRequest { name: INSTANCE.into(), field_mask: None };
    let found = office.instances.get_instance(get).await.unwrap().into_inner();
    assert_eq!((found.node_count, found.processing_units), (0, 500));
    assert_eq!(code(office.instances.update_instance(update(&[])).await), Code::InvalidArgument);
    assert_eq!(
        code(office.instances.update_instance(update(&["name"])).await),
        Code::Unimplemented
    );
}

#[tokio::test]
async fn there_is_a_configuration_to_choose() {
    let mut office = Office::open().await;
    let all = instance::ListInstanceConfigsRequest { parent: PROJECT.into(), ..Default::default() };
    let configs = office.instances.list_instance_configs(all).await.unwrap().into_inner();
    let config = configs.instance_configs[0].clone();
    assert_eq!(config.name, "projects/p/instanceConfigs/emulator-config");
    let get = instance::GetInstanceConfigRequest { name: config.name.clone() };
    assert_eq!(office.instances.get_instance_config(get).await.unwrap().into_inner(), config);
    let get = instance::GetInstanceConfigRequest { name: format!("{}-2", config.name) };
    assert_eq!(code(office.instances.get_instance_config(get).await), Code::NotFound);
}

#[tokio::test]
async fn a_database_is_there_with_its_tables_from_its_creation_to_its_drop() {
    let mut office = Office::with_orders().await;
    let get = database::GetDatabaseRequest { name: ORDERS.into() };
    let found = office.databases.get_database(get.clone()).await.unwrap().into_inner();
    assert_eq!(found.state(), database::database::State::Ready);
    assert_eq!(found.database_dialect(), database::DatabaseDialect::GoogleStandardSql);
    assert!(found.create_time.is_some());
    assert!(office.emulator.database(ORDERS).unwrap().schema().table("t").is_some());
    let again = office.create_database("CREATE DATABASE `eu-1`", &[]).await;
    assert_eq!(code(again), Code::AlreadyExists);

    let drop = database::DropDatabaseRequest { database: ORDERS.into() };
    office.databases.drop_database(drop.clone()).await.unwrap();
    assert_eq!(code(office.databases.get_database(get).await), Code::NotFound);
    assert_eq!(code(office.ddl().await), Code::NotFound);
    assert_eq!(code(office.databases.drop_database(drop).await), Code::NotFound);
    assert!(office.emulator.database(ORDERS).is_none());
}

#[tokio::test]
async fn a_database_that_the_program_made_brings_its_instance_along() {
    let world = World::start().await;
    let mut office = Office::of(world.emulator).await;
    assert_eq!(
        office.names().await,
        (vec!["projects/p/instances/i".into()], vec![DATABASE.into()])
    );
    // Set-up code that starts from nothing can drop it, and make it again.
    office
        .databases
        .drop_database(database::DropDatabaseRequest { database: DATABASE.into() })
        .await
        .unwrap();
    let request = database::CreateDatabaseRequest {
        parent: "projects/p/instances/i".into(),
        create_statement: "CREATE DATABASE other".into(),
        ..Default::default()
    };
    office.databases.create_database(request).await.unwrap();
    assert!(office.emulator.database("projects/p/instances/i/databases/other").is_some());
}

#[tokio::test]
async fn an_instance_takes_its_databases_and_their_sessions_along() {
    let mut world = World::start().await;
    let emulator = std::mem::replace(&mut world.emulator, Emulator::start().await.unwrap());
    let mut office = Office::of(emulator).await;
    let request = instance::DeleteInstanceRequest { name: "projects/p/instances/i".into() };
    office.instances.delete_instance(request).await.unwrap();
    assert_eq!(office.names().await, (vec![], vec![]));
    let gone = world.users(None).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
    assert_eq!(gone.message(), format!("Database not found: {DATABASE}"));
}

#[tokio::test]
async fn a_session_stays_lost_when_its_database_is_made_again() {
    let mut world = World::start().await;
    let emulator = std::mem::replace(&mut world.emulator, Emulator::start().await.unwrap());
    let mut office = Office::of(emulator).await;
    let drop = database::DropDatabaseRequest { database: DATABASE.into() };
    office.databases.drop_database(drop).await.unwrap();
    let gone = world.users(None).await.unwrap_err();
    assert_eq!(gone.message(), format!("Database not found: {DATABASE}"));
    office.emulator.create_database(DATABASE, DDL).await.unwrap();
    let lost = world.users(None).await.unwrap_err();
    assert_eq!(lost.code(), Code::NotFound);
    assert_eq!(lost.message(), format!("Session not found: {}", world.session));
}

#[tokio::test]
async fn a_lenient_server_keeps_the_descriptors_of_protos_and_another_refuses_them() {
    let create = |descriptors: &[u8]| database::CreateDatabaseRequest {
        parent: "projects/p/instances/orders".into(),
        create_statement: "CREATE DATABASE `eu-1`".into(),
        proto_descriptors: descriptors.to_vec(),
        ..Default::default()
    };
    let mut strict = Office::open().await;
    strict.create_instance("orders").await.unwrap();
    let refused = strict.databases.create_database(create(b"told")).await;
    assert_eq!(code(refused), Code::Unimplemented);

    let emulator = Emulator::builder().lenient_ddl().start().await.unwrap();
    let mut office = Office::of(emulator).await;
    office.create_instance("orders").await.unwrap();
    for (told, shown) in [(&b"told"[..], &b"told"[..]), (&[][..], &[][..])] {
        office.databases.create_database(create(told)).await.unwrap();
        let request = database::GetDatabaseDdlRequest { database: ORDERS.into() };
        let found = office.databases.get_database_ddl(request).await.unwrap().into_inner();
        assert_eq!(found.proto_descriptors, shown);
        let update = database::UpdateDatabaseDdlRequest {
            database: ORDERS.into(),
            statements: vec![TABLE.into()],
            proto_descriptors: b"more".to_vec(),
            ..Default::default()
        };
        office.databases.update_database_ddl(update).await.unwrap();
        let request = database::GetDatabaseDdlRequest { database: ORDERS.into() };
        let found = office.databases.get_database_ddl(request).await.unwrap().into_inner();
        assert_eq!(found.proto_descriptors, b"more");
        let copy = format!("{ORDERS}-copy");
        office.emulator.copy_database(ORDERS, &copy).unwrap();
        let request = database::GetDatabaseDdlRequest { database: copy.clone() };
        let copied = office.databases.get_database_ddl(request).await.unwrap().into_inner();
        assert_eq!(copied.proto_descriptors, b"more");
        assert!(office.emulator.drop_database(&copy));
        let drop = database::DropDatabaseRequest { database: ORDERS.into() };
        office.databases.drop_database(drop).await.unwrap();
    }
}

#[tokio::test]
async fn what_cannot_be_made_leaves_nothing_behind() {
    let mut office = Office::open().await;
    let nowhere = office.create_database("CREATE DATABASE `eu-1`", &[]).await;
    assert_eq!(code(nowhere), Code::NotFound);
    for bad in ["Orders", "o", "orders-", ""] {
        assert_eq!(code(office.create_instance(bad).await), Code::InvalidArgument, "{bad}");
    }
    office.create_instance("orders").await.unwrap();
    for (statement, extra, expected) in [
        ("CREATE DATABASE eu-1", "", Code::InvalidArgument),
        ("CREATE DATABASE EU", "", Code::InvalidArgument),
        ("DROP DATABASE eu", "", Code::InvalidArgument),
        ("CREATE DATABASE eu", "CREATE TABLE", Code::InvalidArgument),
        ("CREATE DATABASE eu", "CREATE VIEW v AS SELECT 1", Code::Unimplemented),
        ("CREATE DATABASE eu", "DROP TABLE t", Code::NotFound),
        ("CREATE DATABASE eu", "DROP TABLE IF EXISTS t; DROP TABLE u", Code::InvalidArgument),
    ] {
        let extra: &[&str] = if extra.is_empty() { &[] } else { &[extra] };
        let refused = office.create_database(statement, extra).await;
        assert_eq!(code(refused), expected, "{statement} {extra:?}");
    }
    assert_eq!(office.names().await, (vec![INSTANCE.into()], vec![]));
}

#[tokio::test]
async fn the_schema_grows_statement_by_statement_each_with_its_timestamp() {
    let mut office = Office::with_orders().await;
    let statements =
        ["ALTER TABLE t ADD COLUMN w INT64", "CREATE TABLE u (k DATE) PRIMARY KEY (k DESC)"];
    let operation = office.update(&statements).await.unwrap();
    let metadata = metadata(&operation);
    assert_eq!(metadata.statements, statements);
    assert_eq!(metadata.commit_timestamps.len(), 2);
    assert_eq!(metadata.database, ORDERS);
    assert_eq!(
        office.ddl().await.unwrap(),
        [
            "CREATE TABLE t (\n  k INT64 NOT NULL,\n  v STRING(10),\n  w INT64,\n) PRIMARY KEY(k)",
            "CREATE TABLE u (\n  k DATE,\n) PRIMARY KEY(k DESC)",
        ]
    );
}

#[tokio::test]
async fn the_schema_that_is_reported_makes_the_same_database_again() {
    let mut office = Office::with_orders().await;
    office.update(&["CREATE TABLE `order` (`key` STRING(MAX)) PRIMARY KEY ()"]).await.unwrap();
    let reported = office.ddl().await.unwrap();
    let statements: Vec<&str> = reported.iter().map(String::as_str).collect();
    office.create_database("CREATE DATABASE copy", &statements).await.unwrap();
    let schema = |name: &str| office.emulator.database(name).unwrap().schema();
    assert_eq!(schema(ORDERS), schema("projects/p/instances/orders/databases/copy"));
}

#[tokio::test]
async fn a_statement_that_cannot_succeed_is_named_and_none_is_applied() {
    let mut office = Office::with_orders().await;
    let before = office.ddl().await.unwrap();
    for (bad, expected) in [
        (TABLE, Code::FailedPrecondition),
        ("ALTER TABLE nothing ADD COLUMN w INT64", Code::NotFound),
        ("ALTER TABLE t ADD COLUMN", Code::InvalidArgument),
        ("CREATE VIEW v SQL SECURITY INVOKER AS SELECT 1", Code::Unimplemented),
        ("", Code::InvalidArgument),
    ] {
        let refused = office.update(&["CREATE TABLE u (k INT64) PRIMARY KEY (k)", bad]).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), expected, "{bad}: {refused}");
        assert!(refused.message().contains(bad), "{bad}: {refused}");
    }
    assert_eq!(code(office.update(&[]).await), Code::InvalidArgument);
    assert_eq!(office.ddl().await.unwrap(), before);
}

#[tokio::test]
async fn an_update_that_the_rows_stop_keeps_what_came_before_it() {
    let mut office = Office::with_orders().await;
    let database = office.emulator.database(ORDERS).unwrap();
    let row = [("k", Cell::Value(1.into()))];
    database.apply(&[Mutation::write(WriteKind::Insert, "t", row)]).await.unwrap();

    let stopped = office.update(&[
        "CREATE TABLE before (k INT64) PRIMARY KEY (k)",
        "ALTER TABLE t ALTER COLUMN v STRING(10) NOT NULL",
        "CREATE TABLE after (k INT64) PRIMARY KEY (k)",
    ]);
    let stopped = stopped.await.unwrap();
    match stopped.result.as_ref().unwrap() {
        operation::Result::Error(error) => assert_eq!(error.code, 9, "{error:?}"),
        operation::Result::Response(_) => panic!("there is a NULL in the way"),
    }
    assert_eq!(metadata(&stopped).commit_timestamps.len(), 1);
    let schema = database.schema();
    assert!(schema.table("before").is_some() && schema.table("after").is_none());
}

#[tokio::test]
async fn an_operation_is_done_and_found_by_its_name_until_it_is_deleted() {
    let mut office = Office::with_orders().await;
    let request = database::UpdateDatabaseDdlRequest {
        database: ORDERS.into(),
        statements: vec!["DROP TABLE t".into()],
        operation_id: "drop_t".into(),
        ..Default::default()
    };
    let operation = office.databases.update_database_ddl(request.clone()).await.unwrap();
    let name = format!("{ORDERS}/operations/drop_t");
    assert_eq!(operation.get_ref().name, name);
    let refused = office.databases.update_database_ddl(database::UpdateDatabaseDdlRequest {
        statements: vec![TABLE.into()],
        ..request
    });
    assert_eq!(code(refused.await), Code::AlreadyExists);

    let get = longrunning::GetOperationRequest { name: name.clone() };
    let found = office.operations.get_operation(get.clone()).await.unwrap();
    assert_eq!(found.get_ref(), operation.get_ref());
    let wait = longrunning::WaitOperationRequest { name: name.clone(), timeout: None };
    assert!(office.operations.wait_operation(wait).await.unwrap().get_ref().done);
    let cancel = longrunning::CancelOperationRequest { name: name.clone() };
    office.operations.cancel_operation(cancel).await.unwrap();
    let list = longrunning::ListOperationsRequest {
        name: format!("{ORDERS}/operations"),
        ..Default::default()
    };
    let listed = office.operations.list_operations(list).await.unwrap().into_inner().operations;
    assert_eq!(listed.len(), 2, "the creation and the update");
    office.operations.delete_operation(longrunning::DeleteOperationRequest { name }).await.unwrap();
    assert_eq!(code(office.operations.get_operation(get).await), Code::NotFound);
}

#[tokio::test]
async fn lists_come_in_pages_sorted_by_name() {
    let mut office = Office::open().await;
    for id in ["cc", "aa", "bb"] {
        office.create_instance(id).await.unwrap();
    }
    let mut request = instance::ListInstancesRequest {
        parent: PROJECT.into(),
        page_size: 2,
        ..Default::default()
    };
    let first = office.instances.list_instances(request.clone()).await.unwrap().into_inner();
    request.page_token = first.next_page_token.clone();
    let second = office.instances.list_instances(request).await.unwrap().into_inner();
    let names = |page: &instance::ListInstancesResponse| -> Vec<String> {
        page.instances.iter().map(|found| found.name.replace("projects/p/instances/", "")).collect()
    };
    assert_eq!(
        (names(&first), names(&second)),
        (vec!["aa".into(), "bb".into()], vec!["cc".into()])
    );
    assert_eq!(second.next_page_token, "");
}

#[tokio::test]
async fn what_is_not_there_is_unimplemented_by_its_name() {
    let mut office = Office::with_orders().await;
    let backup = database::ListBackupsRequest { parent: INSTANCE.into(), ..Default::default() };
    let refused = office.databases.list_backups(backup).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    assert!(refused.message().contains("DatabaseAdmin/ListBackups"), "{refused}");
}

#[tokio::test]
async fn a_database_of_the_postgresql_dialect_has_tables_and_no_other_statements() {
    let mut office = Office::with_orders().await;
    let name = format!("{INSTANCE}/databases/pg");
    let mut request = database::CreateDatabaseRequest {
        parent: INSTANCE.into(),
        create_statement: "CREATE DATABASE \"pg\"".into(),
        database_dialect: database::DatabaseDialect::Postgresql.into(),
        extra_statements: vec!["CREATE TABLE t (k text PRIMARY KEY)".into()],
        ..Default::default()
    };
    let refused = office.databases.create_database(request.clone()).await;
    assert_eq!(code(refused), Code::InvalidArgument);
    request.extra_statements.clear();
    office.databases.create_database(request).await.unwrap();
    let found = database::GetDatabaseRequest { name: name.clone() };
    let found = office.databases.get_database(found).await.unwrap().into_inner();
    assert_eq!(found.database_dialect(), database::DatabaseDialect::Postgresql);
    let update = |statement: &str| database::UpdateDatabaseDdlRequest {
        database: name.clone(),
        statements: vec![statement.into()],
        ..Default::default()
    };
    let google = update("CREATE TABLE t (k STRING(MAX)) PRIMARY KEY (k)");
    assert!(office.databases.update_database_ddl(google).await.is_err());
    let table = "CREATE TABLE t (
  k character varying(8) NOT NULL,
  \"At\" spanner.commit_timestamp,
  PRIMARY KEY(k)
)";
    office.databases.update_database_ddl(update(table)).await.unwrap();
    let ddl = database::GetDatabaseDdlRequest { database: name.clone() };
    let ddl = office.databases.get_database_ddl(ddl).await.unwrap().into_inner();
    assert_eq!(ddl.statements, [table]);

    let channel = Channel::from_shared(office.emulator.endpoint()).unwrap().connect().await;
    let mut client = SpannerClient::new(channel.unwrap());
    let session = proto::CreateSessionRequest { database: name, ..Default::default() };
    let session = client.create_session(session).await.unwrap().into_inner().name;
    let query = |sql: &str| proto::ExecuteSqlRequest {
        session: session.clone(),
        sql: sql.into(),
        ..Default::default()
    };
    let columns = query(
        "SELECT column_name, spanner_type FROM information_schema.columns
         WHERE table_schema IN ('', 'public') AND LOWER(table_name) = 't'",
    );
    let found = client.execute_sql(columns).await.unwrap().into_inner();
    assert_eq!(rows(&found), ["k character varying(8)", "At spanner.commit_timestamp"]);
    for other in ["SELECT k FROM t", "SELECT \"k\""] {
        let refused = client.execute_sql(query(other)).await;
        assert_eq!(code(refused), Code::Unimplemented, "{other}");
    }
}

#[tokio::test]
async fn instances_are_filtered_by_name_and_labels() {
    let mut office = Office::open().await;
    for (id, env) in [("aa", "dev"), ("bb", "prod")] {
        let mut labels = std::collections::HashMap::new();
        labels.insert("env".to_owned(), env.to_owned());
        let request = instance::CreateInstanceRequest {
            parent: PROJECT.into(),
            instance_id: id.into(),
            instance: Some(instance::Instance {
                display_name: format!("The {id}"),
                labels,
                ..Default::default()
            }),
        };
        office.instances.create_instance(request).await.unwrap();
    }
    for (filter, found) in [
        ("", 2),
        ("name:*", 2),
        ("name:AA", 1),
        ("labels.env:dev", 1),
        ("labels.env:* AND display_name:bb", 1),
        ("labels.env:dev labels.other:*", 0),
        ("labels.env=prod", 1),
    ] {
        let request = instance::ListInstancesRequest {
            parent: PROJECT.into(),
            filter: filter.into(),
            ..Default::default()
        };
        let page = office.instances.list_instances(request).await.unwrap().into_inner();
        assert_eq!(page.instances.len(), found, "{filter}");
    }
    for filter in ["NOT name:a", "(name:a)", "name:a OR name:b", "state=READY", "name"] {
        let request = instance::ListInstancesRequest {
            parent: PROJECT.into(),
            filter: filter.into(),
            ..Default::default()
        };
        let refused = office.instances.list_instances(request).await;
        assert_eq!(code(refused), Code::Unimplemented, "{filter}");
    }
}

#[tokio::test]
async fn the_operations_of_an_instances_databases_are_listed() {
    let mut office = Office::with_orders().await;
    let changed = office.update(&["ALTER TABLE t ADD COLUMN w INT64"]).await.unwrap().name;
    let request =
        database::ListDatabaseOperationsRequest { parent: INSTANCE.into(), ..Default::default() };
    let page = office.databases.list_database_operations(request).await.unwrap().into_inner();
    let names: Vec<String> = page.operations.into_iter().map(|found| found.name).collect();
    assert!(names.contains(&changed) && names.len() == 2, "{names:?}");
    let kind = "type.googleapis.com/google.spanner.admin.database.v1";
    for (filter, found) in [
        (
            format!(
                "(metadata.@type:{kind}.CreateDatabaseMetadata) AND (name:{ORDERS}/operations/)"
            ),
            1,
        ),
        (format!("name:{ORDERS}/operations/"), 2),
        ("(name:none)".to_owned(), 0),
    ] {
        let request = database::ListDatabaseOperationsRequest {
            parent: INSTANCE.into(),
            filter: filter.clone(),
            ..Default::default()
        };
        let page = office.databases.list_database_operations(request).await.unwrap().into_inner();
        assert_eq!(page.operations.len(), found, "{filter}");
    }
    let request = database::ListDatabaseOperationsRequest {
        parent: INSTANCE.into(),
        filter: "done:true".into(),
        ..Default::default()
    };
    let refused = office.databases.list_database_operations(request).await;
    assert_eq!(code(refused), Code::Unimplemented);
    office
        .update(&["ALTER DATABASE `eu-1` SET OPTIONS (default_leader = 'europe-west1')"])
        .await
        .unwrap();
    let request = database::GetDatabaseRequest { name: ORDERS.into() };
    let found = office.databases.get_database(request).await.unwrap().into_inner();
    assert_eq!(found.default_leader, "europe-west1");
}

#[tokio::test]
async fn a_restart_that_loses_databases_loses_their_instances() {
    let mut office = Office::with_orders().await;
    office.emulator.restart(spindle_emulator::Restart::lose_databases()).await.unwrap();
    let channel =
        Channel::from_shared(office.emulator.endpoint()).unwrap().connect().await.unwrap();
    office.instances = InstanceAdminClient::new(channel);
    assert_eq!(office.names().await, (vec![], vec![]));
}

#[tokio::test]
async fn a_column_changes_where_its_rows_allow_it() {
    use spindle_emulator::engine::{Mutation, WriteKind};

    let mut office = Office::with_orders().await;
    let row = [("k", 1.into()), ("v", "long".into())];
    let database = office.emulator.database(ORDERS).unwrap();
    database.apply(&[Mutation::write(WriteKind::Insert, "t", row)]).await.unwrap();
    let shorter = office.update(&["ALTER TABLE t ALTER COLUMN v STRING(3)"]).await.unwrap();
    let Some(operation::Result::Error(refused)) = shorter.result else { panic!() };
    assert_eq!(refused.code, Code::FailedPrecondition as i32, "{refused:?}");
    let changes = [
        "ALTER TABLE t ALTER COLUMN v STRING(4) NOT NULL",
        "ALTER TABLE t ALTER COLUMN v SET DEFAULT ('new')",
        "ALTER TABLE t ADD COLUMN n NUMERIC NOT NULL DEFAULT (1.5)",
    ];
    assert!(office.update(&changes).await.unwrap().done);
    let reported = "CREATE TABLE t (
  k INT64 NOT NULL,
  v STRING(4) NOT NULL DEFAULT ('new'),
  n NUMERIC NOT NULL DEFAULT (1.5),
) PRIMARY KEY(k)";
    assert_eq!(office.ddl().await.unwrap(), [reported]);
    let view = office.update(&["CREATE VIEW by_v AS SELECT 1"]).await.unwrap_err();
    assert_eq!(view.code(), Code::Unimplemented);
    assert!(view.message().contains("CREATE VIEW [at 1:1]"), "{view}");
    assert!(office.update(&["CREATE INDEX by_v ON t (v)"]).await.unwrap().done);
    assert_eq!(office.ddl().await.unwrap(), [reported, "CREATE INDEX by_v ON t(v)"]);
}
