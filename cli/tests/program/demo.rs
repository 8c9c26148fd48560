//! The demonstration is what a newcomer sees first.

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::time::timeout;

use crate::world::{PATIENCE, bare, finish, until};

#[tokio::test]
async fn the_demonstration_needs_nothing_and_ends_with_all_that_it_started() {
    let arguments = ["demo", "--port", "0", "--for", "15s", "--kill-every", "2s"];
    let mut child = bare(&arguments).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = Vec::new();
    let environment = |said: &[String], name: &str| {
        let begins = format!("  export {name}=");
        said.iter().find_map(|line| line.strip_prefix(&begins).map(str::to_string))
    };
    while environment(&said, "SPINDLE_DATABASE").is_none() {
        said.push(timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().unwrap());
    }
    let host = environment(&said, "SPANNER_EMULATOR_HOST").unwrap();
    let database = environment(&said, "SPINDLE_DATABASE").unwrap();
    let ls = async || {
        let mut command = bare(&["ls", "--database", &database]);
        command.env("SPANNER_EMULATOR_HOST", &host);
        finish(command).await
    };
    until("every lock is held", async || ls().await.out.matches(" held ").count() == 6).await;
    let mut killed = false;
    while let Some(line) = timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap() {
        killed |= line.contains("is killed");
        said.push(line);
    }
    assert!(killed, "{said:?}");
    assert!(timeout(PATIENCE, child.wait()).await.unwrap().unwrap().success());
    assert_eq!(ls().await.code, Some(3), "nothing listens any more");
}
