//! Lock names are data: any text, and none of them in another's way.

use std::collections::BTreeSet;

use tokio::time::sleep;

use crate::world::{Contender, LEASE, World, lock_of};

#[tokio::test(start_paused = true)]
async fn locks_of_any_name_live_side_by_side() {
    let world = World::start().await;
    let long = "n".repeat(1_000);
    let names = ["job", "job_1", "job_daily", "shard_0", "o'brien", "line\nbreak", &long];
    let run = |id: &str| -> Vec<Contender> {
        names.iter().map(|name| Contender::run(lock_of(&world.table(), *name).id(id))).collect()
    };
    let first = run("a");
    for contender in &first {
        contender.holds().await;
    }
    let second = run("b");
    sleep(LEASE).await;
    let tokens: Vec<_> = first.iter().map(|it| it.lock.has_lock().unwrap()).collect();

    // One changes hands, again and again; the others never notice (I6).
    for round in 0..4 {
        let (holder, other) =
            if round % 2 == 0 { (&first[0], &second[0]) } else { (&second[0], &first[0]) };
        holder.lock.resign().await.unwrap();
        other.holds().await;
        sleep(LEASE).await;
    }
    for (contender, token) in first.iter().zip(&tokens).skip(1) {
        assert_eq!(contender.lock.has_lock(), Some(*token), "{:?}", contender.lock.name());
    }
    let found: BTreeSet<_> = world.names().into_iter().collect();
    for name in names {
        assert!(found.contains(name), "{name:?} is gone: {found:?}");
    }

    // Each is handed over by its own release.
    for contender in first {
        contender.stop().await;
    }
    for contender in &second {
        contender.holds().await;
    }
}
