//! Sessions.

use std::collections::HashSet;
use std::time::Duration;

use super::*;

async fn create(world: &mut World, database: &str) -> Result<proto::Session, Status> {
    let labels = [("team".to_owned(), "billing".to_owned())].into();
    let request = proto::CreateSessionRequest {
        database: database.into(),
        session: Some(proto::Session { labels, ..Default::default() }),
    };
    Ok(world.client.create_session(request).await?.into_inner())
}

async fn get(world: &mut World, name: &str) -> Result<proto::Session, Status> {
    let request = proto::GetSessionRequest { name: name.into() };
    Ok(world.client.get_session(request).await?.into_inner())
}

async fn delete(world: &mut World, name: &str) -> Result<(), Status> {
    let request = proto::DeleteSessionRequest { name: name.into() };
    world.client.delete_session(request).await.map(|_| ())
}

async fn batch(world: &mut World, count: i32) -> Result<Vec<String>, Status> {
    let request = proto::BatchCreateSessionsRequest {
        database: DATABASE.into(),
        session_count: count,
        ..Default::default()
    };
    let reply = world.client.batch_create_sessions(request).await?.into_inner();
    Ok(reply.session.into_iter().map(|session| session.name).collect())
}

async fn page(world: &mut World, size: i32, token: &str) -> proto::ListSessionsResponse {
    let request = proto::ListSessionsRequest {
        database: DATABASE.into(),
        page_size: size,
        page_token: token.into(),
        ..Default::default()
    };
    world.client.list_sessions(request).await.unwrap().into_inner()
}

#[tokio::test]
async fn a_session_is_named_after_its_database_and_knows_its_times() {
    let mut world = World::start().await;
    let session = create(&mut world, DATABASE).await.unwrap();
    assert!(session.name.starts_with(&format!("{DATABASE}/sessions/")));
    assert!(session.create_time.is_some() && session.approximate_last_use_time.is_some());
    assert_eq!(session.labels["team"], "billing");
    let found = get(&mut world, &session.name).await.unwrap();
    assert_eq!(found.labels["team"], "billing");
}

#[tokio::test]
async fn a_session_needs_a_database_that_is_there() {
    let mut world = World::start().await;
    let missing = create(&mut world, "projects/p/instances/i/databases/none").await.unwrap_err();
    assert_eq!(missing.code(), Code::NotFound);
    assert!(details(&missing)[0].0.ends_with("google.rpc.ResourceInfo"));
    assert_eq!(code(create(&mut world, "database/d").await), Code::InvalidArgument);
}

#[tokio::test]
async fn a_deleted_session_is_gone_and_can_be_deleted_again() {
    let mut world = World::start().await;
    let name = create(&mut world, DATABASE).await.unwrap().name;
    delete(&mut world, &name).await.unwrap();
    assert_eq!(code(get(&mut world, &name).await), Code::NotFound);
    delete(&mut world, &name).await.unwrap();
}

#[tokio::test]
async fn a_name_that_can_be_no_session_is_refused() {
    let mut world = World::start().await;
    assert_eq!(code(get(&mut world, "").await), Code::InvalidArgument);
    assert_eq!(code(delete(&mut world, "").await), Code::InvalidArgument);
}

#[tokio::test]
async fn a_missing_session_is_named_in_the_details_and_in_a_trailer() {
    let mut world = World::start().await;
    world.session = format!("{DATABASE}/sessions/none");
    let error = world.users(None).await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
    assert_eq!(error.message(), format!("Session not found: {}", world.session));
    let (kind, detail) = details(&error).remove(0);
    assert!(kind.ends_with("google.rpc.ResourceInfo"));
    let info = rpc::ResourceInfo::decode(detail.as_slice()).unwrap();
    assert_eq!(info.resource_name, world.session);
    assert!(error.metadata().get_bin("google.rpc.resourceinfo-bin").is_some());
}

