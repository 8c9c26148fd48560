//! Requests that are too large, too old or too much, and the answers to them.

use super::*;

const MIB: usize = 1 << 20;

async fn with_table(ddl: &str) -> World {
    let world = World::start().await;
    change(&world, ddl).unwrap();
    world
}

fn event(number: usize, note: &str) -> proto::Mutation {
    let values = [text("2026-01-01"), text(number.to_string()), text(note)];
    mutation(Operation::Insert(write("events", ["day", "number", "note"], values)))
}

/// Puts the values of a stream together as clients do.
async fn values(mut stream: tonic::Streaming<proto::PartialResultSet>) -> (Vec<Value>, Vec<usize>) {
    let (mut values, mut sizes): (Vec<Value>, Vec<usize>) = Default::default();
    let (mut is_cut, mut last) = (false, false);
    while let Some(part) = stream.message().await.unwrap() {
        assert!(!last && part.metadata.is_some() == sizes.is_empty());
        last = part.last;
        sizes.push(part.encoded_len());
        let mut new = part.values.into_iter();
        if is_cut {
            let (head, tail) = (values.pop().unwrap(), new.next().unwrap());
            values.push(joined(head, tail));
        }
        values.extend(new);
        is_cut = part.chunked_value;
    }
    assert!(last);
    (values, sizes)
}

fn joined(head: Value, tail: Value) -> Value {
    match (head.kind.unwrap(), tail.kind.unwrap()) {
        (Kind::StringValue(head), Kind::StringValue(tail)) => text(head + &tail),
        (Kind::ListValue(mut head), Kind::ListValue(tail)) => {
            let mut tail = tail.values.into_iter();
            let texts = |value: Option<&Value>| {
                matches!(value, Some(Value { kind: Some(Kind::StringValue(_)) }))
            };
            if texts(head.values.last()) && texts(tail.as_slice().first()) {
                let last = head.values.pop().unwrap();
                head.values.push(joined(last, tail.next().unwrap()));
            }
            head.values.extend(tail);
            Value { kind: Some(Kind::ListValue(head)) }
        }
        other => panic!("not to be joined: {other:?}"),
    }
}

#[tokio::test]
async fn a_commit_may_be_larger_than_a_message_of_the_usual_size() {
    let mut world = World::start().await;
    let note = "x".repeat(2 * MIB);
    world.commit_once((0..8).map(|number| event(number, &note)).collect::<Vec<_>>()).await.unwrap();
}

#[tokio::test]
async fn a_value_larger_than_a_message_is_cut_and_comes_whole() {
    let mut world = with_table(
        "CREATE TABLE lists (id INT64, texts ARRAY<STRING(MAX)>, numbers ARRAY<INT64>, s STRING(MAX))
         PRIMARY KEY (id)",
    )
    .await;
    let long = "äb".repeat(MIB);
    let list_of = |values: Vec<Value>| Value { kind: Some(Kind::ListValue(list(values))) };
    let texts = list_of(vec![text("a"), null(), text(long.clone()), null(), text("z"), text("")]);
    let numbers = list_of((0..400_000).map(|number| text(number.to_string())).collect());
    let row = [text("1"), texts, numbers, text(long)];
    let insert = Operation::Insert(write("lists", ["id", "texts", "numbers", "s"], row.clone()));
    world.commit_once([mutation(insert)]).await.unwrap();
    let request = world.read_request("lists", &["id", "texts", "numbers", "s"]);
    let stream = world.client.streaming_read(request).await.unwrap().into_inner();
    let (values, sizes) = values(stream).await;
    assert!(values == row, "what came is not what was written");
    assert!(sizes.iter().all(|size| *size < 2 * MIB), "{sizes:?}");
    assert!(sizes.len() > 8, "{sizes:?}");
}

