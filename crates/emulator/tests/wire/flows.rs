//! Connections whose bytes get lost.

use std::time::Duration;

use spindle_emulator::{Effect, Fault, Port, Restart, Rpc};

use super::*;

/// Longer than any request takes, and shorter than a session lasts; on the virtual clock it costs nothing.
const LONG: Duration = Duration::from_secs(600);

async fn client_of(endpoint: String) -> SpannerClient<Channel> {
    SpannerClient::new(connected(endpoint).await)
}

/// Expects no answer, ever.
async fn hears_nothing<T>(request: impl Future<Output = Result<T, Status>>) {
    assert!(timeout(LONG, request).await.is_err(), "it is answered");
}

#[tokio::test(start_paused = true)]
async fn swallowed_connections_stay_silent_and_new_ones_work() {
    let mut world = World::start().await;
    let port = world.emulator.open_port().await.unwrap();
    let get = proto::GetSessionRequest { name: world.session.clone() };
    let mut beside = client_of(port.endpoint()).await;
    beside.get_session(get.clone()).await.unwrap();
    world.users(None).await.unwrap();

    let before = world.emulator.requests().total();
    assert_eq!(world.emulator.swallow_connections().await, 2);
    hears_nothing(beside.get_session(get.clone())).await;
    hears_nothing(world.users(None)).await;
    hears_nothing(world.commit_once([insert(1)])).await;
    assert_eq!(world.emulator.requests().total(), before, "nothing arrives");
    assert_eq!(world.emulator.swallow_connections().await, 0, "those are gone");

    world.client = client_of(world.emulator.endpoint()).await;
    assert!(world.ids().await.is_empty());
    world.commit_once([insert(2)]).await.unwrap();
    let mut beside = client_of(port.endpoint()).await;
    beside.get_session(get).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_under_way_is_applied_and_its_reply_swallowed() {
    let mut world = World::start().await;
    let slow = Fault::on(Rpc::Commit).effect(Effect::Delay(Duration::from_secs(5)));
    let slow = world.emulator.inject(slow);
    let mut client = world.client.clone();
    let commit = world.commit_request(Wanted::SingleUseTransaction(read_write()), [insert(1)]);
    let committing = tokio::spawn(async move { client.commit(commit).await });
    while slow.hits() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.emulator.swallow_connections().await, 1);
    hears_nothing(async { Ok(committing.await) }).await;
    world.client = client_of(world.emulator.endpoint()).await;
    assert_eq!(world.ids().await, ["1"]);
}

#[tokio::test(start_paused = true)]
async fn one_clients_connections_are_swallowed_and_nobody_elses() {
    let mut world = World::start().await;
    let port = world.emulator.open_port().await.unwrap();
    let get = proto::GetSessionRequest { name: world.session.clone() };
    let mut clients = [client_of(port.endpoint()).await, client_of(port.endpoint()).await];
    for client in &mut clients {
        client.get_session(get.clone()).await.unwrap();
    }
    assert_eq!(port.swallow_connections().await, 2);
    for client in &mut clients {
        hears_nothing(client.get_session(get.clone())).await;
    }
    world.users(None).await.unwrap();
    client_of(port.endpoint()).await.get_session(get).await.unwrap();
}

/// Their clients see no end of them: whoever loses the bytes loses that, too.
#[tokio::test(start_paused = true)]
async fn swallowed_connections_outlast_a_restart_and_end_with_the_emulator() {
    let world = World::start().await;
    let port = world.emulator.open_port().await.unwrap();
    let get = proto::GetSessionRequest { name: world.session.clone() };
    let mut client = client_of(port.endpoint()).await;
    client.get_session(get.clone()).await.unwrap();
    assert_eq!(port.swallow_connections().await, 1);
    let end = async |port: &Port| {
        world.emulator.restart(Restart::keep()).await.unwrap();
        port.cut_off().await;
        port.restore().await.unwrap();
    };
    end(&port).await;
    let mut request = Box::pin(client.get_session(get));
    assert!(timeout(LONG, &mut request).await.is_err(), "it learns of the end");
    world.emulator.stop().await;
    assert!(timeout(LONG, request).await.expect("it ends").is_err());
}
