//! How an emulator begins and ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use spindle_emulator::{Effect, Fault, Rpc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::*;

/// Repeats a request until it is answered: a client learns late that its connection has ended.
async fn answers<T>(mut request: impl AsyncFnMut() -> Result<T, Status>) {
    let answered = async { while request().await.is_err() {} };
    timeout(Duration::from_secs(30), answered).await.unwrap();
}

fn alive_tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

#[tokio::test]
async fn stopping_ends_every_task_and_frees_the_port() {
    let before = alive_tasks();
    // Bound without listening, so that the system gives the port to nobody between the two emulators.
    let reserved = TcpSocket::new_v4().unwrap();
    reserved.set_reuseaddr(true).unwrap();
    reserved.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = reserved.local_addr().unwrap();
    let port = address.port();
    let emulator = Emulator::builder().port(port).control(0).start().await.unwrap();
    let control = emulator.control_endpoint().unwrap();
    let mut half_a_request = TcpStream::connect(address).await.unwrap();
    half_a_request.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
    let _idle = TcpStream::connect(control.strip_prefix("http://").unwrap()).await.unwrap();
    // Both connections have arrived once their tasks are there, besides the three that accept.
    while alive_tasks() < before + 5 {
        tokio::task::yield_now().await;
    }
    emulator.stop().await;
    assert_eq!(alive_tasks(), before);
    let again = Emulator::builder().port(port).start().await.unwrap();
    assert_eq!(again.address(), address);
}

#[tokio::test]
async fn dropping_an_emulator_stops_it() {
    let before = alive_tasks();
    let emulator = Emulator::start().await.unwrap();
    let _connection = TcpStream::connect(emulator.address()).await.unwrap();
    drop(emulator);
    let ended = async {
        while alive_tasks() > before {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), ended).await.unwrap();
}

#[tokio::test]
async fn a_request_that_is_stalled_ends_with_the_emulator() {
    let mut world = World::start().await;
    let stall = Fault::on(Rpc::Commit).effect(Effect::Stall);
    let stalled = world.emulator.inject(stall);
    let mut client = world.client.clone();
    let request = world.commit_request(Wanted::SingleUseTransaction(read_write()), []);
    let waiting = tokio::spawn(async move { client.commit(request).await });
    while stalled.hits() == 0 {
        tokio::task::yield_now().await;
    }
    world.users(None).await.unwrap();
    world.emulator.stop().await;
    assert!(waiting.await.unwrap().is_err());
}

#[tokio::test]
async fn emulators_in_one_process_do_not_disturb_each_other() {
    let (mut one, mut other) = (World::start().await, World::start().await);
    one.commit_once([insert(1)]).await.unwrap();
    other.emulator.inject(Fault::on(Rpc::Commit));
    assert_eq!(code(other.commit_once([insert(2)]).await), Code::Unavailable);
    one.commit_once([insert(3)]).await.unwrap();
    assert!(other.ids().await.is_empty());
    one.emulator.advance(Duration::from_secs(86_400));
    assert_eq!(code(one.users(None).await), Code::NotFound, "its session is a day old");
    other.users(None).await.unwrap();
}

