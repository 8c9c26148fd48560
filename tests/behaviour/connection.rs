//! A connection outlives the runtime that made it, and its callers.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use spindle::{Database, LockTable};
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::world::{
    Contender, DATABASE, LEASE, LOCK, TABLE, World, lock_of, reserved, runtime, timed, until,
};

/// The limit that each call documents.
const CALL_LIMIT: Duration = Duration::from_secs(5);

#[test]
fn a_table_works_from_one_runtime_after_another() {
    let (_elsewhere, world) = World::elsewhere(TABLE);
    let table = world.table();
    for _ in 0..3 {
        let runtime = runtime();
        runtime.block_on(table.check()).unwrap();
        runtime.block_on(async {
            let lock = table.lock(LOCK).build().unwrap();
            lock.acquire().await.unwrap().release().await;
        });
    }
    assert_eq!(
        world.spanner.requests().get(Rpc::CreateSession),
        3,
        "one connection for each runtime"
    );
}

#[test]
fn two_runtimes_share_a_table_and_neither_takes_the_other_along() {
    let (_elsewhere, world) = World::elsewhere(TABLE);
    let table = world.table();
    let (first, second) = (runtime(), runtime());
    first.block_on(table.check()).unwrap();
    second.block_on(table.check()).unwrap();
    drop(first);
    second.block_on(table.check()).unwrap();
}

/// As after a suspension, of which a token that is kept knows nothing.
#[tokio::test(start_paused = true)]
async fn a_connection_whose_credential_spanner_refuses_is_replaced_and_the_term_goes_on() {
    let world = World::start().await;
    let a = world.elect("a").await;
    let token = a.lock.has_lock();
    sleep(LEASE * 2).await;
    let session = world.holders_session().await;
    let refused = Fault::any().session(session).effect(Effect::Fail(Code::Unauthenticated));
    world.spanner.inject(refused);
    sleep(LEASE * 2).await;
    assert_eq!(a.lock.has_lock(), token, "{:?}", a.lock.health());
}

#[test]
fn outside_of_a_runtime_it_is_an_error_and_no_panic() {
    let table = LockTable::new(DATABASE, "locktable");
    let mut checking = pin!(table.check());
    let Poll::Ready(checked) = checking.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    else {
        panic!("it waits for a runtime that isn't there")
    };
    let error = checked.unwrap_err();
    assert!(error.is_config() && error.to_string().contains("runtime"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn each_caller_waits_for_a_silent_peer_no_longer_than_its_own_limit() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let table = LockTable::new(Database::at(endpoint, DATABASE), "locktable");
    let asked = [(); 4].map(|()| timed(table.inspect(LOCK)));
    let [a, b, c, d] = asked;
    let (a, b, c, d) = tokio::join!(a, b, c, d);
    for (answer, took) in [a, b, c, d, timed(table.inspect(LOCK)).await] {
        assert!(answer.unwrap_err().is_retryable());
        assert!(took <= CALL_LIMIT + Duration::from_millis(50), "{took:?}");
    }
    let (checked, took) = timed(table.check()).await;
    assert!(checked.unwrap_err().is_retryable());
    assert!(took <= CALL_LIMIT + Duration::from_millis(50), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_comes_up_later_is_reached_by_the_same_table() {
    let world = World::start().await;
    let table = world.table();
    world.spanner.pause().await;
    assert!(table.check().await.unwrap_err().is_retryable());
    world.spanner.resume().await.unwrap();
    sleep(Duration::from_secs(1)).await;
    table.check().await.unwrap();
}

/// Each is tried on the address where nobody, or nobody who speaks gRPC, listens.
#[tokio::test]
async fn an_error_of_the_connection_names_what_was_tried_in_plain_words_and_what_to_do() {
    let (_reserved, nobody) = reserved();
    let http = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other = http.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = http.accept().await.unwrap();
            let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await;
        }
    });
    let (closing, _attempts) = refusing().await;
    for endpoint in [
        format!("http://{nobody}"),
        format!("http://{other}"),
        closing,
        "http://no-such-host.invalid:9010".to_string(),
    ] {
        let table = LockTable::new(Database::at(&endpoint, DATABASE), "locktable");
        let told = table.inspect(LOCK).await.unwrap_err().to_string();
        println!("{told}");
        for part in [DATABASE, &endpoint, "see that the endpoint is right"] {
            assert!(told.contains(part), "{told}");
        }
        for debugging in ["{", "Some(", "Error(", "source:", "\""] {
            assert!(!told.contains(debugging), "{told}");
        }
        assert!(!told.starts_with(char::is_uppercase), "{told}");
    }
}

/// A server that accepts each connection and closes it, and how many it has accepted.
async fn refusing() -> (String, watch::Receiver<u64>) {
    let refusing = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", refusing.local_addr().unwrap());
    let (count, attempts) = watch::channel(0);
    tokio::spawn(async move {
        loop {
            drop(refusing.accept().await.unwrap());
            count.send_modify(|count| *count += 1);
        }
    });
    (endpoint, attempts)
}

#[tokio::test(start_paused = true)]
async fn however_many_locks_ask_one_attempt_a_second_is_made() {
    let (endpoint, attempts) = refusing().await;
    let table = LockTable::new(Database::at(endpoint, DATABASE), "locktable");
    let contenders: Vec<_> =
        (0..50).map(|n| Contender::run(lock_of(&table, format!("lock-{n}")))).collect();
    until("it was tried", || (*attempts.borrow() > 0).then_some(())).await;
    let before = *attempts.borrow();
    sleep(Duration::from_secs(20)).await;
    let made = *attempts.borrow() - before;
    assert!((1..=25).contains(&made), "{made} attempts in 20 s");
    drop(contenders);
}

#[tokio::test(start_paused = true)]
async fn however_often_callers_ask_one_attempt_a_second_is_made() {
    let (endpoint, attempts) = refusing().await;
    let table = LockTable::new(Database::at(endpoint, DATABASE), "locktable");
    let (begun, mut asked) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(20) {
        assert!(table.inspect(LOCK).await.unwrap_err().is_retryable());
        asked += 1;
        sleep(Duration::from_millis(50)).await;
    }
    let made = *attempts.borrow();
    assert!(asked > 100, "an old failure answers at once: {asked} in 20 s");
    assert!((1..=25).contains(&made), "{made} attempts in 20 s");
}
