//! What happens to the fleet.

use std::time::Duration;

use rustix::process::Signal;
use spindle_emulator::Emulator;

use crate::fleet::{Entry, Failure, Fleet};
use crate::verdict::{self, Evidence};
use crate::worker::{DATABASE, LEASE};

const ORDERS: &str = "CREATE TABLE orders (
    id STRING(MAX) NOT NULL,
    token STRING(MAX),
    kind STRING(MAX),
    written TIMESTAMP OPTIONS (allow_commit_timestamp=true),
) PRIMARY KEY (id)";

pub async fn tell() -> Result<(), Failure> {
    let spanner = Emulator::start().await?;
    let ddl =
        format!("{};\n{ORDERS}", include_str!("../../ddl/googlesql.sql").trim_end_matches(";\n"));
    spanner.create_database(DATABASE, &ddl).await?;
    let mut fleet = Fleet::new(spanner.endpoint());
    fleet.tell("spanner", &format!("embedded, at {}; lease {LEASE:?}", spanner.endpoint()));
    for id in ["node-a", "node-b", "node-c"] {
        fleet.start(id)?;
    }

    let told = async {
        let crash = a_leader_is_killed(&mut fleet, &spanner.endpoint()).await?;
        let stale = a_leader_sleeps_past_its_lease(&mut fleet).await?;
        let handover = a_leader_is_asked_to_go(&mut fleet).await?;
        Ok::<_, Failure>((crash, stale, handover))
    };
    let told = told.await;
    fleet.end().await?;
    let (last_heartbeat, stale_write_refused, graceful_handover) = told?;
    let evidence =
        Evidence { log: fleet.log.clone(), last_heartbeat, stale_write_refused, graceful_handover };
    let verdict = verdict::judge(&spanner.endpoint(), evidence).await;
    spanner.stop().await;
    println!("{}", verdict?);
    Ok(())
}

fn began(entry: &Entry) -> Option<String> {
    entry.line.starts_with("began ").then(|| entry.worker.clone())
}

fn wrote(entry: &Entry) -> Option<String> {
    entry.line.starts_with("wrote ").then(|| entry.worker.clone())
}

/// SIGKILL: the lock is free when the lease has run out. Gives the killed one's last heartbeat.
async fn a_leader_is_killed(fleet: &mut Fleet, endpoint: &str) -> Result<i128, Failure> {
    let leader = fleet.hear("somebody leads and writes", wrote).await?;
    // So that it has sent heartbeats, too.
    tokio::time::sleep(Duration::from_secs(1)).await;
    fleet.order(&leader, "rest").await?;
    fleet.hear_from(&leader, "rests").await?;
    fleet.signal(&leader, Signal::KILL, "is killed (SIGKILL)")?;
    // Before the lease runs out, nobody overwrites it.
    verdict::heartbeat(endpoint).await
}

/// SIGSTOP with a write decided and not sent. Gives whether it was refused after waking up.
async fn a_leader_sleeps_past_its_lease(fleet: &mut Fleet) -> Result<bool, Failure> {
    let leader = fleet.hear("somebody took over and writes", wrote).await?;
    fleet.order(&leader, "rest").await?;
    fleet.hear_from(&leader, "rests").await?;
    fleet.order(&leader, "decide").await?;
    fleet.hear_from(&leader, "decided").await?;
    fleet.signal(&leader, Signal::STOP, "is stopped (SIGSTOP), one write decided and not sent")?;

    fleet
        .hear("somebody took over from the sleeper", |entry| {
            wrote(entry).filter(|other| *other != leader)
        })
        .await?;
    // Waiting in its input, this is the first thing that the sleeper sees.
    fleet.order(&leader, "send").await?;
    fleet.signal(&leader, Signal::CONT, "is woken up (SIGCONT)")?;
    let has_lock = fleet.hear_from(&leader, "has-lock ").await?;
    if has_lock != "false" {
        return Err(format!("{leader} believes that it holds after its lease").into());
    }
    let refused = fleet.hear_from(&leader, "late-write ").await?.starts_with("refused");
    fleet.order(&leader, "work").await?;
    Ok(refused)
}

/// SIGTERM: the lock is released, and the next one has it within a poll interval.
async fn a_leader_is_asked_to_go(fleet: &mut Fleet) -> Result<Duration, Failure> {
    let leader = fleet.log.iter().rev().find_map(began).ok_or("nobody leads")?;
    let asked = fleet.signal(&leader, Signal::TERM, "is asked to go (SIGTERM)")?;
    let other = fleet
        .hear("somebody followed", |entry| began(entry).filter(|other| *other != leader))
        .await?;
    let followed = fleet.log.iter().rev().find(|entry| entry.worker == other);
    let handover = followed.map(|entry| entry.at - asked).ok_or("the log lost a line")?;
    fleet.hear("the last term has its order", wrote).await?;
    fleet.exited(&leader).await?;
    Ok(handover)
}