#[tokio::test]
async fn a_broken_request_harms_nobody_else() {
    let mut world = World::start().await;
    let mut garbage = TcpStream::connect(world.emulator.address()).await.unwrap();
    garbage.write_all(&[0xff; 4096]).await.unwrap();
    let huge = "(".repeat(200_000);
    let request = world.statement(&format!("SELECT {huge}"));
    assert!(world.client.execute_sql(request).await.is_err());
    world.users(None).await.unwrap();
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

#[tokio::test]
async fn requests_that_are_given_up_before_they_are_read_do_not_end_their_connection() {
    let [headers, reset, settings, ping, go_away] = [1, 3, 4, 6, 7];
    let emulator = Emulator::start().await.unwrap();
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    sent.extend(frame(settings, 0, 0, &[]));
    for stream in (1..400).step_by(2) {
        // POST, http and the path /, in a single frame; then CANCEL.
        sent.extend(frame(headers, 4, stream, &[0x83, 0x86, 0x84]));
        sent.extend(frame(reset, 0, stream, &8_u32.to_be_bytes()));
    }
    sent.extend(frame(ping, 0, 0, &[7; 8]));
    let mut connection = TcpStream::connect(emulator.address()).await.unwrap();
    connection.write_all(&sent).await.unwrap();
    let mut kinds = Vec::new();
    while kinds.last() != Some(&ping) {
        let mut head = [0; 9];
        connection.read_exact(&mut head).await.unwrap_or_else(|end| panic!("{kinds:?}: {end}"));
        let mut payload = vec![0; usize::from(head[2]) + 256 * usize::from(head[1])];
        connection.read_exact(&mut payload).await.unwrap();
        kinds.push(head[3]);
    }
    assert!(!kinds.contains(&go_away), "{kinds:?}");
}

#[tokio::test]
async fn one_client_is_cut_off_and_restored() {
    let mut world = World::start().await;
    let port = world.emulator.open_port().await.unwrap();
    let mut other = SpannerClient::new(connected(port.endpoint()).await);
    let request = || proto::GetSessionRequest { name: world.session.clone() };
    other.get_session(request()).await.unwrap();
    port.cut_off().await;
    assert!(other.get_session(request()).await.is_err());
    world.client.get_session(request()).await.unwrap();
    port.restore().await.unwrap();
    other.get_session(request()).await.unwrap();
    world.commit_once([insert(1)]).await.unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_port_that_is_shut_is_given_to_nobody_else_until_it_closes() {
    let world = World::start().await;
    let port = world.emulator.open_port().await.unwrap();
    let is_free = |address| TcpSocket::new_v4().unwrap().bind(address).is_ok();
    // Another test may be given the port for a while.
    let frees = async |address| {
        let free = async {
            while !is_free(address) {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(30), free).await.unwrap();
    };
    port.cut_off().await;
    assert!(!is_free(port.address()));
    port.restore().await.unwrap();
    world.emulator.pause().await;
    assert!(!is_free(port.address()));
    world.emulator.resume().await.unwrap();
    let address = port.address();
    drop(port);
    frees(address).await;
    // Without a connection, whose remains would keep the port for a while.
    let stopped = Emulator::start().await.unwrap();
    let address = stopped.address();
    stopped.stop().await;
    frees(address).await;
}

#[tokio::test]
async fn a_pause_and_a_restart_close_every_door() {
    let world = World::start().await;
    let port = world.emulator.open_port().await.unwrap();
    let shut = world.emulator.open_port().await.unwrap();
    shut.cut_off().await;
    let reached = async |port: &spindle_emulator::Port| {
        tokio::net::TcpStream::connect(port.address()).await.is_ok()
    };
    let mut client = SpannerClient::new(connected(port.endpoint()).await);
    let get = proto::GetSessionRequest { name: world.session.clone() };
    client.get_session(get.clone()).await.unwrap();

    world.emulator.pause().await;
    assert!(client.get_session(get.clone()).await.is_err());
    assert!(!reached(&port).await);
    let late = world.emulator.open_port().await.unwrap();
    assert!(!reached(&late).await, "a port that is made meanwhile");
    shut.restore().await.unwrap();
    assert!(!reached(&shut).await, "let back, but the server is paused");
    shut.cut_off().await;

    world.emulator.resume().await.unwrap();
    client.get_session(get.clone()).await.unwrap();
    assert!(reached(&late).await);
    assert!(!reached(&shut).await, "it stays cut off");

    let mut before = tokio::net::TcpStream::connect(port.address()).await.unwrap();
    world.emulator.restart(spindle_emulator::Restart::keep()).await.unwrap();
    let mut rest = Vec::new();
    let ended = tokio::io::AsyncReadExt::read_to_end(&mut before, &mut rest);
    let ended = tokio::time::timeout(std::time::Duration::from_secs(60), ended).await;
    assert!(ended.is_ok(), "the restart breaks the connections of every port");
    answers(async || client.get_session(get.clone()).await).await;
}

/// A process that starts has a copy of every socket until its program runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_finds_its_port_while_processes_start() {
    let emulator = Emulator::start().await.unwrap();
    let enough = Arc::new(AtomicBool::new(false));
    let is_enough = Arc::clone(&enough);
    let starting = std::thread::spawn(move || {
        let mut started = 0;
        while !is_enough.load(Ordering::Relaxed) {
            std::process::Command::new("true").status().unwrap();
            started += 1;
        }
        started
    });
    for _ in 0..500 {
        emulator.restart(spindle_emulator::Restart::keep()).await.unwrap();
    }
    enough.store(true, Ordering::Relaxed);
    assert!(starting.join().unwrap() > 0);
    emulator.stop().await;
}

#[tokio::test]
async fn a_restart_that_nobody_waits_for_is_finished() {
    let mut world = World::start().await;
    {
        let restart = world.emulator.restart(spindle_emulator::Restart::keep());
        tokio::select! {
            biased;
            _ = restart => panic!("it is done at once"),
            () = std::future::ready(()) => {}
        }
    }
    answers(async || world.users(None).await).await;
}

#[tokio::test]
async fn a_copy_of_a_database_goes_its_own_way() {
    let mut world = World::start().await;
    world.commit_once([insert(1)]).await.unwrap();
    let open = world.begin_read_write().await;
    world.users(Some(Selector::Id(open.clone()))).await.unwrap();
    let name = "projects/p/instances/i/databases/copy";
    let copy = world.emulator.copy_database(DATABASE, name).unwrap();
    // No lock of the one is in the way of the other.
    let row = [("id", 2.into())];
    let insert_two = spindle_emulator::engine::Mutation::write(
        spindle_emulator::engine::WriteKind::Insert,
        "users",
        row,
    );
    copy.apply(&[insert_two]).await.unwrap();
    assert_eq!((world.ids().await, copy.rows("users").unwrap().len()), (vec!["1".into()], 2));
    world.commit(&open, [insert(3)]).await.unwrap();
    assert_eq!((world.ids().await.len(), copy.rows("users").unwrap().len()), (2, 2));
    assert!(world.emulator.copy_database(DATABASE, name).is_err());
}
