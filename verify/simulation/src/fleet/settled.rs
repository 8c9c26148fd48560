//! The duties of a fleet once nothing goes wrong any more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use spindle_fleet::Members;
use spindle_fleet::plan;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::plan::{CHIEF, Trial};
use super::slot::{Slot, crash};
use super::world::FleetWorld;
use crate::checks::Invariant;
use crate::coverage::CoverageGoal;
use crate::load::WINDOW;
use crate::network_faults::{Cut, Line};
use crate::rows::TABLE;
use crate::timeline::Judged;

/// Sees that shards are shared well. The `newcomer` is a slot for members that come later.
pub(super) async fn shares(
    world: &Arc<FleetWorld>,
    slots: &[Arc<Slot>],
    newcomer: &Arc<Slot>,
) -> Judged {
    moved_to(world, world.plan.shards).await?;
    all_at_work(world).await?;
    even(world, slots).await?;
    // A view from the fault phase may be as old as a poll may take, and a task as slow to stop.
    sleep(Duration::from_secs(10) + world.plan.lease).await;
    even(world, slots).await?;
    nothing_moves(world, "in a settled fleet", 0, async {
        sleep(world.plan.lease).await;
        bounded_load(world, slots).await
    })
    .await?;
    for trial in &world.plan.trials {
        world.tell(&format!("{trial:?}"));
        match trial {
            Trial::JoinAndLeave => join_and_leave(world, slots, newcomer).await?,
            Trial::ComeAndGo => come_and_go(world, newcomer).await?,
            Trial::CrashLoop => crash_loop(world, slots, newcomer).await?,
            Trial::Unable => unable(world, slots, newcomer).await?,
            Trial::LeaveTogether => leave_together(world, slots, newcomer).await?,
            Trial::Resize => resize(world, slots).await?,
        }
    }
    members_are_told(world, slots).await
}

/// Waits until every shard is at work.
pub(super) async fn all_at_work(world: &FleetWorld) -> Judged {
    let at_work = || world.checks().owners().clone();
    let are_all = || at_work().len() >= world.plan.pieces();
    let pause = world.plan.lease / 20;
    world
        .until(world.plan.limit(), pause, are_all, || format!("only {:?} are at work", at_work()))
        .await
}

/// Moves the group to a count, once those moves are over that go on.
async fn moved_to(world: &FleetWorld, count: usize) -> Judged {
    let (limit, since) = (world.plan.limit(), world.now());
    while world.plan.moves && !world.resize(count).await {
        if world.now() > since + limit {
            let what = format!("{limit:?} after the last fault no move to {count} shards");
            return Err((Invariant::I5, what));
        }
        sleep(world.plan.poll).await;
    }
    Ok(())
}

/// Waits until the members that live share them evenly.
async fn even(world: &FleetWorld, slots: &[Arc<Slot>]) -> Judged {
    even_within(world, slots, world.plan.shards, world.plan.limit_until_even()).await
}

/// The same of so many shards, within this time.
async fn even_within(
    world: &FleetWorld,
    slots: &[Arc<Slot>],
    count: usize,
    limit: Duration,
) -> Judged {
    let pause = world.plan.lease / 20;
    let instead = || format!("the shares are {:?}", world.checks().owners());
    world.until(limit, pause, || is_even(world, slots, count), instead).await
}

fn is_even(world: &FleetWorld, slots: &[Arc<Slot>], count: usize) -> bool {
    let mut shares: BTreeMap<u64, usize> = BTreeMap::new();
    for slot in slots {
        let Some(life) = slot.life() else { return false };
        shares.insert(life.number, 0);
    }
    let owners = world.checks().owners().clone();
    for owner in owners.values() {
        *shares.entry(*owner).or_default() += 1;
    }
    let (least, most) = (shares.values().min(), shares.values().max());
    let spread = most.unwrap_or(&0) - least.unwrap_or(&0);
    owners.keys().copied().eq(0..count) && shares.len() == slots.len() && spread <= 1
}

/// Sees that so many tasks begin meanwhile, and not one more.
pub(super) async fn nothing_moves(
    world: &FleetWorld,
    when: &str,
    but: usize,
    meanwhile: impl Future<Output = Judged>,
) -> Judged {
    let before = world.checks().starts();
    meanwhile.await?;
    let moved = world.checks().starts() - before;
    if moved == but {
        return Ok(());
    }
    Err((Invariant::Moves, format!("{moved} shards moved {when}; the plan asks for {but}")))
}

/// Has the newcomer begin a life.
pub(super) async fn invite(newcomer: &Arc<Slot>) -> JoinHandle<()> {
    let living = Arc::clone(newcomer);
    let joined = tokio::spawn(async move { living.live_once().await });
    while newcomer.life().is_none() {
        sleep(Duration::from_millis(1)).await;
    }
    joined
}

