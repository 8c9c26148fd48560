//! Deploys: workers come and go as the processes of a service do, beside the faults or without.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Nemesis;
use crate::history::{Deploy, Event, Failure, Fault, now};

const WORKERS: [&str; 4] = ["w1", "w2", "w3", "w4"];
/// They take over from the others. Their shards wait for them.
const NEW: [&str; 4] = ["w11", "w12", "w13", "w14"];
/// It dies soon after each start.
pub const FIFTH: &str = "w5";
/// Between the end of a process and its next one.
const DOWN: Duration = Duration::from_secs(1);
/// For so long one dies again and again.
pub const LOOP: Duration = Duration::from_secs(60);
/// So long after its first shard it dies.
pub const LIFE: Duration = Duration::from_secs(2);

impl Nemesis<'_> {
    pub(super) async fn deploy(&mut self) -> Result<(), Failure> {
        self.settle().await?;
        for deploy in Deploy::ALL {
            self.journal.write(Event::Deploy(deploy))?;
            match deploy {
                Deploy::Roll => self.roll(&WORKERS).await?,
                Deploy::Half => self.halve().await?,
                Deploy::CrashLoop => self.crash_again_and_again().await?,
                Deploy::BlueGreen => self.replace().await?,
                Deploy::Restart => self.roll(&NEW).await?,
            }
        }
        Ok(())
    }

    async fn roll(&mut self, ids: &[&str]) -> Result<(), Failure> {
        for id in ids {
            self.go(&[id]).await?;
            self.inject_faults(DOWN).await?;
            self.come(&[id]).await?;
            self.settle().await?;
        }
        Ok(())
    }

    async fn halve(&mut self) -> Result<(), Failure> {
        let half = &WORKERS[..WORKERS.len() / 2];
        self.go(half).await?;
        self.settle().await?;
        self.come(half).await?;
        self.settle().await
    }

    async fn replace(&mut self) -> Result<(), Failure> {
        self.come(&NEW).await?;
        self.inject_faults(DOWN).await?;
        self.go(&WORKERS).await?;
        self.settle().await
    }

    async fn crash_again_and_again(&mut self) -> Result<(), Failure> {
        let end = Instant::now() + LOOP;
        while Instant::now() < end {
            self.come(&[FIFTH]).await?;
            let has_none =
                |nemesis: &Self| nemesis.fleet.tasks().get(FIFTH).is_none_or(|it| *it == 0);
            while has_none(self) && Instant::now() < end {
                self.inject_faults(Duration::from_millis(50)).await?;
            }
            self.inject_faults(LIFE.min(end.saturating_duration_since(Instant::now()))).await?;
            self.recovers(FIFTH).await?;
            self.say(Fault::Kill, Some(FIFTH))?;
            self.fleet.kill(FIFTH).await?;
            self.over(Fault::Kill, Some(FIFTH))?;
            self.inject_faults(DOWN / 2).await?;
        }
        self.settle().await
    }

    async fn come(&mut self, ids: &[&str]) -> Result<(), Failure> {
        for id in ids {
            self.say(Fault::Join, Some(id))?;
            self.fleet.start(id).await?;
        }
        Ok(())
    }

    /// Has workers leave at once.
    async fn go(&mut self, ids: &[&str]) -> Result<(), Failure> {
        for id in ids {
            self.recovers(id).await?;
        }
        for id in ids {
            self.say(Fault::Leave, Some(id))?;
        }
        self.fleet.leave(ids).await
    }

    /// Waits until nothing ails a worker.
    async fn recovers(&mut self, id: &str) -> Result<(), Failure> {
        while self.faulty.iter().any(|other| other == id) {
            sleep(Duration::from_millis(50)).await;
            self.repair(Instant::now()).await?;
        }
        Ok(())
    }

    /// Waits until the shards are shared evenly and stay so, unless that takes too long. Faults go on
    /// for a lease before.
    async fn settle(&mut self) -> Result<(), Failure> {
        let lease = self.target.lease();
        if !self.is_bare() {
            self.inject_faults(lease).await?;
            self.repair_all().await?;
        }
        // The row of one that died runs out a lease later, and those that join count two leases later.
        let most = lease * if self.is_bare() { 3 } else { 5 } + Duration::from_secs(20);
        let (begin, mut since) = (Instant::now(), None);
        while begin.elapsed() < most {
            since = self.is_even().then(|| since.unwrap_or((Instant::now(), now())));
            if let Some((_, at)) = since.filter(|(since, _)| since.elapsed() >= lease / 5) {
                return self.journal.write_at(at, None, Event::Settled);
            }
            sleep(Duration::from_millis(25)).await;
        }
        self.journal.write(Event::Unsettled)
    }

    fn is_even(&self) -> bool {
        let tasks = self.fleet.tasks();
        let (least, most) = (tasks.values().min(), tasks.values().max());
        let is_even = most.zip(least).is_some_and(|(most, least)| most - least <= 1);
        is_even && tasks.values().sum::<usize>() == self.target.count()
    }
}
