//! Writes the server half of `google.spanner.v1.Spanner`, which no published crate has. It starts
//! from the messages of a crate that has the client half, so it needs no `.proto` files and no
//! `protoc`.

use tonic_build::manual::{Builder, Method, Service};

const MESSAGES: &str = "googleapis_tonic_google_spanner_v1::google::spanner::v1";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let unary = [
        ("create_session", "CreateSession", "CreateSessionRequest", "Session"),
        (
            "batch_create_sessions",
            "BatchCreateSessions",
            "BatchCreateSessionsRequest",
            "BatchCreateSessionsResponse",
        ),
        ("get_session", "GetSession", "GetSessionRequest", "Session"),
        ("list_sessions", "ListSessions", "ListSessionsRequest", "ListSessionsResponse"),
        ("delete_session", "DeleteSession", "DeleteSessionRequest", ""),
        ("execute_sql", "ExecuteSql", "ExecuteSqlRequest", "ResultSet"),
        (
            "execute_batch_dml",
            "ExecuteBatchDml",
            "ExecuteBatchDmlRequest",
            "ExecuteBatchDmlResponse",
        ),
        ("read", "Read", "ReadRequest", "ResultSet"),
        ("begin_transaction", "BeginTransaction", "BeginTransactionRequest", "Transaction"),
        ("commit", "Commit", "CommitRequest", "CommitResponse"),
        ("rollback", "Rollback", "RollbackRequest", ""),
        ("partition_query", "PartitionQuery", "PartitionQueryRequest", "PartitionResponse"),
        ("partition_read", "PartitionRead", "PartitionReadRequest", "PartitionResponse"),
    ];
    let streaming = [
        ("execute_streaming_sql", "ExecuteStreamingSql", "ExecuteSqlRequest", "PartialResultSet"),
        ("streaming_read", "StreamingRead", "ReadRequest", "PartialResultSet"),
        ("batch_write", "BatchWrite", "BatchWriteRequest", "BatchWriteResponse"),
    ];
    let mut service = Service::builder().name("Spanner").package("google.spanner.v1");
    for method in unary {
        service = service.method(named(method).build());
    }
    for method in streaming {
        service = service.method(named(method).server_streaming().build());
    }
    Builder::new().build_client(false).compile(&[service.build()]);
}

fn named(
    (name, route, input, output): (&str, &str, &str, &str),
) -> tonic_build::manual::MethodBuilder {
    let output = match output {
        "" => "crate::service::Empty".to_owned(),
        output => format!("{MESSAGES}::{output}"),
    };
    Method::builder()
        .name(name)
        .route_name(route)
        .input_type(format!("{MESSAGES}::{input}"))
        .output_type(output)
        .codec_path("crate::service::codec::Codec")
}
