//! Administration: its rules over HTTP and JSON, byte by byte as Google's Rust client speaks it. Over gRPC
//! the same calls are answered alike.

use database::database_admin_client::DatabaseAdminClient;
use googleapis_tonic_google_longrunning::google::longrunning;
use googleapis_tonic_google_spanner_admin_database_v1::google::spanner::admin::database::v1 as database;
use googleapis_tonic_google_spanner_admin_instance_v1::google::spanner::admin::instance::v1 as instance;
use instance::instance_admin_client::InstanceAdminClient;
use longrunning::operations_client::OperationsClient;
use serde_json::{Value as Json, json};
use spindle_emulator::Restart;
use spindle_emulator::engine::{Cell, Handle, Mutation, Timestamp, WriteKind};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::*;

const INSTANCES: &str = "/v1/projects/p/instances";
const DATABASES: &str = "/v1/projects/p/instances/orders/databases";
/// The database of [`start`], by its address and by its name.
const PATH: &str = "/v1/projects/p/instances/orders/databases/eu-1";
const ORDERS: &str = "projects/p/instances/orders/databases/eu-1";
const TABLE: &str = "CREATE TABLE t (k INT64 NOT NULL, v STRING(10)) PRIMARY KEY (k)";

/// Sends one request, and gives the status and the reply.
async fn send(emulator: &Emulator, request: &str, body: Json) -> (u16, Json) {
    send_to(&emulator.rest_endpoint(), request, body).await
}

async fn send_to(endpoint: &str, request: &str, body: Json) -> (u16, Json) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let reply = http::send(endpoint, request, &body).await;
    assert!(reply.head.contains("content-type: application/json"), "{}", reply.head);
    (reply.status, serde_json::from_str(&reply.body).unwrap())
}

async fn ok(emulator: &Emulator, request: &str, body: Json) -> Json {
    let (status, reply) = send(emulator, request, body).await;
    assert_eq!(status, 200, "{request}: {reply}");
    reply
}

async fn get(emulator: &Emulator, path: &str) -> Json {
    ok(emulator, &format!("GET {path}?$alt=json;enum-encoding=int"), Json::Null).await
}

async fn is_gone(emulator: &Emulator, path: &str) -> bool {
    send(emulator, &format!("GET {path}"), Json::Null).await.0 == 404
}

async fn update(emulator: &Emulator, statements: &[&str]) -> Json {
    let change = json!({ "statements": statements });
    ok(emulator, &format!("PATCH {PATH}/ddl"), change).await
}

async fn statements(emulator: &Emulator, path: &str) -> Vec<String> {
    let reported = get(emulator, &format!("{path}/ddl")).await["statements"].take();
    serde_json::from_value(reported).unwrap()
}