#[tokio::test]
async fn sessions_are_listed_page_by_page() {
    let mut world = World::start().await;
    let mut expected: HashSet<String> = batch(&mut world, 9).await.unwrap().into_iter().collect();
    expected.insert(world.session.clone());
    let (mut listed, mut token) = (HashSet::new(), String::new());
    for size in [4, 3, 2, 1] {
        let reply = page(&mut world, size, &token).await;
        assert_eq!(reply.sessions.len(), size as usize);
        listed.extend(reply.sessions.into_iter().map(|session| session.name));
        token = reply.next_page_token;
    }
    assert_eq!((listed, token), (expected, String::new()));
    let everything = page(&mut world, -1, "").await;
    assert_eq!((everything.sessions.len(), everything.next_page_token), (10, String::new()));
    let (database, filter) = (DATABASE.into(), "labels.env:dev".into());
    let filtered = proto::ListSessionsRequest { database, filter, ..Default::default() };
    assert_eq!(code(world.client.list_sessions(filtered).await), Code::Unimplemented);
}

#[tokio::test]
async fn sessions_come_in_batches_of_at_most_a_hundred() {
    let mut world = World::start().await;
    let distinct: HashSet<String> = batch(&mut world, 10).await.unwrap().into_iter().collect();
    assert_eq!(distinct.len(), 10);
    assert_eq!(code(batch(&mut world, -1).await), Code::InvalidArgument);
    assert_eq!(batch(&mut world, 300).await.unwrap().len(), 100);
}

#[tokio::test]
async fn a_classic_session_ends_an_hour_after_its_last_use_and_a_multiplexed_one_does_not() {
    for (multiplexed, ends) in [(false, true), (true, false)] {
        let mut world = World::with_session(multiplexed).await;
        world.emulator.advance(Duration::from_secs(3_599));
        world.users(None).await.unwrap();
        world.emulator.advance(Duration::from_secs(3_605));
        let outcome = world.users(None).await.map_err(|error| error.code());
        assert_eq!(outcome.err(), ends.then_some(Code::NotFound));
    }
}

#[tokio::test]
async fn sessions_that_are_over_are_forgotten_with_their_counts() {
    let mut world = World::start().await;
    world.users(None).await.unwrap();
    let counts = world.emulator.requests();
    assert_eq!(counts.sessions(), [world.session.clone()]);
    world.emulator.advance(Duration::from_secs(3_605));
    for _ in 0..10 {
        batch(&mut world, 100).await.unwrap();
    }
    assert_eq!(counts.sessions(), [""; 0]);
}

#[tokio::test]
async fn looking_a_session_up_does_not_use_it() {
    let mut world = World::start().await;
    let name = world.session.clone();
    let before = get(&mut world, &name).await.unwrap().approximate_last_use_time;
    world.emulator.advance(Duration::from_secs(10));
    assert_eq!(get(&mut world, &name).await.unwrap().approximate_last_use_time, before);
    world.users(None).await.unwrap();
    assert_ne!(get(&mut world, &name).await.unwrap().approximate_last_use_time, before);
}

#[tokio::test]
async fn deleting_a_session_frees_the_locks_of_its_transaction() {
    let mut world = World::start().await;
    world.commit_once([insert(1)]).await.unwrap();
    let holder = create(&mut world, DATABASE).await.unwrap().name;
    let own = std::mem::replace(&mut world.session, holder.clone());
    let id = world.begin_read_write().await;
    world.users(Some(Selector::Id(id))).await.unwrap();
    world.session = own;
    delete(&mut world, &holder).await.unwrap();
    at_once(world.commit_once([update(1, "a")])).await;
}

#[tokio::test]
async fn dropping_a_database_ends_what_waits_for_its_locks() {
    let mut world = World::start().await;
    world.commit_once([insert(1)]).await.unwrap();
    let reader = world.begin_read_write().await;
    world.users(Some(Selector::Id(reader))).await.unwrap();
    world.change_session().await;
    let commit = world.commit_request(Wanted::SingleUseTransaction(read_write()), [update(1, "a")]);
    let mut client = world.client.clone();
    let mut commit = tokio::spawn(async move { client.commit(commit).await });
    waits(&mut commit).await;
    assert!(world.emulator.drop_database(DATABASE));
    let answer = timeout(Duration::from_secs(5), commit).await.expect("it waits on").unwrap();
    assert_eq!(code(answer), Code::Aborted);
}
