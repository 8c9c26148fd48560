//! The control service, as a test in any language uses it.

use std::time::Duration;

use spindle_emulator::engine::Dialect;
use tokio::net::TcpStream;

use super::*;

/// Sends one request, and gives the status and the body of the reply.
async fn send(world: &World, request: &str, body: &str) -> (u16, String) {
    let endpoint = world.emulator.control_endpoint().unwrap();
    let reply = http::send(&endpoint, request, body).await;
    (reply.status, reply.body.trim().to_owned())
}

async fn ok(world: &World, request: &str, body: &str) -> String {
    let (status, reply) = send(world, request, body).await;
    assert_eq!(status, 200, "{reply}");
    reply
}

async fn start() -> World {
    let emulator = Emulator::builder().control(0).start().await.unwrap();
    World::on(emulator, false).await
}

#[tokio::test]
async fn it_is_off_unless_asked_for() {
    assert_eq!(World::start().await.emulator.control_endpoint(), None);
}

#[tokio::test]
async fn a_fault_is_injected_counted_and_removed() {
    let mut world = start().await;
    let fault =
        r#"{"rpc": "Commit", "table": "users", "key": "7", "effect": "fail", "code": "UNKNOWN"}"#;
    assert_eq!(ok(&world, "POST /faults", fault).await, r#"{"id":1}"#);
    world.commit_once([insert(1)]).await.unwrap();
    assert_eq!(code(world.commit_once([insert(7)]).await), Code::Unknown);
    assert_eq!(ok(&world, "GET /faults/1", "").await, r#"{"hits":1}"#);
    assert_eq!(ok(&world, "DELETE /faults/1", "").await, r#"{"removed":true}"#);
    assert_eq!(ok(&world, "DELETE /faults/1", "").await, r#"{"removed":false}"#);
    world.commit_once([insert(7)]).await.unwrap();
}

#[tokio::test]
async fn the_faults_that_are_active_are_listed_with_what_is_left_of_them() {
    let mut world = start().await;
    let fault = r#"{"statements": true, "times": 2, "effect": "fail", "code": "UNAUTHENTICATED"}"#;
    ok(&world, "POST /faults", fault).await;
    ok(&world, "POST /faults", r#"{"rpc": "Read", "effect": "stall"}"#).await;
    let statement = world.statement("SELECT 1");
    assert_eq!(code(world.client.execute_sql(statement).await), Code::Unauthenticated);
    assert_eq!(
        ok(&world, "GET /faults", "").await,
        r#"[{"code":"UNAUTHENTICATED","effect":"fail","hits":1,"id":1,"statements":true,"times":1},"#
            .to_owned()
            + r#"{"effect":"stall","hits":0,"id":2,"rpc":"Read"}]"#
    );
    ok(&world, "DELETE /faults", "").await;
    assert_eq!(ok(&world, "GET /faults", "").await, "[]");
}

#[tokio::test]
async fn a_fault_is_listed_as_it_was_asked_for() {
    use serde_json::Value as Json;
    let world = start().await;
    for text in [
        r#"{"effect": "lose_reply", "session": "s"}"#,
        r#"{"rpc": "Commit", "tag": "app=x", "table": "users", "key": "7", "skip": 1, "times": 2, "effect": "abort"}"#,
        r#"{"effect": "delay", "ms": 20, "probability": 0.5, "seed": 7}"#,
        r#"{"effect": "fail", "code": "UNAUTHENTICATED", "statements": true}"#,
        r#"{"effect": "fail_after_applying", "code": "DATA_LOSS"}"#,
        r#"{"effect": "queue", "ms": 1}"#,
        r#"{"effect": "delay_reply", "ms": 1}"#,
        r#"{"effect": "apply_late", "ms": 1}"#,
        r#"{"effect": "drop_connection"}"#,
        r#"{"effect": "stall"}"#,
        r#"{"effect": "stall_reply"}"#,
        r#"{"effect": "hide_read_timestamp"}"#,
        r#"{"effect": "end_earlier"}"#,
    ] {
        ok(&world, "POST /faults", text).await;
        let listed = ok(&world, "GET /faults", "").await;
        let mut listed: Vec<serde_json::Map<String, Json>> = serde_json::from_str(&listed).unwrap();
        listed[0].retain(|name, _| name != "id" && name != "hits");
        let asked: Json = serde_json::from_str(text).unwrap();
        assert_eq!((listed.len(), Json::from(listed.remove(0))), (1, asked), "{text}");
        ok(&world, "DELETE /faults", "").await;
    }
    ok(&world, "POST /faults", r#"{"effect": "lose_reply", "session": null}"#).await;
}

#[tokio::test]
async fn what_is_wrong_with_a_fault_is_named() {
    let world = start().await;
    for (text, named) in [
        ("[]", "no JSON object"),
        ("{", "no JSON object"),
        ("{}", "missing field `effect`"),
        (r#"{"effect": "delay"}"#, "missing field `ms`"),
        (r#"{"effect": "explode"}"#, "unknown effect `explode`"),
        (r#"{"effect": "fail", "code": "BAD"}"#, "code: unknown variant `BAD`"),
        (r#"{"effect": "stall", "rpc": "Compute"}"#, "rpc: unknown variant `Compute`"),
        (r#"{"effect": "stall", "tabel": "t"}"#, "unknown field `tabel`"),
        (r#"{"effect": "stall", "times": -1}"#, "times: invalid value: integer `-1`"),
        (r#"{"effect": "stall", "rpc": "Commit", "statements": true}"#, "runs no statement"),
    ] {
        let (status, reply) = send(&world, "POST /faults", text).await;
        assert_eq!(status, 400, "{text}");
        assert!(reply.contains(named), "{text}: {reply}");
    }
}

#[tokio::test]
async fn a_port_is_opened_cut_off_restored_and_closed() {
    let mut world = start().await;
    let opened: serde_json::Value =
        serde_json::from_str(&ok(&world, "POST /ports", "").await).unwrap();
    let (port, address) = (&opened["port"], opened["address"].as_str().unwrap());
    world.client = SpannerClient::new(connected(format!("http://{address}")).await);
    world.users(None).await.unwrap();
    ok(&world, &format!("POST /ports/{port}/cut_off"), "").await;
    assert!(TcpStream::connect(address).await.is_err());
    TcpStream::connect(world.emulator.address()).await.unwrap();
    ok(&world, &format!("POST /ports/{port}/restore"), "").await;
    world.client = SpannerClient::new(connected(format!("http://{address}")).await);
    world.users(None).await.unwrap();
    let swallow = format!("POST /ports/{port}/swallow_connections");
    assert_eq!(ok(&world, &swallow, "").await, r#"{"connections":1}"#);
    let close = format!("DELETE /ports/{port}");
    assert_eq!(ok(&world, &close, "").await, r#"{"removed":true}"#);
    assert_eq!(ok(&world, &close, "").await, r#"{"removed":false}"#);
    assert_eq!(send(&world, &format!("POST /ports/{port}/restore"), "").await.0, 404);
}

#[tokio::test]
async fn a_database_is_copied() {
    let mut world = start().await;
    world.commit_once([insert(1)]).await.unwrap();
    let copy = "projects/p/instances/i/databases/copy";
    let body = format!(r#"{{"from": "{DATABASE}", "to": "{copy}"}}"#);
    ok(&world, "POST /databases/copy", &body).await;
    assert_eq!(world.emulator.database(copy).unwrap().rows("users").unwrap().len(), 1);
    assert_eq!(send(&world, "POST /databases/copy", &body).await.0, 409);
}

#[tokio::test]
async fn requests_are_counted_and_forgotten() {
    let mut world = start().await;
    world.users(None).await.unwrap();
    assert_eq!(ok(&world, "GET /requests", "").await, r#"{"CreateSession":1,"Read":1,"total":2}"#);
    ok(&world, "DELETE /requests", "").await;
    assert_eq!(ok(&world, "GET /requests", "").await, r#"{"total":0}"#);
}

#[tokio::test]
async fn it_answers_while_the_server_is_paused() {
    let mut world = start().await;
    world.commit_once([insert(1)]).await.unwrap();
    ok(&world, "POST /pause", "").await;
    assert!(TcpStream::connect(world.emulator.address()).await.is_err());
    ok(&world, "POST /resume", "").await;
    ok(&world, "POST /restart", r#"{"data": "lose_rows"}"#).await;
    let retried = async {
        // The channel finds out about the broken connection in its own time.
        while world.users(None).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), retried).await.unwrap();
    assert!(world.ids().await.is_empty());
}

#[tokio::test]
async fn a_restart_keeps_sessions_or_loses_them() {
    let mut world = start().await;
    for (restart, is_kept) in [("", true), (r#"{"lose_sessions": true}"#, false)] {
        ok(&world, "POST /restart", restart).await;
        world.client = SpannerClient::new(connected(world.emulator.endpoint()).await);
        let answer = world.users(None).await;
        assert_eq!(answer.is_ok(), is_kept, "{restart}: {answer:?}");
    }
}

#[tokio::test]
async fn connections_are_swallowed_and_counted() {
    let mut world = start().await;
    world.users(None).await.unwrap();
    let swallow = "POST /swallow_connections";
    assert_eq!(ok(&world, swallow, "").await, r#"{"connections":1}"#);
    waits(world.users(None)).await;
    assert_eq!(ok(&world, swallow, "").await, r#"{"connections":0}"#);
}

#[tokio::test]
async fn the_clock_is_moved() {
    let world = start().await;
    let before = world.emulator.clock().now();
    ok(&world, "POST /clock/advance", r#"{"ms": 60000}"#).await;
    assert!(world.emulator.clock().now().since(before) >= Duration::from_secs(60));
}

#[tokio::test]
async fn databases_are_created_and_dropped() {
    let world = start().await;
    let name = "projects/p/instances/i/databases/e";
    let body =
        format!(r#"{{"name": "{name}", "ddl": "CREATE TABLE t (k INT64) PRIMARY KEY (k)"}}"#);
    ok(&world, "POST /databases", &body).await;
    assert!(world.emulator.database(name).unwrap().schema().table("t").is_some());
    assert_eq!(send(&world, "POST /databases", &body).await.0, 409);
    assert_eq!(ok(&world, &format!("DELETE /databases/{name}"), "").await, r#"{"removed":true}"#);
    assert!(world.emulator.database(name).is_none());

    let ddl = "CREATE TABLE t (k bigint PRIMARY KEY)";
    let body = format!(r#"{{"name": "{name}", "dialect": "postgresql", "ddl": "{ddl}"}}"#);
    ok(&world, "POST /databases", &body).await;
    assert_eq!(world.emulator.database(name).unwrap().schema().dialect(), Dialect::PostgreSql);
}

#[tokio::test]
async fn what_is_not_understood_is_refused_and_harms_nobody() {
    let mut world = start().await;
    for (request, body, status) in [
        ("GET /nothing", "", 404),
        ("POST /faults", r#"{"effect": "abort", "table": "orders"}"#, 400),
        ("POST /faults", r#"{"effect": "abort", "probability": 2}"#, 400),
        ("POST /faults", r#"{"effect": "abort", "tag": ""}"#, 400),
        ("POST /restart", r#"{"keep_sessions": true}"#, 400),
        ("POST /restart", r#"{"data": "some"}"#, 400),
        ("POST /clock/advance", "{}", 400),
        ("POST /databases", r#"{"name": "e", "dialect": "sqlite"}"#, 400),
        ("GET /faults/99", "", 404),
    ] {
        let (answered, reply) = send(&world, request, body).await;
        assert_eq!(answered, status, "{request} {body}: {reply}");
        assert!(reply.starts_with(r#"{"error":"#), "{reply}");
    }
    world.users(None).await.unwrap();
}

#[tokio::test]
async fn a_web_page_cannot_use_it() {
    let world = start().await;
    let control = world.emulator.control_endpoint().unwrap();
    let (rest, grpc) = (world.emulator.rest_endpoint(), world.emulator.endpoint());
    let instances = "GET /v1/projects/p/instances";
    for (endpoint, request) in [(&control, "GET /requests"), (&rest, instances), (&grpc, instances)]
    {
        for (headers, status) in [
            ("host: localhost", 200),
            ("host: [::1]:9", 200),
            ("host: emulator:9020\ncontent-type: application/json; charset=utf-8", 200),
            ("host: localhost\norigin: http://example.com", 403),
            ("host: localhost\norigin: null", 403),
            ("host: rebound.example.com:9020", 403),
            ("host: localhost\ncontent-type: text/plain", 403),
        ] {
            let reply = http::send_with(endpoint, request, headers, "").await;
            assert_eq!(reply.status, status, "{endpoint} {headers}: {}", reply.body);
        }
    }
}
