//! The events of the fleet.

use std::time::Duration;

use rustix::process::Signal;
use spindle_emulator::Emulator;

use crate::drawing::{self, KILLED, STOPPED, WOKEN};
use crate::fleet::{Entry, Failure, Fleet};
use crate::orders::DATABASE;
use crate::verdict::{self, Evidence, StaleWrites};
use crate::worker::LEASE;

const ORDERS: &str = "CREATE TABLE orders (
    id STRING(MAX) NOT NULL,
    token STRING(MAX),
    kind STRING(MAX),
    written TIMESTAMP OPTIONS (allow_commit_timestamp=true),
) PRIMARY KEY (id)";

const CONTENDERS: [&str; 3] = ["node-a", "node-b", "node-c"];
const DELEGATE: &str = "delegate";

pub async fn tell() -> Result<(), Failure> {
    let spanner = Emulator::start().await?;
    let ddl = format!("{}{ORDERS}", include_str!("../../ddl/googlesql.sql"));
    spanner.create_database(DATABASE, &ddl).await?;
    let mut fleet = Fleet::new(spanner.endpoint());
    fleet.tell("spanner", &format!("embedded, at {}; lease {LEASE:?}", spanner.endpoint()));
    for id in CONTENDERS {
        fleet.start("worker", id)?;
    }
    fleet.start("delegate", DELEGATE)?;

    let told = async {
        let crash = a_leader_is_killed(&mut fleet, &spanner.endpoint()).await?;
        let stale = a_leader_sleeps_past_its_lease(&mut fleet).await?;
        let handover = a_leader_is_asked_to_go(&mut fleet).await?;
        Ok::<_, Failure>((crash, stale, handover))
    };
    let told = told.await;
    fleet.end().await?;
    let (last_heartbeat, stale_writes, graceful_handover) = told?;
    let evidence =
        Evidence { log: fleet.log.clone(), last_heartbeat, stale_writes, graceful_handover };
    let verdict = verdict::judge(&spanner.endpoint(), evidence).await;
    spanner.stop().await;
    println!("{}", drawing::draw(&CONTENDERS, &fleet.log));
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
    fleet.signal(&leader, Signal::KILL, KILLED)?;
    // Before the lease runs out, nobody overwrites it.
    verdict::heartbeat(endpoint).await
}

/// SIGSTOP with a write decided and not sent, while a delegate has its fence as text. Both write late.
async fn a_leader_sleeps_past_its_lease(fleet: &mut Fleet) -> Result<StaleWrites, Failure> {
    let leader = fleet.hear("somebody took over and writes", wrote).await?;
    fleet.order(&leader, "decide").await?;
    let fence = fleet.hear_from(&leader, "decided ").await?;
    fleet.order(DELEGATE, &format!("fence {fence}")).await?;
    fleet.hear_from(DELEGATE, "received ").await?;
    fleet.signal(&leader, Signal::STOP, STOPPED)?;
    fleet
        .hear("somebody took over from the sleeper", |entry| {
            wrote(entry).filter(|other| *other != leader)
        })
        .await?;

    let mut stale = StaleWrites { sent: 1, refused: 0 };
    fleet.order(DELEGATE, "send").await?;
    if fleet.hear_from(DELEGATE, "late-write ").await?.starts_with("refused") {
        stale.refused += 1;
        fleet.tell("spanner", "refused the delegate: the term of its fence is over");
    }
    the_sleeper_wakes(fleet, &leader).await?;
    Ok(stale)
}

/// The woken process knows by its own clock that its lease is over, and doesn't ask Spanner.
async fn the_sleeper_wakes(fleet: &mut Fleet, leader: &str) -> Result<(), Failure> {
    // Waiting in its input, this is the first thing that the sleeper sees.
    fleet.order(leader, "send").await?;
    fleet.signal(leader, Signal::CONT, WOKEN)?;
    let has_lock = fleet.hear_from(leader, "has-lock ").await?;
    if has_lock != "false" {
        return Err(format!("{leader} believes that it holds after its lease").into());
    }
    if !fleet.hear_from(leader, "late-write ").await?.starts_with("refused") {
        return Err(format!("{leader} wrote after its lease").into());
    }
    fleet.tell(leader, "refused its own write, without asking Spanner");
    Ok(())
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