async fn join_and_leave(
    world: &Arc<FleetWorld>,
    slots: &[Arc<Slot>],
    newcomer: &Arc<Slot>,
) -> Judged {
    let lives = lives(slots);
    let owners = world.checks().owners().clone();
    let owners: Vec<Option<&str>> =
        owners.values().map(|life| lives.get(life).map(String::as_str)).collect();
    let mut members: Vec<(&str, u32)> = lives.values().map(|id| (&**id, 1)).collect();
    members.push((&newcomer.id, 1));
    let due = plan(&members, &owners).moves().len();
    let mut all = slots.to_vec();
    all.push(Arc::clone(newcomer));
    let living = invite(newcomer).await;
    nothing_moves(world, "when a member joined", due, async {
        even(world, &all).await?;
        sleep(world.plan.lease * 2).await;
        Ok(())
    })
    .await?;
    world.saw(CoverageGoal::JoinMovedItsShare);
    let newcomers = newcomer.life().map(|life| life.number);
    let due = world.checks().owners().values().filter(|owner| Some(**owner) == newcomers).count();
    nothing_moves(world, "when a member left", due, async {
        newcomer.leave(Duration::ZERO);
        let _ = living.await;
        even(world, slots).await?;
        sleep(world.plan.lease * 2).await;
        Ok(())
    })
    .await
}

/// The ids of those who live, by their lives.
fn lives(slots: &[Arc<Slot>]) -> BTreeMap<u64, String> {
    slots.iter().filter_map(|slot| Some((slot.life()?.number, slot.id.clone()))).collect()
}

/// A member that is never there for long enough to count.
async fn come_and_go(world: &Arc<FleetWorld>, newcomer: &Arc<Slot>) -> Judged {
    let settled = world.plan.settled();
    nothing_moves(world, "while a member came and went", 0, async {
        for _ in 0..6 {
            let living = invite(newcomer).await;
            sleep(settled.mul_f64(0.7)).await;
            newcomer.leave(Duration::ZERO);
            let _ = living.await;
            sleep(settled / 2).await;
        }
        Ok(())
    })
    .await?;
    world.saw(CoverageGoal::CameAndWent);
    Ok(())
}

/// The row of a member that dies soon counts until its lease is over. Others take back what it is
/// given meanwhile.
async fn crash_loop(world: &Arc<FleetWorld>, slots: &[Arc<Slot>], newcomer: &Arc<Slot>) -> Judged {
    world.checks().forget_gaps();
    for _ in 0..3 {
        let living = invite(newcomer).await;
        sleep(world.plan.settled().mul_f64(0.7)).await;
        crash(newcomer, &[], Cut::Requests, Duration::ZERO);
        let _ = living.await;
        sleep(world.plan.lease).await;
    }
    // A shard may be promised to one that is dead by then, and be taken by its next life in the
    // moment of its death.
    left_alone_for_a_moment(world, "a member died again and again", 2)?;
    world.saw(CoverageGoal::DiedAgainAndAgain);
    all_at_work(world).await?;
    even(world, slots).await?;
    // Its next life counts two leases after it joins.
    let living = invite(newcomer).await;
    nothing_moves(world, "by a member whose last term ran out", 0, async {
        sleep(world.plan.lease.mul_f64(1.9)).await;
        Ok(())
    })
    .await?;
    world.saw(CoverageGoal::JoinWaited);
    newcomer.leave(Duration::ZERO);
    let _ = living.await;
    even(world, slots).await
}

/// Sees that no shard was left alone for longer than a lease for each death, and what comes with it.
fn left_alone_for_a_moment(world: &FleetWorld, when: &str, deaths: u32) -> Judged {
    let gap = world.checks().longest_gap();
    // A lease of grace, the polls, and a task that takes its time to stop.
    let lost = world.plan.lease.mul_f64(1.3) * deaths;
    let most = lost + world.plan.poll * (deaths + 1) + Duration::from_secs(2);
    if gap <= most {
        return Ok(());
    }
    Err((
        Invariant::I5,
        format!("a shard was left alone for {gap:?} when {when}; at most {most:?}"),
    ))
}

/// A member that counts and can take nothing.
async fn unable(world: &Arc<FleetWorld>, slots: &[Arc<Slot>], newcomer: &Arc<Slot>) -> Judged {
    let living = invite(newcomer).await;
    let line = newcomer.line();
    let pieces = world.plan.all_pieces();
    world.change_faults(|faults| faults.lines[line].unable = pieces);
    world.checks().forget_gaps();
    sleep(world.plan.lease * 6).await;
    left_alone_for_a_moment(world, "a member could take none", 1)?;
    world.saw(CoverageGoal::UnableStarvedNone);
    newcomer.leave(Duration::ZERO);
    let _ = living.await;
    world.change_faults(|faults| faults.lines[line] = Line::default());
    all_at_work(world).await?;
    even(world, slots).await
}

