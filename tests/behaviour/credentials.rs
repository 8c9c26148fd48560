//! Credentials that can't be had, by the client's own search for them.

use std::fs;
use std::process::Command;
use std::time::Duration;

use spindle::{CancellationToken, Database, Error, LockTable};
use tokio::time::{Instant, sleep};

use crate::world::{DATABASE, LOCK};

/// Set in the process whose environment names the credentials.
const CHILD: &str = "SPINDLE_TEST_CHILD";

const LEASE: Duration = Duration::from_secs(1);

/// A test can't change its own environment, so it runs itself once more.
#[test]
fn credentials_that_cannot_be_had_are_named_and_the_loop_goes_on() {
    if std::env::var_os(CHILD).is_some() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        return runtime.block_on(without_credentials());
    }
    let file = std::env::temp_dir().join(format!("spindle-credentials-{}", std::process::id()));
    for contents in [None, Some("no JSON"), Some(r#"{"type": "service_account"}"#)] {
        match contents {
            Some(contents) => fs::write(&file, contents).unwrap(),
            // A missing file needn't be removed.
            None => drop(fs::remove_file(&file)),
        }
        let test = "credentials::credentials_that_cannot_be_had_are_named_and_the_loop_goes_on";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, "1")
            .env("GOOGLE_APPLICATION_CREDENTIALS", &file)
            .env_remove("SPANNER_EMULATOR_HOST")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success(), "{contents:?}: {said}");
    }
    drop(fs::remove_file(&file));
}

fn names_the_ways(error: &Error) {
    for way in [
        "GOOGLE_APPLICATION_CREDENTIALS",
        "gcloud auth application-default login",
        "SPANNER_EMULATOR_HOST",
    ] {
        assert!(error.to_string().contains(way), "{error}");
    }
}

async fn without_credentials() {
    // Nobody listens there, and without credentials nothing is sent.
    let table = LockTable::new(Database::at("https://127.0.0.1:1", DATABASE), "locktable");
    let lock = |id: &str| table.lock(LOCK).id(id).lease(LEASE).build().unwrap();
    let error = table.check().await.unwrap_err();
    assert!(error.is_denied() && !error.is_retryable(), "{error:?}");
    names_the_ways(&error);

    let (a, cancel) = (lock("a"), CancellationToken::new());
    let running = tokio::spawn(a.run(cancel.clone()).into_future());
    let deadline = Instant::now() + Duration::from_secs(60);
    let trouble = loop {
        if let Some(trouble) = a.health().trouble {
            break trouble;
        }
        assert!(Instant::now() < deadline, "it says nothing of it: {:?}", a.health());
        sleep(Duration::from_millis(10)).await;
    };
    assert!(trouble.error.is_denied(), "{trouble:?}");
    names_the_ways(&trouble.error);

    let error = lock("b").acquire_within(LEASE).await.unwrap_err();
    names_the_ways(&error);
    names_the_ways(&lock("c").try_acquire().await.unwrap_err());
    assert!(!running.is_finished() && a.health().is_alive(), "{:?}", a.health());
    cancel.cancel();
    running.await.unwrap().unwrap();
}
