//! Transactions: how they begin, end, and what they answer afterwards.

use proto::transaction_options::IsolationLevel;

use super::*;

#[tokio::test]
async fn a_commit_needs_a_transaction_and_a_rollback_none() {
    let mut world = World::start().await;
    let request = proto::CommitRequest { session: world.session.clone(), ..Default::default() };
    let error = world.client.commit(request).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    let single_use = Wanted::SingleUseTransaction(read_only(ReadOnly::default()));
    assert_eq!(code(world.commit_as(single_use, []).await), Code::FailedPrecondition);
    assert_eq!(code(world.commit(b"no transaction", []).await), Code::NotFound);
    for unknown in [b"999999".as_slice(), b"no transaction"] {
        world.rollback(unknown).await.unwrap();
    }
    let own = world.begin_read_write().await;
    let unknown = [b"9".as_slice(), &own].concat();
    assert_eq!(code(world.commit(&unknown, []).await), Code::NotFound);
    world.rollback(&unknown).await.unwrap();
}

#[tokio::test]
async fn a_failed_commit_frees_its_locks() {
    let mut world = World::start().await;
    world.commit_once([insert(1)]).await.unwrap();
    let id = world.begin_read_write().await;
    world.users(Some(Selector::Id(id.clone()))).await.unwrap();
    assert_eq!(code(world.commit(&id, [insert(1)]).await), Code::AlreadyExists);
    at_once(world.commit_once([update(1, "a")])).await;
}

#[tokio::test]
async fn a_transaction_begun_inline_is_told_in_the_reply() {
    let mut world = World::start().await;
    let reply = world.users(Some(Selector::Begin(read_write()))).await.unwrap();
    let begun = reply.metadata.unwrap().transaction.unwrap();
    assert!(begun.read_timestamp.is_none());
    world.commit(&begun.id, [insert(1)]).await.unwrap();

    let returning = ReadOnly { return_read_timestamp: true, ..Default::default() };
    let reply = world.users(Some(Selector::Begin(read_only(returning)))).await.unwrap();
    let begun = reply.metadata.unwrap().transaction.unwrap();
    assert!(begun.read_timestamp.is_some());
    world.commit_once([insert(2)]).await.unwrap();
    let again = world.users(Some(Selector::Id(begun.id))).await.unwrap();
    assert_eq!(again.rows.len(), 1, "the same moment as before");
}

#[tokio::test]
async fn an_older_transaction_wins_and_the_younger_is_told_when_to_retry() {
    let mut world = World::with_session(true).await;
    world.commit_once([insert(1)]).await.unwrap();
    let (older, younger) = (world.begin_read_write().await, world.begin_read_write().await);
    let older_read = world.users(Some(Selector::Id(older.clone()))).await.unwrap();
    world.users(Some(Selector::Id(younger.clone()))).await.unwrap();
    let request = proto::CommitRequest {
        precommit_token: older_read.precommit_token,
        ..world.commit_request(Wanted::TransactionId(older), [update(1, "older")])
    };
    world.client.commit(request).await.unwrap();
    let error = world.users(Some(Selector::Id(younger))).await.unwrap_err();
    assert_eq!(error.code(), Code::Aborted);
    let (kind, detail) = details(&error).remove(0);
    assert!(kind.ends_with("google.rpc.RetryInfo"));
    let trailer = error.metadata().get_bin("google.rpc.retryinfo-bin").unwrap().to_bytes().unwrap();
    assert_eq!(trailer, detail);
    assert!(rpc::RetryInfo::decode(detail.as_slice()).unwrap().retry_delay.is_some());
}

#[tokio::test]
async fn a_classic_session_has_one_read_write_transaction_at_a_time() {
    let mut world = World::start().await;
    let first = world.begin_read_write().await;
    world.users(Some(Selector::Id(first.clone()))).await.unwrap();
    let second = world.begin_read_write().await;
    assert_eq!(code(world.commit(&first, [insert(1)]).await), Code::FailedPrecondition);
    world.commit(&second, [insert(2)]).await.unwrap();
}