/// Half of the members and the newcomer go at once, and come back two leases later.
async fn leave_together(
    world: &Arc<FleetWorld>,
    slots: &[Arc<Slot>],
    newcomer: &Arc<Slot>,
) -> Judged {
    let living = invite(newcomer).await;
    let mut all = slots.to_vec();
    all.push(Arc::clone(newcomer));
    even(world, &all).await?;
    world.checks().forget_gaps();
    slots.iter().take(slots.len() / 2).for_each(|slot| slot.leave(world.plan.lease * 2));
    newcomer.leave(Duration::ZERO);
    let _ = living.await;
    sleep(world.plan.lease * 2).await;
    let gap = world.checks().longest_gap();
    // Answers take their time, too, and an attempt that another one was faster with.
    let kept = world.plan.restart.unwrap_or_default();
    let most = kept + world.plan.poll * 3 + Duration::from_secs(1);
    if gap > most {
        let what =
            format!("members left together, and a shard alone for {gap:?}; at most {most:?}");
        return Err((Invariant::I5, what));
    }
    world.saw(CoverageGoal::LeftTogether);
    all_at_work(world).await?;
    even(world, slots).await
}

/// The group moves to half as many shards, and back. No task begins that the move doesn't ask for.
async fn resize(world: &Arc<FleetWorld>, slots: &[Arc<Slot>]) -> Judged {
    // The polls, and a task that takes its time to stop.
    let most = world.plan.poll * 4 + world.plan.stop_limit() + Duration::from_secs(2);
    for count in [world.plan.shards / 2 + 1, world.plan.shards] {
        let due = if count == world.checks().owners().len() { 0 } else { count };
        nothing_moves(world, "but those of a move", due, async {
            moved_to(world, count).await?;
            even_within(world, slots, count, most).await?;
            sleep(world.plan.lease * 2).await;
            Ok(())
        })
        .await?;
    }
    world.saw(CoverageGoal::Resized);
    Ok(())
}

/// Counts the requests of a settled member (I8).
async fn bounded_load(world: &FleetWorld, slots: &[Arc<Slot>]) -> Judged {
    let mut lines: BTreeMap<usize, u64> = BTreeMap::new();
    for slot in slots {
        *lines.entry(slot.line()).or_default() += 1;
    }
    let sent = || lines.keys().map(|line| world.sent(*line)).collect::<Vec<u64>>();
    let before = sent();
    sleep(WINDOW).await;
    for ((members, before), after) in lines.values().zip(before).zip(sent()) {
        let (sent, most) = (after - before, steady(world, *members));
        if sent > most {
            let what = format!(
                "a settled process of {members} sent {sent} requests within {WINDOW:?}; at most {most}"
            );
            return Err((Invariant::I8, what));
        }
    }
    Ok(())
}

/// The polls of its members, and two requests for the heartbeats at each of their marks.
fn steady(world: &FleetWorld, members: u64) -> u64 {
    let times = |interval: Duration| {
        u64::try_from(WINDOW.as_nanos().div_ceil(interval.as_nanos())).unwrap_or(u64::MAX)
    };
    let polls = times(world.plan.poll) * 4 / 3 + 2;
    polls * members + (times(world.plan.lease / 6) + 1) * 2
}

/// Sees that members are told of those who live, and of nobody else.
async fn members_are_told(world: &FleetWorld, slots: &[Arc<Slot>]) -> Judged {
    // Rows of those that crashed count until their leases are over.
    sleep(world.plan.lease * 2).await;
    let told = Members::new(world.tools_table(), "fleet").list().await;
    let told = told.map_err(|error| (Invariant::I5, error.to_string()))?;
    let told: Vec<_> = told.into_iter().map(|member| member.id).collect();
    let mut ids: Vec<_> = slots.iter().map(|slot| slot.id.clone()).collect();
    ids.sort();
    if told == ids {
        return Ok(());
    }
    Err((Invariant::I5, format!("{ids:?} are members, and {told:?} were told")))
}

/// Once all have left, nothing stands there but what the shards and permits need. The rows of one
/// that died stay for ten leases.
pub(crate) fn nothing_is_left(world: &FleetWorld, dead: &str) -> Judged {
    let Ok(rows) = world.database.rows(TABLE) else { return Ok(()) };
    let names: Vec<String> = rows
        .iter()
        .filter_map(|row| match row.get("name") {
            Some(spindle_emulator::engine::Value::String(name)) => Some(name.clone()),
            _ => None,
        })
        .collect();
    // The takeover row of a permit's dead holder goes with the next term, which may never come.
    let is_left = |name: &&String| {
        let is_of_all = name.starts_with("spindle:shard:") && !name.contains('_');
        let is_chief = name.starts_with(CHIEF);
        let is_of_writers = name
            .strip_prefix("spindle:rw:")
            .is_some_and(|name| name.strip_suffix("/write").is_some() || !name.contains('/'));
        let is_kept = world.plan.restart.is_some() && name.starts_with("spindle:share:");
        !is_of_all
            && !is_kept
            && !is_chief
            && !is_of_writers
            && !name.starts_with("spindle:permit:")
            && !name.contains(dead)
    };
    match names.iter().find(is_left) {
        None => Ok(()),
        Some(name) => Err((Invariant::I8, format!("row `{name}` is left after all have left"))),
    }
}
