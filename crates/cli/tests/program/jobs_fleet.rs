//! Fifty short slots on four nodes, each a process: some fail, some are killed, some meet an outage as they end.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::time::sleep;

use crate::jobs::slot;
use crate::world::{World, until};

const SLOTS: usize = 50;
const NODES: usize = 4;
const ATTEMPTS: usize = 3;

/// The trouble of a slot's first start.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trouble {
    None,
    /// The command fails.
    Failure,
    /// The program is killed by SIGKILL before the command has done anything.
    Kill,
    /// Spanner takes no commits for a while as the command ends.
    Outage,
}

impl Trouble {
    /// Two slots in five go well.
    fn of(slot: usize) -> Trouble {
        match slot % 5 {
            0 => Trouble::Kill,
            1 => Trouble::Failure,
            2 => Trouble::Outage,
            _ => Trouble::None,
        }
    }
}

/// The command: it notes its start, that nobody else runs beside it, and its end.
fn command(folder: &Path, slot: usize) -> String {
    let at_first = match Trouble::of(slot) {
        Trouble::Failure => "exit 1",
        Trouble::Kill => "kill -9 $PPID; exit",
        Trouble::None | Trouble::Outage => ":",
    };
    let folder = folder.display();
    format!(
        "cd {folder}
         mkdir running || echo {slot} >> overlaps
         echo start >> starts-{slot}
         sleep 0.1
         rmdir running
         [ $(wc -l < starts-{slot}) -gt 1 ] || {{ {at_first}; }}
         echo end >> ends-{slot}"
    )
}

fn lines(file: PathBuf) -> usize {
    fs::read_to_string(file).map(|text| text.lines().count()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night"]
async fn fifty_slots_run_once_each_though_runners_fail_and_are_killed_and_spanner_is_away() {
    let world = World::start().await;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("jobs-fleet");
    // Those of a run before would count.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let of = |what: &str, slot: usize| lines(folder.join(format!("{what}-{slot}")));
    let (mut starts, mut killed) = (0, 0);
    for n in 0..SLOTS {
        let (slot, command) = (slot(&world).await, command(&folder, n));
        let mut nodes = Vec::new();
        for node in 0..NODES {
            let id = format!("node-{node}");
            let job = ["run", "nightly", "--slot", &slot, "--retry-pause", "50ms", "--lease", "2s"];
            let command = ["--id", &id, "--", "sh", "-c", &command];
            nodes.push(world.spawn(&[&job[..], &command[..]].concat()));
            // Schedules of nodes are late by a little.
            sleep(Duration::from_millis(20)).await;
        }
        if Trouble::of(n) == Trouble::Outage {
            until("the command has ended", async || of("ends", n) > 0).await;
            let refused = Effect::Fail(Code::Unavailable);
            let outage = world.emulator.inject(Fault::on(Rpc::Commit).effect(refused));
            sleep(Duration::from_secs(1)).await;
            outage.remove();
        }
        for node in nodes {
            match node.end().await {
                ran if ran.code.is_none() => killed += 1,
                ran => drop(ran.ends(0)),
            }
        }
        let (trouble, started, ended) = (Trouble::of(n), of("starts", n), of("ends", n));
        assert!((1..=ATTEMPTS).contains(&started), "slot {n}, {trouble:?}: {started} starts");
        let is_exact = trouble != Trouble::Outage;
        assert!(ended == 1 || !is_exact && ended > 1, "slot {n}, {trouble:?}: {ended} ends");
        world.run(&["jobs"]).await.ends(0).says("done");
        starts += started;
    }
    let overlaps = lines(folder.join("overlaps"));
    println!(
        "jobs-of-processes: ok slots={SLOTS} nodes={NODES} starts={starts} killed={killed} overlaps={overlaps}"
    );
    assert_eq!((killed, overlaps), (SLOTS / 5, 0));
}
