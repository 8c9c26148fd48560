//! Administration over HTTP and JSON, byte by byte as Google's Rust client speaks it.

use serde_json::{Value as Json, json};
use spindle_emulator::Restart;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::*;

const INSTANCES: &str = "/v1/projects/p/instances";
const ORDERS: &str = "/v1/projects/p/instances/orders/databases/eu-1";
const TABLE: &str = "CREATE TABLE t (k INT64 NOT NULL) PRIMARY KEY (k)";

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

/// A server with an instance, and a database with one table.
async fn start() -> Emulator {
    let emulator = Emulator::start().await.unwrap();
    let asked = json!({
        "parent": "projects/p",
        "instanceId": "orders",
        "instance": { "displayName": "Orders", "nodeCount": 1, "labels": { "team": "billing" } },
    });
    let operation = ok(&emulator, &format!("POST {INSTANCES}"), asked).await;
    assert_eq!(operation["done"], true);
    assert_eq!(
        operation["response"]["@type"],
        "type.googleapis.com/google.spanner.admin.instance.v1.Instance"
    );
    let asked = json!({ "createStatement": "CREATE DATABASE `eu-1`", "extraStatements": [TABLE] });
    let operation = ok(&emulator, &format!("POST {INSTANCES}/orders/databases"), asked).await;
    assert_eq!(operation["response"]["name"], "projects/p/instances/orders/databases/eu-1");
    emulator
}

#[tokio::test]
async fn instances_and_databases_are_made_found_and_removed() {
    let emulator = start().await;
    let instance = get(&emulator, &format!("{INSTANCES}/orders")).await;
    assert_eq!(instance["name"], "projects/p/instances/orders");
    assert_eq!(instance["state"], "READY");
    assert_eq!(instance["processingUnits"], 1_000);
    assert_eq!(instance["labels"]["team"], "billing");
    assert_eq!(get(&emulator, INSTANCES).await["instances"][0], instance);
    let database = get(&emulator, ORDERS).await;
    assert_eq!(database["databaseDialect"], "GOOGLE_STANDARD_SQL");
    let listed = get(&emulator, &format!("{INSTANCES}/orders/databases")).await;
    assert_eq!(listed["databases"][0]["name"], database["name"]);
    let config = get(&emulator, "/v1/projects/p/instanceConfigs/emulator-config").await;
    assert_eq!(
        get(&emulator, "/v1/projects/p/instanceConfigs").await["instanceConfigs"][0],
        config
    );

    assert_eq!(ok(&emulator, &format!("DELETE {ORDERS}"), Json::Null).await, json!({}));
    assert_eq!(send(&emulator, &format!("GET {ORDERS}"), Json::Null).await.0, 404);
    ok(&emulator, &format!("DELETE {INSTANCES}/orders"), Json::Null).await;
    assert_eq!(get(&emulator, INSTANCES).await, json!({}));
}

#[tokio::test]
async fn the_schema_is_changed_and_reported() {
    let emulator = start().await;
    let change =
        json!({ "statements": ["ALTER TABLE t ADD COLUMN v STRING(5)"], "operationId": "grow" });
    let operation = ok(&emulator, &format!("PATCH {ORDERS}/ddl"), change).await;
    assert_eq!(operation["name"], format!("{}/operations/grow", &ORDERS[4..]));
    assert_eq!(operation["metadata"]["commitTimestamps"].as_array().unwrap().len(), 1);
    assert_eq!(operation["response"]["@type"], "type.googleapis.com/google.protobuf.Empty");
    assert_eq!(
        get(&emulator, &format!("{ORDERS}/ddl")).await,
        json!({ "statements": ["CREATE TABLE t (\n  k INT64 NOT NULL,\n  v STRING(5),\n) PRIMARY KEY(k)"] })
    );
    assert_eq!(get(&emulator, &format!("{ORDERS}/operations/grow")).await, operation);
}