/// The names of what a list has in this field.
fn names(list: &Json, field: &str) -> Vec<String> {
    let items = list[field].as_array().into_iter().flatten();
    items.map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

async fn create_instance(emulator: &Emulator, id: &str) {
    ok(emulator, &format!("POST {INSTANCES}"), json!({ "instanceId": id })).await;
}

/// Makes an instance, and a database with one table.
async fn with_orders(emulator: Emulator) -> Emulator {
    let asked = json!({
        "parent": "projects/p",
        "instanceId": "orders",
        "instance": { "displayName": "Orders", "nodeCount": 1, "labels": { "team": "billing" } },
    });
    let operation = ok(&emulator, &format!("POST {INSTANCES}"), asked).await;
    assert_eq!(operation["done"], true);
    let kind = "type.googleapis.com/google.spanner.admin.instance.v1.Instance";
    assert_eq!(operation["response"]["@type"], kind);
    let asked = json!({ "createStatement": "CREATE DATABASE `eu-1`", "extraStatements": [TABLE] });
    let operation = ok(&emulator, &format!("POST {DATABASES}"), asked).await;
    assert_eq!(operation["response"]["name"], ORDERS);
    emulator
}

async fn start() -> Emulator {
    with_orders(Emulator::start().await.unwrap()).await
}

#[tokio::test]
async fn instances_and_databases_are_there_from_their_creation_to_their_removal() {
    let emulator = start().await;
    let instance = get(&emulator, &format!("{INSTANCES}/orders")).await;
    assert_eq!(instance["name"], "projects/p/instances/orders");
    assert_eq!(
        (&instance["state"], &instance["processingUnits"]),
        (&"READY".into(), &1_000.into())
    );
    assert_eq!(instance["labels"]["team"], "billing");
    assert_eq!(get(&emulator, INSTANCES).await["instances"][0], instance);
    let database = get(&emulator, PATH).await;
    assert_eq!((&database["name"], &database["state"]), (&ORDERS.into(), &"READY".into()));
    assert_eq!(database["databaseDialect"], "GOOGLE_STANDARD_SQL");
    assert!(database["createTime"].is_string());
    assert_eq!(get(&emulator, DATABASES).await["databases"][0]["name"], database["name"]);
    assert!(emulator.database(ORDERS).unwrap().schema().table("t").is_some());
    let configs = "/v1/projects/p/instanceConfigs";
    let config = get(&emulator, &format!("{configs}/emulator-config")).await;
    assert_eq!(config["name"], "projects/p/instanceConfigs/emulator-config");
    assert_eq!(get(&emulator, configs).await["instanceConfigs"][0], config);
    assert!(is_gone(&emulator, &format!("{configs}/emulator-config-2")).await);

    for (path, has_more) in [(PATH, true), (&format!("{INSTANCES}/orders"), false)] {
        assert_eq!(ok(&emulator, &format!("DELETE {path}"), Json::Null).await, json!({}));
        assert!(is_gone(&emulator, path).await);
        assert_eq!(send(&emulator, &format!("DELETE {path}"), Json::Null).await.0, 404);
        assert_eq!(get(&emulator, INSTANCES).await != json!({}), has_more);
    }
    assert!(
        is_gone(&emulator, &format!("{PATH}/ddl")).await && emulator.database(ORDERS).is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn the_schema_grows_statement_by_statement_each_with_its_timestamp() {
    let emulator = start().await;
    let grown =
        ["ALTER TABLE t ADD COLUMN w INT64", "CREATE TABLE u (k DATE) PRIMARY KEY (k DESC)"];
    let operation = update(&emulator, &grown).await;
    assert_eq!(operation["metadata"]["statements"], json!(grown));
    let database = emulator.database(ORDERS).unwrap();
    let grown_at = |at: usize| {
        let told = operation["metadata"]["commitTimestamps"][at].as_str().unwrap();
        let moment = Timestamp::parse_rfc3339(told).unwrap();
        let schema = database.schema_in(Handle::ReadOnly(moment));
        (schema.table("t").unwrap().columns.len(), schema.table("u").is_some())
    };
    assert_eq!([grown_at(0), grown_at(1)], [(3, false), (3, true)]);
    assert_eq!(operation["metadata"]["database"], ORDERS);
    assert_eq!(operation["response"]["@type"], "type.googleapis.com/google.protobuf.Empty");
    assert_eq!(
        statements(&emulator, PATH).await,
        [
            "CREATE TABLE t (\n  k INT64 NOT NULL,\n  v STRING(10),\n  w INT64,\n) PRIMARY KEY(k)",
            "CREATE TABLE u (\n  k DATE,\n) PRIMARY KEY(k DESC)",
        ]
    );
}

#[tokio::test]
async fn the_schema_that_is_reported_makes_the_same_database_again() {
    let emulator = start().await;
    let more = [
        "CREATE TABLE `order` (`key` STRING(MAX)) PRIMARY KEY ()",
        "CREATE TABLE beside (k INT64 NOT NULL, CHECK (k > 0), FOREIGN KEY (k) REFERENCES t (k) NOT ENFORCED)
           PRIMARY KEY (k), INTERLEAVE IN t",
    ];
    update(&emulator, &more).await;
    let reported = statements(&emulator, PATH).await;
    let copy = json!({ "createStatement": "CREATE DATABASE copy", "extraStatements": reported });
    ok(&emulator, &format!("POST {DATABASES}"), copy).await;
    let schema = |name: &str| emulator.database(name).unwrap().schema();
    assert_eq!(schema(ORDERS), schema("projects/p/instances/orders/databases/copy"));
}

#[tokio::test]
async fn an_update_that_the_rows_stop_keeps_what_came_before_it() {
    let emulator = start().await;
    let database = emulator.database(ORDERS).unwrap();
    let row = [("k", Cell::Value(1.into()))];
    database.apply(&[Mutation::write(WriteKind::Insert, "t", row)]).await.unwrap();
    let stopped = update(
        &emulator,
        &[
            "CREATE TABLE before (k INT64) PRIMARY KEY (k)",
            "ALTER TABLE t ALTER COLUMN v STRING(10) NOT NULL",
            "CREATE TABLE after (k INT64) PRIMARY KEY (k)",
        ],
    );
    let stopped = stopped.await;
    assert_eq!(stopped["error"]["code"], 9, "there is a NULL in the way: {stopped}");
    assert_eq!(stopped["metadata"]["commitTimestamps"].as_array().unwrap().len(), 1);
    let schema = database.schema();
    assert!(schema.table("before").is_some() && schema.table("after").is_none());
}

#[tokio::test]
async fn errors_have_the_status_and_the_form_of_googles() {
    let emulator = start().await;
    let database = json!({ "createStatement": "CREATE DATABASE `eu-1`" });
    for (request, body, name) in [
        (format!("POST {INSTANCES}"), json!({ "instanceId": "orders" }), "ALREADY_EXISTS"),
        (format!("POST {DATABASES}"), database.clone(), "ALREADY_EXISTS"),
        (format!("POST {INSTANCES}/others/databases"), database, "NOT_FOUND"),
        (format!("POST {INSTANCES}"), json!([]), "INVALID_ARGUMENT"),
        (format!("POST {INSTANCES}"), json!({ "wings": 2 }), "UNIMPLEMENTED"),
        (format!("GET {INSTANCES}/orders/backups"), Json::Null, "UNIMPLEMENTED"),
        (format!("PATCH {INSTANCES}/orders"), json!({}), "UNIMPLEMENTED"),
        (format!("GET {PATH}/operations"), Json::Null, "UNIMPLEMENTED"),
        (format!("DELETE {PATH}/operations/o"), Json::Null, "UNIMPLEMENTED"),
        ("GET /".to_owned(), Json::Null, "UNIMPLEMENTED"),
    ] {
        refused(&emulator, &request, body, name).await;
    }
    let missing = format!("GET {INSTANCES}/others");
    let missing = refused(&emulator, &missing, Json::Null, "NOT_FOUND").await;
    let info = &missing["details"][0];
    assert_eq!(info["@type"], "type.googleapis.com/google.rpc.ResourceInfo");
    assert_eq!(info["resourceName"], "projects/p/instances/others");
}

/// Expects a refusal by this name, and gives its parts.
async fn refused(emulator: &Emulator, request: &str, body: Json, name: &str) -> Json {
    let shown = format!("{request} {body}");
    let (status, mut reply) = send(emulator, request, body).await;
    let error = reply["error"].take();
    assert_eq!((&error["status"], &error["code"]), (&name.into(), &status.into()), "{shown}");
    assert!(!error["message"].as_str().unwrap().is_empty(), "{shown}");
    let expected = match name {
        "NOT_FOUND" => 404,
        "ALREADY_EXISTS" => 409,
        "UNIMPLEMENTED" => 501,
        _ => 400,
    };
    assert_eq!(status, expected, "{shown}");
    error
}

#[tokio::test]
async fn what_cannot_be_made_leaves_nothing_behind() {
    let emulator = start().await;
    let long = "a".repeat(65);
    for id in ["Orders", "o", "orders-", "", "1a", "-a", "a b", "a/b", "with_underscore", &long] {
        let asked = json!({ "instanceId": id });
        refused(&emulator, &format!("POST {INSTANCES}"), asked, "INVALID_ARGUMENT").await;
        if id != "with_underscore" {
            let asked = json!({ "createStatement": format!("CREATE DATABASE `{id}`") });
            refused(&emulator, &format!("POST {DATABASES}"), asked, "INVALID_ARGUMENT").await;
        }
    }
    for (statement, extra, name) in [
        ("CREATE DATABASE eu-2", "", "INVALID_ARGUMENT"),
        ("CREATE DATABASE eu b", "", "INVALID_ARGUMENT"),
        ("", "", "INVALID_ARGUMENT"),
        ("CREATE DATABASE EU", "", "INVALID_ARGUMENT"),
        ("DROP DATABASE eu", "", "INVALID_ARGUMENT"),
        ("CREATE DATABASE eu", "CREATE TABLE", "INVALID_ARGUMENT"),
        ("CREATE DATABASE eu", "CREATE VIEW v AS SELECT 1", "UNIMPLEMENTED"),
        ("CREATE DATABASE eu", "DROP TABLE t", "NOT_FOUND"),
        ("CREATE DATABASE eu", "DROP TABLE IF EXISTS t; DROP TABLE u", "INVALID_ARGUMENT"),
    ] {
        let extra: &[&str] = if extra.is_empty() { &[] } else { &[extra] };
        let asked = json!({ "createStatement": statement, "extraStatements": extra });
        refused(&emulator, &format!("POST {DATABASES}"), asked, name).await;
    }
    assert_eq!(names(&get(&emulator, INSTANCES).await, "instances"), [&ORDERS[..27]]);
    assert_eq!(names(&get(&emulator, DATABASES).await, "databases"), [ORDERS]);

    let before = statements(&emulator, PATH).await;
    for (bad, name) in [
        (TABLE, "FAILED_PRECONDITION"),
        ("ALTER TABLE nothing ADD COLUMN w INT64", "NOT_FOUND"),
        ("ALTER TABLE t ADD COLUMN", "INVALID_ARGUMENT"),
        ("CREATE VIEW v SQL SECURITY INVOKER AS SELECT 1", "UNIMPLEMENTED"),
        ("", "INVALID_ARGUMENT"),
    ] {
        let change = json!({ "statements": ["CREATE TABLE u (k INT64) PRIMARY KEY (k)", bad] });
        let error = refused(&emulator, &format!("PATCH {PATH}/ddl"), change, name).await;
        assert!(error["message"].as_str().unwrap().contains(bad), "{bad}: {error}");
    }
    let nothing = json!({ "statements": [] });
    refused(&emulator, &format!("PATCH {PATH}/ddl"), nothing, "INVALID_ARGUMENT").await;
    assert_eq!(statements(&emulator, PATH).await, before);
}

#[tokio::test]
async fn ids_and_fields_come_in_each_form_that_google_takes() {
    let emulator = start().await;
    for id in ["ab", "a-1", "with_underscore"] {
        let asked = json!({ "createStatement": format!("CREATE DATABASE `{id}`") });
        ok(&emulator, &format!("POST {DATABASES}"), asked).await;
    }
    let camel = json!({ "displayName": "A", "nodeCount": 2, "edition": "STANDARD" });
    let snake = json!({ "display_name": "A", "node_count": "2", "edition": 1 });
    for (id, instance) in [("camel", camel), ("a-1", snake)] {
        let asked = json!({ "instanceId": id, "instance": instance });
        ok(&emulator, &format!("POST {INSTANCES}"), asked).await;
        let made = get(&emulator, &format!("{INSTANCES}/{}", id.replace('-', "%2D"))).await;
        let made = (&made["displayName"], &made["nodeCount"], &made["edition"]);
        assert_eq!(made, (&json!("A"), &json!(2), &json!("STANDARD")), "{id}");
    }
    for (instance, code, named) in [
        (json!({ "wings": 2 }), "UNIMPLEMENTED", "`wings`"),
        (json!({ "nodeCount": "many" }), "INVALID_ARGUMENT", "instance.nodeCount: "),
        (json!({ "edition": "FIRST" }), "INVALID_ARGUMENT", "instance.edition: "),
        (json!({ "labels": { "team": 1 } }), "INVALID_ARGUMENT", "instance.labels.team: "),
    ] {
        let asked = json!({ "instanceId": "other", "instance": instance });
        let error = refused(&emulator, &format!("POST {INSTANCES}"), asked, code).await;
        assert!(error["message"].as_str().unwrap().contains(named), "{error}");
    }
}

#[tokio::test]
async fn an_operation_is_done_and_found_by_its_name_as_long_as_its_database_is_there() {
    let emulator = start().await;
    let request = format!("PATCH {PATH}/ddl");
    let drop = json!({ "statements": ["DROP TABLE t"], "operationId": "drop_t" });
    let operation = ok(&emulator, &request, drop.clone()).await;
    assert_eq!(operation["name"], format!("{ORDERS}/operations/drop_t"));
    assert_eq!(operation["done"], true);
    refused(&emulator, &request, drop, "ALREADY_EXISTS").await;
    for id in ["_auto_9", "Drop", "a/b"] {
        let odd = json!({ "statements": [TABLE], "operationId": id });
        refused(&emulator, &request, odd, "INVALID_ARGUMENT").await;
    }
    let path = format!("{PATH}/operations/drop_t");
    assert_eq!(get(&emulator, &path).await, operation);
    ok(&emulator, &format!("DELETE {PATH}"), Json::Null).await;
    assert!(is_gone(&emulator, &path).await);
}

#[tokio::test]
async fn lists_come_in_pages_sorted_by_name_and_a_filter_has_one_restriction() {
    let emulator = Emulator::start().await.unwrap();
    for id in ["cc", "aa", "bb"] {
        create_instance(&emulator, id).await;
    }
    let list =
        async |more: &str| ok(&emulator, &format!("GET {INSTANCES}?{more}"), Json::Null).await;
    let named = |ids: &[&str]| -> Vec<String> {
        ids.iter().map(|id| format!("projects/p/instances/{id}")).collect()
    };
    let first = list("pageSize=2").await;
    assert_eq!(names(&first, "instances"), named(&["aa", "bb"]));
    let token = first["nextPageToken"].as_str().unwrap().replace('/', "%2F");
    let second = list(&format!("pageSize=2&pageToken={token}")).await;
    assert_eq!(names(&second, "instances"), named(&["cc"]));
    assert_eq!(second.get("nextPageToken"), None);
    assert_eq!(names(&list("filter=name:a").await, "instances"), named(&["aa"]));
    assert_eq!(list("filter=labels.env:a").await, json!({}));
    for filter in ["name:a+AND+name:b", "display_name:a", "name", "labels.:a"] {
        let request = format!("GET {INSTANCES}?filter={filter}");
        refused(&emulator, &request, Json::Null, "UNIMPLEMENTED").await;
    }
}

#[tokio::test]
async fn an_instance_comes_with_its_first_database_and_takes_all_and_their_sessions_along() {
    let mut world = World::start().await;
    let instance = format!("{INSTANCES}/i");
    let listed = get(&world.emulator, INSTANCES).await;
    assert_eq!(names(&listed, "instances"), [&DATABASE[..22]]);
    let path = format!("/v1/{DATABASE}");
    assert_eq!(statements(&world.emulator, &path).await.len(), 4);
    // Set-up code that starts from nothing can drop it, and make it again.
    ok(&world.emulator, &format!("DELETE {path}"), Json::Null).await;
    let gone = world.users(None).await.unwrap_err();
    assert_eq!(gone.message(), format!("Database not found: {DATABASE}"));
    let other = json!({ "createStatement": "CREATE DATABASE other" });
    ok(&world.emulator, &format!("POST {instance}/databases"), other).await;
    world.emulator.create_database(DATABASE, DDL).await.unwrap();
    let lost = world.users(None).await.unwrap_err();
    assert_eq!(lost.code(), Code::NotFound);
    assert_eq!(lost.message(), format!("Session not found: {}", world.session));
    world.change_session().await;
    ok(&world.emulator, &format!("DELETE {instance}"), Json::Null).await;
    assert_eq!(get(&world.emulator, INSTANCES).await, json!({}));
    let gone = world.users(None).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
    assert_eq!(gone.message(), format!("Database not found: {DATABASE}"));
}

#[tokio::test]
async fn a_restart_that_loses_databases_loses_their_instances() {
    let emulator = start().await;
    emulator.restart(Restart::lose_databases()).await.unwrap();
    assert_eq!(get(&emulator, INSTANCES).await, json!({}));
    assert!(is_gone(&emulator, &format!("{PATH}/ddl")).await);
}

#[tokio::test]
async fn a_database_of_the_postgresql_dialect_has_tables_and_no_other_statements() {
    let mut world = World::on(start().await, false).await;
    let mut asked = json!({
        "createStatement": "CREATE DATABASE \"pg\"",
        "databaseDialect": "POSTGRESQL",
        "extraStatements": ["CREATE TABLE t (k text PRIMARY KEY)"],
    });
    let request = format!("POST {DATABASES}");
    refused(&world.emulator, &request, asked.clone(), "INVALID_ARGUMENT").await;
    asked["extraStatements"] = json!([]);
    ok(&world.emulator, &request, asked).await;
    let path = format!("{DATABASES}/pg");
    assert_eq!(get(&world.emulator, &path).await["databaseDialect"], "POSTGRESQL");
    let change = format!("PATCH {path}/ddl");
    let google = json!({ "statements": ["CREATE TABLE t (k STRING(MAX)) PRIMARY KEY (k)"] });
    refused(&world.emulator, &change, google, "UNIMPLEMENTED").await;
    let table = "CREATE TABLE t (
  k character varying(8) NOT NULL,
  \"At\" spanner.commit_timestamp,
  PRIMARY KEY(k)
)";
    ok(&world.emulator, &change, json!({ "statements": [table] })).await;
    assert_eq!(statements(&world.emulator, &path).await, [table]);

    world.enter(&path["/v1/".len()..]).await;
    let columns = "SELECT column_name, spanner_type FROM information_schema.columns
                   WHERE table_schema IN ('', 'public') AND LOWER(table_name) = 't'";
    let found = world.query(columns).await.unwrap();
    assert_eq!(found, ["k character varying(8)", "At spanner.commit_timestamp"]);
    for other in ["SELECT k FROM t", "SELECT \"k\""] {
        assert_eq!(code(world.query(other).await), Code::Unimplemented, "{other}");
    }
}

#[tokio::test]
async fn garbage_harms_nobody() {
    let emulator = start().await;
    let endpoint = emulator.rest_endpoint();
    let mut garbage = TcpStream::connect(endpoint.strip_prefix("http://").unwrap()).await.unwrap();
    garbage.write_all(&[0xff; 4096]).await.unwrap();
    get(&emulator, INSTANCES).await;
}

/// Google's Rust client knows of the second port only where the first one is 9010.
#[tokio::test]
async fn the_grpc_port_answers_it_too() {
    let emulator = start().await;
    let request = format!("GET {INSTANCES}/orders");
    let (status, reply) = send_to(&emulator.endpoint(), &request, Json::Null).await;
    assert_eq!((status, reply), (200, get(&emulator, &format!("{INSTANCES}/orders")).await));
}

/// Over gRPC.
async fn databases(emulator: &Emulator) -> DatabaseAdminClient<Channel> {
    DatabaseAdminClient::new(connected(emulator.endpoint()).await)
}

#[tokio::test]
async fn each_call_is_answered_over_grpc_too() {
    let emulator = Emulator::start().await.unwrap();
    let channel = connected(emulator.endpoint()).await;
    let mut instances = InstanceAdminClient::new(channel.clone());
    let mut databases = DatabaseAdminClient::new(channel.clone());
    let mut operations = OperationsClient::new(channel);
    let (project, name) = ("projects/p".to_owned(), "projects/p/instances/orders".to_owned());

    let all =
        instance::ListInstanceConfigsRequest { parent: project.clone(), ..Default::default() };
    let configs = instances.list_instance_configs(all).await.unwrap().into_inner();
    let config = configs.instance_configs[0].clone();
    let get = instance::GetInstanceConfigRequest { name: config.name.clone() };
    assert_eq!(instances.get_instance_config(get).await.unwrap().into_inner(), config);
    let create = instance::CreateInstanceRequest {
        parent: project.clone(),
        instance_id: "orders".into(),
        instance: Some(instance::Instance {
            config: config.name,
            node_count: 2,
            ..Default::default()
        }),
    };
    let done = instances.create_instance(create.clone()).await.unwrap().into_inner();
    let orders: instance::Instance = made(&done, "google.spanner.admin.instance.v1.Instance");
    assert_eq!(orders.processing_units, 2_000);
    assert_eq!(code(instances.create_instance(create).await), Code::AlreadyExists);
    let get = instance::GetInstanceRequest { name: name.clone(), field_mask: None };
    assert_eq!(instances.get_instance(get).await.unwrap().into_inner(), orders);
    let all = instance::ListInstancesRequest { parent: project, ..Default::default() };
    assert_eq!(instances.list_instances(all).await.unwrap().into_inner().instances, [orders]);

    let create = database::CreateDatabaseRequest {
        parent: name.clone(),
        create_statement: "CREATE DATABASE `eu-1`".into(),
        ..Default::default()
    };
    let done = databases.create_database(create).await.unwrap().into_inner();
    let eu: database::Database = made(&done, "google.spanner.admin.database.v1.Database");
    let update = ddl(&[TABLE]);
    let done = databases.update_database_ddl(update).await.unwrap().into_inner();
    let told = longrunning::GetOperationRequest { name: done.name.clone() };
    assert_eq!(operations.get_operation(told).await.unwrap().into_inner(), done);
    let metadata = done.metadata.unwrap();
    assert!(metadata.type_url.ends_with("UpdateDatabaseDdlMetadata"), "{}", metadata.type_url);
    let metadata = database::UpdateDatabaseDdlMetadata::decode(metadata.value.as_slice()).unwrap();
    assert_eq!((metadata.statements, metadata.commit_timestamps.len()), (vec![TABLE.into()], 1));
    let get_ddl = database::GetDatabaseDdlRequest { database: ORDERS.into() };
    assert_eq!(databases.get_database_ddl(get_ddl).await.unwrap().into_inner().statements.len(), 1);
    let get = database::GetDatabaseRequest { name: ORDERS.into() };
    assert_eq!(databases.get_database(get).await.unwrap().into_inner().name, eu.name);
    let all = database::ListDatabasesRequest { parent: name.clone(), ..Default::default() };
    let listed = databases.list_databases(all).await.unwrap().into_inner().databases;
    assert_eq!(listed[0].name, ORDERS);
    let drop = database::DropDatabaseRequest { database: ORDERS.into() };
    databases.drop_database(drop).await.unwrap();

    let delete = instance::DeleteInstanceRequest { name: name.clone() };
    instances.delete_instance(delete.clone()).await.unwrap();
    let missing = instances.delete_instance(delete).await.unwrap_err();
    assert_eq!(missing.code(), Code::NotFound);
    let (kind, info) = details(&missing).remove(0);
    assert_eq!(kind, "type.googleapis.com/google.rpc.ResourceInfo");
    assert_eq!(rpc::ResourceInfo::decode(info.as_slice()).unwrap().resource_name, name);
    let backups = database::ListBackupsRequest { parent: name, ..Default::default() };
    let refused = databases.list_backups(backups).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    assert!(refused.message().contains("DatabaseAdmin/ListBackups"), "{refused}");
}

/// Returns what an operation made, which must be done.
fn made<M: Message + Default>(operation: &longrunning::Operation, kind: &str) -> M {
    assert!(operation.done, "{operation:?}");
    match operation.result.as_ref().unwrap() {
        longrunning::operation::Result::Response(any) => {
            assert_eq!(any.type_url, format!("type.googleapis.com/{kind}"));
            M::decode(any.value.as_slice()).unwrap()
        }
        longrunning::operation::Result::Error(error) => panic!("{error:?}"),
    }
}

fn ddl(statements: &[&str]) -> database::UpdateDatabaseDdlRequest {
    database::UpdateDatabaseDdlRequest {
        database: ORDERS.into(),
        statements: statements.iter().map(|&text| text.into()).collect(),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_database_shows_its_options() {
    let mut world = World::on(start().await, false).await;
    let mut databases = databases(&world.emulator).await;
    for leader in ["", "europe-west1"] {
        if !leader.is_empty() {
            let set = "ALTER DATABASE `eu-1` SET OPTIONS (default_leader = 'europe-west1')";
            update(&world.emulator, &[set]).await;
        }
        let get = database::GetDatabaseRequest { name: ORDERS.into() };
        let found = databases.get_database(get).await.unwrap().into_inner();
        assert_eq!(found.default_leader, leader);
    }
    world.enter(ORDERS).await;
    let options =
        "SELECT OPTION_NAME, OPTION_TYPE, OPTION_VALUE FROM INFORMATION_SCHEMA.DATABASE_OPTIONS
         WHERE SCHEMA_NAME = '' ORDER BY OPTION_NAME";
    assert_eq!(
        world.query(options).await.unwrap(),
        ["database_dialect STRING GOOGLE_STANDARD_SQL", "default_leader STRING europe-west1"]
    );
}

#[tokio::test]
async fn a_lenient_server_keeps_the_descriptors_of_protos_and_another_refuses_them() {
    let create = |descriptors: &[u8]| database::CreateDatabaseRequest {
        parent: "projects/p/instances/orders".into(),
        create_statement: "CREATE DATABASE `eu-2`".into(),
        proto_descriptors: descriptors.to_vec(),
        ..Default::default()
    };
    let strict = start().await;
    let refused = databases(&strict).await.create_database(create(b"told")).await;
    assert_eq!(code(refused), Code::Unimplemented);

    let emulator = with_orders(Emulator::builder().lenient_ddl().start().await.unwrap()).await;
    let mut databases = databases(&emulator).await;
    let name = ORDERS.replace("eu-1", "eu-2");
    let reader = databases.clone();
    let kept = async |name: &str| {
        let request = database::GetDatabaseDdlRequest { database: name.into() };
        reader.clone().get_database_ddl(request).await.unwrap().into_inner().proto_descriptors
    };
    for told in [&b"told"[..], &[]] {
        databases.create_database(create(told)).await.unwrap();
        assert_eq!(kept(&name).await, told);
        let update = database::UpdateDatabaseDdlRequest {
            database: name.clone(),
            proto_descriptors: b"more".to_vec(),
            ..ddl(&[TABLE])
        };
        databases.update_database_ddl(update).await.unwrap();
        assert_eq!(kept(&name).await, b"more");
        let copy = format!("{name}-copy");
        emulator.copy_database(&name, &copy).unwrap();
        assert_eq!(kept(&copy).await, b"more");
        assert!(emulator.drop_database(&copy) && emulator.drop_database(&name));
    }
    databases.create_database(create(b"told")).await.unwrap();
    ok(&emulator, &format!("DELETE {INSTANCES}/orders"), Json::Null).await;
    create_instance(&emulator, "orders").await;
    databases.create_database(create(&[])).await.unwrap();
    assert!(kept(&name).await.is_empty(), "it went with its instance");
}