#[tokio::test]
async fn a_result_of_more_than_ten_mebibytes_is_only_streamed() {
    let mut world = World::start().await;
    let note = "x".repeat(2 * MIB);
    world.commit_once((0..6).map(|number| event(number, &note)).collect::<Vec<_>>()).await.unwrap();
    let mut client = world.client.clone().max_decoding_message_size(64 * MIB);
    let request = world.read_request("events", &["note"]);
    assert_eq!(code(client.read(request.clone()).await), Code::FailedPrecondition);
    let query = world.statement("SELECT note FROM events");
    assert_eq!(code(client.execute_sql(query.clone()).await), Code::FailedPrecondition);
    let stream = client.streaming_read(request).await.unwrap().into_inner();
    assert_eq!(values(stream).await.0.len(), 6);
    let stream = client.execute_streaming_sql(query).await.unwrap().into_inner();
    assert_eq!(values(stream).await.0.len(), 6);
}

/// Goal: a long read holds nobody up, and locks only what it has come to.
#[tokio::test]
async fn a_long_read_goes_on_page_by_page() {
    let mut world = World::start().await;
    let users: Vec<_> = (1..=5_000).map(insert).collect();
    world.commit_once(users).await.unwrap();
    let id = world.begin_read_write().await;
    let request = proto::ReadRequest {
        transaction: selected(Selector::Id(id.clone())),
        limit: 2_500,
        ..world.read_request("users", &["id", "name"])
    };
    let stream = world.client.streaming_read(request).await.unwrap().into_inner();
    let (values, _) = values(stream).await;
    let ids: Vec<String> = values.iter().step_by(2).map(shown).collect();
    assert_eq!(ids, (1..=2_500).map(|id| id.to_string()).collect::<Vec<_>>());
    // Behind the limit nothing was read, so nothing there is locked.
    at_once(world.commit_once([update(2_501, "a"), insert(6_000)])).await;
    waits(world.commit_once([update(2_500, "a")])).await;
    world.commit(&id, []).await.unwrap();
}

#[tokio::test]
async fn a_moment_before_the_table_existed_shows_no_rows() {
    let mut world = World::start().await;
    world.commit_once([insert(1)]).await.unwrap();
    let read = world.users(Some(at(ago(1_800)))).await.unwrap();
    assert_eq!(read.rows.len(), 0);
}

#[tokio::test]
async fn a_key_has_at_most_eight_kibibytes() {
    let mut world = with_table(
        "CREATE TABLE named (name STRING(MAX), part BYTES(MAX)) PRIMARY KEY (name, part)",
    )
    .await;
    let named = |length: usize| {
        let values = [text("x".repeat(length)), text("AAAA")];
        mutation(Operation::Insert(write("named", ["name", "part"], values)))
    };
    world.commit_once([named(8 * 1024 - 3)]).await.unwrap();
    let error = world.commit_once([named(8 * 1024 - 2)]).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("8193"), "{error}");
}

#[tokio::test]
async fn an_error_that_quotes_a_long_input_keeps_its_code() {
    let mut world = World::start().await;
    let long = "ß".repeat(MIB);
    let values = [text("1"), text(long.clone())];
    let insert = mutation(Operation::Insert(write("users", ["id", "age"], values)));
    let error = world.commit_once([insert]).await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    assert!(error.message().starts_with("Could not parse \"ßß"), "{error}");
    assert!(error.message().ends_with("as INT64"), "{error}");
    world.session = format!("{DATABASE}/sessions/{long}");
    let error = world.commit_once([]).await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
}

#[tokio::test]
async fn a_request_without_a_table_or_columns_is_wrong() {
    let mut world = World::start().await;
    assert_eq!(code(world.read("", &["id"], all(), None).await), Code::InvalidArgument);
    assert_eq!(code(world.read("users", &[], all(), None).await), Code::InvalidArgument);
    let nowhere = mutation(Operation::Insert(write("", ["id"], [text("1")])));
    assert_eq!(code(world.commit_once([nowhere]).await), Code::InvalidArgument);
}