#[tokio::test]
async fn errors_have_the_status_and_the_form_of_googles() {
    let emulator = start().await;
    let database = json!({ "createStatement": "CREATE DATABASE `eu-1`" });
    let exists = json!({ "instanceId": "orders" });
    let again = json!({ "statements": [TABLE] });
    for (request, body, status, name) in [
        (format!("POST {INSTANCES}"), exists, 409, "ALREADY_EXISTS"),
        (format!("POST {INSTANCES}/orders/databases"), database.clone(), 409, "ALREADY_EXISTS"),
        (format!("POST {INSTANCES}/others/databases"), database, 404, "NOT_FOUND"),
        (format!("PATCH {ORDERS}/ddl"), again, 400, "FAILED_PRECONDITION"),
        (format!("PATCH {ORDERS}/ddl"), json!({ "statements": ["X"] }), 400, "INVALID_ARGUMENT"),
        (format!("POST {INSTANCES}"), json!([]), 400, "INVALID_ARGUMENT"),
        (format!("POST {INSTANCES}"), json!({ "wings": 2 }), 501, "UNIMPLEMENTED"),
        (format!("GET {INSTANCES}/orders/backups"), Json::Null, 501, "UNIMPLEMENTED"),
        (format!("PATCH {INSTANCES}/orders"), json!({}), 501, "UNIMPLEMENTED"),
        (format!("GET {ORDERS}/operations"), Json::Null, 501, "UNIMPLEMENTED"),
        ("GET /".to_owned(), Json::Null, 501, "UNIMPLEMENTED"),
    ] {
        let (answered, reply) = send(&emulator, &request, body).await;
        let error = &reply["error"];
        assert_eq!((answered, &error["status"]), (status, &json!(name)), "{request}: {reply}");
        assert_eq!(error["code"], status);
        assert!(!error["message"].as_str().unwrap().is_empty());
    }
    let (_, missing) = send(&emulator, &format!("GET {INSTANCES}/others"), Json::Null).await;
    let info = &missing["error"]["details"][0];
    assert_eq!(info["@type"], "type.googleapis.com/google.rpc.ResourceInfo");
    assert_eq!(info["resourceName"], "projects/p/instances/others");
}

#[tokio::test]
async fn lists_come_in_pages() {
    let emulator = start().await;
    for id in ["aa", "bb"] {
        ok(&emulator, &format!("POST {INSTANCES}"), json!({ "instanceId": id })).await;
    }
    let first = ok(&emulator, &format!("GET {INSTANCES}?pageSize=2"), Json::Null).await;
    assert_eq!(first["instances"].as_array().unwrap().len(), 2);
    let token = first["nextPageToken"].as_str().unwrap().replace('/', "%2F");
    let rest = format!("GET {INSTANCES}?pageSize=2&pageToken={token}");
    let second = ok(&emulator, &rest, Json::Null).await;
    assert_eq!(second["instances"][0]["name"], "projects/p/instances/orders");
    assert_eq!(second.get("nextPageToken"), None);
}

#[tokio::test]
async fn it_shares_everything_with_the_grpc_port() {
    let world = World::start().await;
    let path = format!("/v1/{DATABASE}/ddl");
    let statements = get(&world.emulator, &path).await["statements"].clone();
    assert_eq!(statements.as_array().unwrap().len(), 4);
    world.emulator.restart(Restart::lose_databases()).await.unwrap();
    assert_eq!(send(&world.emulator, &format!("GET {path}"), Json::Null).await.0, 404);
}

/// Google's Rust client knows of the second port only where the first one is 9010.
#[tokio::test]
async fn the_grpc_port_answers_it_too() {
    let emulator = start().await;
    let request = format!("GET {INSTANCES}/orders");
    let (status, reply) = send_to(&emulator.endpoint(), &request, Json::Null).await;
    assert_eq!((status, reply), (200, get(&emulator, &format!("{INSTANCES}/orders")).await));
}

#[tokio::test]
async fn garbage_harms_nobody() {
    let emulator = start().await;
    let endpoint = emulator.rest_endpoint();
    let mut garbage = TcpStream::connect(endpoint.strip_prefix("http://").unwrap()).await.unwrap();
    garbage.write_all(&[0xff; 4096]).await.unwrap();
    get(&emulator, INSTANCES).await;
}
