//! A process that holds a lock, and its child by `fork`.
//!
//! On one thread, and without the harness of tests, since a child has a copy of the forking thread alone.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(story::a_child_by_fork_sends_nothing_under_its_parents_term());
}

mod story {
    use std::io::{Read as _, Write as _, pipe};
    use std::thread::sleep;
    use std::time::Duration;

    use fork::{Fork, fork, waitpid};
    use futures_util::FutureExt as _;
    use spindle::google_cloud_spanner::client::{DatabaseClient, Spanner};
    use spindle::{Ddl, Error, Fence, Guard, LockTable, Spindle};
    use spindle_emulator::Emulator;

    const DATABASE: &str = "projects/p/instances/i/databases/d";
    const LEASE: Duration = Duration::from_secs(5);

    pub async fn a_child_by_fork_sends_nothing_under_its_parents_term() {
        let emulator = Emulator::start().await.unwrap();
        emulator.create_database(DATABASE, LockTable::ddl(Ddl::GoogleSql)).await.unwrap();
        let spanner = Spanner::builder().with_endpoint(emulator.endpoint()).build().await.unwrap();
        let client = spanner.database_client(DATABASE).build().await.unwrap();
        let table = LockTable::new(client.clone(), "locktable");
        let lock = table.lock("job").lease(LEASE).build().unwrap();
        let guard = lock.acquire().await.unwrap();
        let other = table.lock("second").build().unwrap().acquire().await.unwrap();
        let (mut told, mut tells) = pipe().unwrap();
        match fork().unwrap() {
            Fork::Child => {
                drop(told);
                let seen = child(&lock, [guard, other], &client);
                tells.write_all(seen.as_bytes()).unwrap();
                drop(tells);
                std::process::exit(0);
            }
            Fork::Parent(child) => {
                drop(tells);
                let mut seen = String::new();
                told.read_to_string(&mut seen).unwrap();
                waitpid(child).unwrap();
                assert_eq!(seen, "ok");
            }
        }
        // The child's end took nothing along.
        let here = table.lock("other").build().unwrap().acquire().await.unwrap();
        here.fence().write(&client, []).await.unwrap();
        here.release().await;
        println!("a_child_by_fork_sends_nothing_under_its_parents_term ... ok");
    }

    /// Returns `ok`, or what is wrong in the child. Its runtime is the parent's, and not to be driven.
    fn child(lock: &Spindle, [guard, other]: [Guard; 2], client: &DatabaseClient) -> String {
        if lock.has_lock() != Some(guard.token()) {
            return "the copy of the last heartbeat is gone at once".into();
        }
        let fence = guard.fence();
        let sent = [
            ("write", fence.write(client, []).now_or_never().map(drop_value)),
            ("verify", lock.verify().now_or_never().map(drop_value)),
            ("acquire", lock.acquire().now_or_never().map(drop_value)),
        ];
        for (call, answer) in sent {
            match answer {
                None => return format!("{call} waits for an answer"),
                Some(Ok(())) => return format!("{call} is no error"),
                Some(Err(error)) if !error.is_config() || !says_why(&error) => {
                    return format!("{call}: {error}");
                }
                Some(Err(_)) => {}
            }
        }
        if !matches!(lock.resign().now_or_never(), Some(Ok(false))) {
            return "resign waits, or gave up the parent's term".into();
        }
        if guard.lapse().now_or_never().is_none() {
            return "lapse waits".into();
        }
        if other.release().now_or_never().is_none() {
            return "release waits".into();
        }
        // A fence that travelled is judged by Spanner alone.
        let text = serde_json::to_string(&fence).unwrap();
        let travelled: Fence = serde_json::from_str(&text).unwrap();
        if let Some(Err(error)) = travelled.write(client, []).now_or_never() {
            return format!("the fence that travelled: {error}");
        }
        sleep(LEASE);
        match lock.has_lock() {
            None => "ok".into(),
            Some(_) => "it holds beyond the deadline of the last heartbeat".into(),
        }
    }

    fn drop_value<T>(result: spindle::Result<T>) -> spindle::Result<()> {
        result.map(drop)
    }

    fn says_why(error: &Error) -> bool {
        error.to_string().contains(&format!("process {} is a fork of it", std::process::id()))
    }
}