#[tokio::test]
async fn a_write_on_a_multiplexed_session_needs_the_token_of_its_transaction() {
    let mut world = World::with_session(true).await;
    let request = proto::BeginTransactionRequest {
        session: world.session.clone(),
        options: Some(read_write()),
        mutation_key: Some(insert(1)),
        ..Default::default()
    };
    let begun = world.client.begin_transaction(request).await.unwrap().into_inner();
    let token = begun.precommit_token.unwrap();
    assert!(!token.precommit_token.is_empty(), "empty ones break clients");
    let read = world.users(Some(Selector::Id(begun.id.clone()))).await.unwrap();
    let newer = read.precommit_token.unwrap();
    assert!(newer.seq_num > token.seq_num);

    let mut request = proto::CommitRequest {
        precommit_token: Some(newer),
        ..world.commit_request(Wanted::TransactionId(begun.id), [insert(1)])
    };
    world.client.commit(request.clone()).await.unwrap();

    let other = world.begin_read_write().await;
    request.transaction = Some(Wanted::TransactionId(other));
    request.precommit_token = None;
    let error = world.client.commit(request).await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);

    // It has been told the token if it has read or written; else it has nothing to bring.
    let third = world.begin_read_write().await;
    world.write(&third, 1, "DELETE FROM users WHERE id = 1").await.unwrap();
    assert_eq!(code(world.commit(&third, []).await), Code::FailedPrecondition);
    assert_eq!(world.ids().await, ["1"]);
    let fourth = world.begin_read_write().await;
    world.commit(&fourth, []).await.unwrap();

    // Some clients look for the token of a batch beside its results, and others in the first.
    let fifth = world.begin_read_write().await;
    let delete = "DELETE FROM users WHERE id = 1";
    let reply = world.batch(&fifth, 1, &[delete, delete]).await.unwrap();
    let tokens = reply.result_sets.into_iter().map(|result| result.precommit_token);
    assert!(reply.precommit_token.is_some());
    assert_eq!(tokens.collect::<Vec<_>>(), [reply.precommit_token, None]);
}

#[tokio::test]
async fn a_transaction_belongs_to_the_session_that_began_it() {
    let mut world = World::start().await;
    let id = world.begin_read_write().await;
    let read_only = world.begin(Mode::ReadOnly(ReadOnly::default())).await.unwrap().id;
    let own = world.change_session().await;
    for id in [&id, &read_only] {
        assert_eq!(code(world.users(Some(Selector::Id(id.clone()))).await), Code::NotFound);
        assert_eq!(code(world.commit(id, [insert(1)]).await), Code::NotFound);
        world.rollback(id).await.unwrap();
    }
    world.session = own;
    world.users(Some(Selector::Id(read_only))).await.unwrap();
    world.commit(&id, [insert(2)]).await.unwrap();
    assert_eq!(world.ids().await, ["2"]);
}

#[tokio::test]
async fn what_is_not_offered_is_refused_by_name() {
    let mut world = World::start().await;
    let request = proto::BeginTransactionRequest {
        session: world.session.clone(),
        options: Some(proto::TransactionOptions {
            isolation_level: IsolationLevel::RepeatableRead as i32,
            ..read_write()
        }),
        ..Default::default()
    };
    let error = world.client.begin_transaction(request).await.unwrap_err();
    assert_eq!(error.code(), Code::Unimplemented);
    assert!(error.message().contains("REPEATABLE_READ"), "{error}");
    let error = world.client.partition_read(proto::PartitionReadRequest::default()).await;
    assert_eq!(error.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test]
async fn a_timestamp_bound_that_may_move_is_for_single_use_only() {
    let mut world = World::start().await;
    let second = prost_types::Duration { seconds: 1, nanos: 0 };
    for bound in [
        TimestampBound::MaxStaleness(second),
        TimestampBound::MinReadTimestamp(prost_types::Timestamp { seconds: 1, nanos: 0 }),
    ] {
        let bounded = ReadOnly { timestamp_bound: Some(bound), ..Default::default() };
        let begun = world.begin(Mode::ReadOnly(bounded)).await;
        assert_eq!(code(begun), Code::InvalidArgument);
        world.users(Some(Selector::SingleUse(read_only(bounded)))).await.unwrap();
    }
}

#[tokio::test]
async fn a_request_that_runs_out_of_time_stops_waiting_and_is_not_applied() {
    let mut world = World::start().await;
    world.commit_once([insert(1)]).await.unwrap();
    let holder = world.begin_read_write().await;
    world.users(Some(Selector::Id(holder.clone()))).await.unwrap();
    let once = Wanted::SingleUseTransaction(read_write());
    let mut request = tonic::Request::new(world.commit_request(once, [update(1, "late")]));
    request.metadata_mut().insert("grpc-timeout", "300m".parse().unwrap());
    let error = world.client.commit(request).await.unwrap_err();
    // Client and server both keep the time, and the client calls it by another name.
    assert!(matches!(error.code(), Code::DeadlineExceeded | Code::Cancelled), "{error}");
    world.rollback(&holder).await.unwrap();
    let names = world.read("users", &["name"], all(), None).await.unwrap();
    assert_eq!(rows(&names), ["NULL"]);
}
