//! Writes: what is accepted, and what becomes of it.

use super::*;

#[tokio::test]
async fn commit_statistics_count_the_cells() {
    let mut world = World::start().await;
    let counted = async |world: &mut World, mutations: Vec<proto::Mutation>| {
        let request = proto::CommitRequest {
            return_commit_stats: true,
            ..world.commit_request(Wanted::SingleUseTransaction(read_write()), mutations)
        };
        let committed = world.client.commit(request).await.unwrap().into_inner();
        committed.commit_stats.unwrap().mutation_count
    };
    assert_eq!(counted(&mut world, vec![insert(1), update(1, "a")]).await, 3);
    // An entry of an index counts when it comes and when it goes.
    change(&world, "CREATE INDEX by_name ON users (name)").unwrap();
    let delete = proto::mutation::Delete { table: "users".into(), key_set: Some(all()) };
    let delete = mutation(Operation::Delete(delete));
    // The second update changes no entry. One deletion of both rows takes both entries along.
    let mutations = [(insert(2), 2), (update(2, "b"), 4), (update(2, "b"), 2), (delete, 3)];
    for (mutation, count) in mutations {
        assert_eq!(counted(&mut world, vec![mutation]).await, count);
    }
}
