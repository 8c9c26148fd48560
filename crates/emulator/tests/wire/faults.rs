//! The requests that a fault meets.

use spindle_emulator::{Effect, Fault, FaultHandle, Rpc};

use super::*;

fn refuse(world: &World, fault: Fault) -> FaultHandle {
    world.emulator.inject(fault.effect(Effect::Fail(spindle_emulator::engine::Code::Unknown)))
}

/// A transaction in which this statement has run.
async fn after(world: &mut World, sql: &str) -> Vec<u8> {
    let id = world.begin_read_write().await;
    let statement = proto::ExecuteSqlRequest {
        transaction: selected(Selector::Id(id.clone())),
        seqno: 1,
        ..world.statement(sql)
    };
    world.client.execute_sql(statement).await.unwrap();
    id
}

#[tokio::test]
async fn a_fault_on_a_table_meets_the_commit_of_what_statements_wrote() {
    let mut world = World::start().await;
    world.commit_once([insert(7)]).await.unwrap();
    for (sql, key, is_met) in [
        ("INSERT INTO users (id) VALUES (1)", None, true),
        ("INSERT INTO users (id) VALUES (1)", Some("1"), true),
        ("INSERT INTO users (id) VALUES (1)", Some("7"), false),
        ("DELETE FROM users WHERE id = 7", Some("7"), true),
        ("UPDATE users SET age = 3 WHERE id = 8", None, false),
        ("INSERT INTO singleton (value) VALUES ('users')", None, false),
    ] {
        let id = after(&mut world, sql).await;
        let fault = Fault::on(Rpc::Commit).table("Users");
        let fault = refuse(&world, key.into_iter().fold(fault, Fault::key));
        let answer = world.commit(&id, []).await;
        assert_eq!((answer.is_err(), fault.hits()), (is_met, u64::from(is_met)), "{sql} {key:?}");
        fault.remove();
        let _ = world.rollback(&id).await;
        world
            .commit_once([mutation(Operation::Delete(proto::mutation::Delete {
                table: "singleton".into(),
                key_set: Some(all()),
            }))])
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_fault_on_statements_meets_each_of_their_methods_and_no_other() {
    let mut world = World::start().await;
    let lost = Effect::Fail(spindle_emulator::engine::Code::DataLoss);
    let fault = world.emulator.inject(Fault::on_statements().effect(lost));
    let id = world.begin_read_write().await;
    let transaction = selected(Selector::Id(id.clone()));
    let one = proto::ExecuteSqlRequest { transaction, ..world.statement("SELECT 1") };
    assert_eq!(code(world.client.execute_sql(one.clone()).await), Code::DataLoss);
    let streamed = world.client.execute_streaming_sql(one.clone()).await;
    let streamed = match streamed {
        Ok(stream) => stream.into_inner().message().await.map(drop),
        Err(error) => Err(error),
    };
    assert_eq!(code(streamed), Code::DataLoss);
    let batch = proto::ExecuteBatchDmlRequest {
        session: one.session.clone(),
        transaction: one.transaction.clone(),
        ..Default::default()
    };
    assert_eq!(code(world.client.execute_batch_dml(batch).await), Code::DataLoss);
    world.users(None).await.unwrap();
    world.commit(&id, [insert(1)]).await.unwrap();
    assert_eq!(fault.hits(), 3);
}

#[tokio::test]
async fn a_commit_that_is_repeated_meets_the_same_faults() {
    let mut world = World::start().await;
    let id = after(&mut world, "INSERT INTO users (id) VALUES (1)").await;
    let commit = Fault::on(Rpc::Commit).table("users").key("1").times(2);
    let unheard = Effect::FailAfterApplying(spindle_emulator::engine::Code::Unavailable);
    let unheard = world.emulator.inject(commit.effect(unheard));
    for hits in [1, 2] {
        assert_eq!(code(world.commit(&id, []).await), Code::Unavailable);
        assert_eq!((unheard.hits(), world.ids().await), (hits, vec!["1".to_owned()]));
    }
    world.commit(&id, []).await.unwrap();
}

#[tokio::test]
async fn a_fault_meets_requests_by_either_tag() {
    let mut world = World::start().await;
    let tagged = |transaction: &str, request: &str| {
        Some(proto::RequestOptions {
            transaction_tag: transaction.into(),
            request_tag: request.into(),
            ..Default::default()
        })
    };
    let fault = refuse(&world, Fault::any().tag("app=billing"));
    for (options, is_met) in [
        (None, false),
        (tagged("", ""), false),
        (tagged("app=billing,part=2", "app"), false),
        (tagged("app=billing", ""), true),
        (tagged("", "app=billing"), true),
    ] {
        let read = proto::ReadRequest {
            request_options: options.clone(),
            ..world.read_request("users", &["id"])
        };
        let statement = proto::ExecuteSqlRequest {
            request_options: options.clone(),
            ..world.statement("SELECT 1")
        };
        let batch = proto::ExecuteBatchDmlRequest {
            session: world.session.clone(),
            transaction: selected(Selector::Begin(read_write())),
            request_options: options.clone(),
            ..Default::default()
        };
        let begin = proto::BeginTransactionRequest {
            session: world.session.clone(),
            options: Some(read_write()),
            request_options: options.clone(),
            ..Default::default()
        };
        let commit = proto::CommitRequest {
            request_options: options,
            ..world.commit_request(Wanted::SingleUseTransaction(read_write()), [])
        };
        let before = fault.hits();
        let client = &mut world.client;
        let codes = [
            client.read(read).await.err().map(|status| status.code()),
            client.execute_sql(statement).await.err().map(|status| status.code()),
            client.execute_batch_dml(batch).await.err().map(|status| status.code()),
            client.begin_transaction(begin).await.err().map(|status| status.code()),
            client.commit(commit).await.err().map(|status| status.code()),
        ];
        let met = codes.iter().filter(|code| **code == Some(Code::Unknown)).count() as u64;
        assert_eq!(met, if is_met { 5 } else { 0 }, "{codes:?}");
        assert_eq!(fault.hits() - before, met);
    }
}

#[tokio::test]
async fn the_read_timestamp_is_hidden_wherever_it_is_asked_for() {
    let mut world = World::start().await;
    let asks = ReadOnly { return_read_timestamp: true, ..Default::default() };
    let once = Selector::SingleUse(read_only(asks));
    for is_hidden in [false, true] {
        if is_hidden {
            world.emulator.inject(Fault::any().effect(Effect::HideReadTimestamp));
        }
        let transaction = selected(once.clone());
        let query = proto::ExecuteSqlRequest { transaction, ..world.statement("SELECT 1") };
        let query = world.client.execute_sql(query).await.unwrap().into_inner();
        let read = world.users(Some(once.clone())).await.unwrap();
        let begun = world.begin(Mode::ReadOnly(asks)).await.unwrap();
        let [query, read] = [query, read].map(|result| result.metadata.unwrap().transaction);
        for transaction in [query, read, Some(begun)] {
            let told = transaction.and_then(|transaction| transaction.read_timestamp);
            assert_eq!(told.is_none(), is_hidden, "{told:?}");
        }
    }
}

#[tokio::test]
async fn an_injected_error_of_a_stream_comes_after_its_beginning() {
    let mut world = World::start().await;
    for effect in [Effect::Abort, Effect::Fail(spindle_emulator::engine::Code::Unavailable)] {
        world.emulator.inject(Fault::on_statements().times(1).effect(effect));
        let query = world.statement("SELECT 1");
        let stream = world.client.execute_streaming_sql(query).await;
        stream.expect("the reply begins").into_inner().message().await.unwrap_err();
    }
}

#[tokio::test]
async fn a_fault_that_can_meet_nothing_is_refused() {
    let world = World::start().await;
    let refusal = |fault: Fault| {
        let inject = std::panic::AssertUnwindSafe(|| world.emulator.inject(fault));
        *std::panic::catch_unwind(inject).unwrap_err().downcast::<String>().unwrap()
    };
    let missing = refusal(Fault::on(Rpc::Commit).table("user"));
    assert!(missing.contains("the table `user`: no database has it"), "{missing}");
    assert!(missing.contains("events, singleton, things, users."), "{missing}");
    assert!(refusal(Fault::any().tag("")).contains("empty tag"));
    for probability in [-0.1, 1.1, f64::NAN] {
        let refused = refusal(Fault::any().probability(probability, 1));
        assert!(refused.contains("between 0 and 1"), "{refused}");
    }
    for (gap, fault) in [
        ("it is over before the first", Fault::any().times(0)),
        ("names no row", Fault::on_statements().key("1")),
        ("names no row", Fault::on(Rpc::ExecuteBatchDml).key("1")),
        ("names no table", Fault::on(Rpc::Rollback).table("users")),
        ("has no tag", Fault::on(Rpc::Rollback).tag("a")),
        ("has no session", Fault::on(Rpc::CreateSession).session("s")),
    ] {
        let refused = refusal(fault.clone());
        assert!(refused.contains(gap), "{fault:?}: {refused}");
    }
    for fault in [
        Fault::any().key("1").session("s").tag("a").table("users"),
        Fault::on_statements().session("s").tag("a").table("users"),
        Fault::on(Rpc::BeginTransaction).key("1"),
        Fault::on(Rpc::Rollback).session("s"),
    ] {
        world.emulator.inject(fault);
    }
    for table in ["USERS", "information_schema", "Columns"] {
        world.emulator.inject(Fault::any().table(table).probability(0.0, 1));
    }
    world.emulator.create_database("projects/p/instances/i/databases/e", "").await.unwrap();
    world.emulator.inject(Fault::any().table("users").probability(1.0, 1));
}

/// Returns which of so many requests are met.
async fn met(world: &mut World, requests: usize) -> Vec<bool> {
    let mut met = Vec::new();
    for _ in 0..requests {
        met.push(world.users(None).await.is_err());
    }
    met
}

#[tokio::test]
async fn a_fault_meets_as_many_requests_as_it_says_after_those_it_lets_pass() {
    let mut world = World::start().await;
    let fault = refuse(&world, Fault::on(Rpc::Read).skip(2).times(3));
    let expected = [false, false, true, true, true, false, false];
    assert_eq!((met(&mut world, 7).await, fault.hits()), (expected.to_vec(), 3));
    refuse(&world, Fault::on(Rpc::Commit));
    assert_eq!(met(&mut world, 1).await, [false]);
}

#[tokio::test]
async fn a_seed_determines_which_requests_are_met() {
    let mut sequences = Vec::new();
    for seed in [7, 7, 8] {
        let mut world = World::start().await;
        refuse(&world, Fault::on(Rpc::Read).probability(0.3, seed));
        sequences.push(met(&mut world, 300).await);
    }
    assert_eq!(sequences[0], sequences[1]);
    assert_ne!(sequences[0], sequences[2]);
    let met = sequences[0].iter().filter(|met| **met).count();
    assert!((60..120).contains(&met), "{met}");
}

#[tokio::test]
async fn removing_a_fault_ends_it_and_dropping_its_handle_does_not() {
    let mut world = World::start().await;
    drop(refuse(&world, Fault::on(Rpc::Read)));
    assert_eq!(met(&mut world, 1).await, [true]);
    let fault = refuse(&world, Fault::on(Rpc::Read));
    world.emulator.clear_faults();
    assert_eq!(met(&mut world, 1).await, [false]);
    fault.remove();
    let fault = refuse(&world, Fault::on(Rpc::Read));
    fault.remove();
    assert_eq!(met(&mut world, 1).await, [false]);
}