#[tokio::test]
async fn only_a_read_only_transaction_is_sent_to_a_replica() {
    let mut world = World::start().await;
    let id = world.begin_read_write().await;
    let directed = |selector| proto::ReadRequest {
        transaction: selected(selector),
        directed_read_options: Some(proto::DirectedReadOptions::default()),
        ..world.read_request("users", &["id"])
    };
    let single_use = directed(Selector::SingleUse(read_only(ReadOnly::default())));
    let read_write = directed(Selector::Id(id));
    world.client.read(single_use).await.unwrap();
    assert_eq!(code(world.client.read(read_write).await), Code::InvalidArgument);
}

#[tokio::test]
async fn a_session_of_a_role_is_refused_by_name() {
    let mut world = World::start().await;
    let session = proto::Session { creator_role: "auditor".into(), ..Default::default() };
    let request = proto::CreateSessionRequest { database: DATABASE.into(), session: Some(session) };
    let error = world.client.create_session(request).await.unwrap_err();
    assert_eq!(error.code(), Code::Unimplemented);
    assert!(error.message().contains("auditor"), "{error}");
}

/// Returns the nanoseconds that this thread, which runs client and server, has computed. A busy
/// machine makes no difference to them. Where the system doesn't count them, time itself counts.
#[expect(clippy::disallowed_methods, reason = "nothing here runs on a virtual clock")]
fn computed() -> u128 {
    static START: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let told = told.and_then(|told| told.split(' ').next()?.parse().ok());
    told.unwrap_or_else(|| START.elapsed().as_nanos())
}

/// Goal: a statement that computes for long lets the others have their turns.
#[tokio::test]
async fn a_long_statement_holds_nobody_up() {
    let mut world = World::start().await;
    world.commit_once((1..=1_000).map(insert).collect::<Vec<_>>()).await.unwrap();
    let sql = "SELECT COUNT(*) FROM users AS a, users AS b WHERE MOD(a.id * b.id, 7) = 3";
    let request = world.statement(sql);
    let mut client = world.client.clone();
    let long = tokio::spawn(async move { client.execute_sql(request).await });
    let mut client = world.client.clone();
    for _ in 0..3 {
        let short = proto::GetSessionRequest { name: world.session.clone() };
        client.get_session(short).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert!(!long.is_finished(), "the short requests waited for the long one");
    assert_eq!(rows(&long.await.unwrap().unwrap().into_inner()), ["122694"]);
}

/// Goal: ten thousand statements in one transaction cost what ten thousand cost, not their square.
#[tokio::test]
async fn statements_in_one_transaction_cost_the_same_however_many_came_before() {
    let mut world = World::start().await;
    let id = world.begin_read_write().await;
    let mut batch = |seqno: i64| {
        let statement = |number: i64| proto::execute_batch_dml_request::Statement {
            sql: format!("INSERT INTO users (id) VALUES ({})", seqno * 1_000 + number),
            ..Default::default()
        };
        proto::ExecuteBatchDmlRequest {
            session: world.session.clone(),
            transaction: selected(Selector::Id(id.clone())),
            statements: (0..1_000).map(statement).collect(),
            seqno,
            ..Default::default()
        }
    };
    let batches: Vec<_> = (1..=8).map(&mut batch).collect();
    let mut took = Vec::new();
    for batch in batches {
        let before = computed();
        let done = world.client.execute_batch_dml(batch).await.unwrap().into_inner();
        assert_eq!(done.status.unwrap().code, 0);
        took.push(computed() - before);
    }
    // With copies of all that was written before, the last took fifteen times the first.
    let (first, last) = (took[..2].iter().min().unwrap(), took[6..].iter().min().unwrap());
    assert!(*last < *first * 5, "{took:?}");
}

#[tokio::test]
async fn the_key_of_an_index_is_as_short_as_that_of_a_table() {
    let mut world = with_table(
        "CREATE TABLE T (k STRING(MAX), s STRING(MAX)) PRIMARY KEY (k); CREATE INDEX I ON T (s)",
    )
    .await;
    let row = |key: &str, length| {
        let values = [text(key), text("x".repeat(length))];
        [mutation(Operation::Insert(write("T", ["k", "s"], values)))]
    };
    world.commit_once(row("a", 8_191)).await.unwrap();
    assert_eq!(code(world.commit_once(row("b", 8_192)).await), Code::InvalidArgument);
}
