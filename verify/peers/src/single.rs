//! One lock for two processes, many such pairs at once: killed, stopped past the lease, asked to go.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::sleep;

use crate::Failure;
use crate::participant::{Library, Participant};
use crate::server::{HandOver, Server};

/// Leases over which requests are counted.
const COUNTED_LEASES: u32 = 6;

/// Leases after which a takeover is given up.
const LIMIT_LEASES: u32 = 12;

/// How long each round took, in seconds.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    pub seconds: Vec<f64>,
    /// Until the new holder's own program was told.
    pub told: Vec<f64>,
    /// Rounds in which nobody took over in time.
    pub never: usize,
}

/// The figures of one library.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub crash: Rounds,
    /// The same, from the kill.
    pub killed: Rounds,
    pub pause: Rounds,
    pub hand_over: Rounds,
    pub holder_requests: f64,
    pub contender_requests: f64,
    pub cost_ns: f64,
    /// Of those that were stopped, how many believed to hold after they ran again, without asking.
    pub believed: usize,
    /// The same by the call that asks Spanner.
    pub believed_by_call: usize,
    /// How long those went on believing, in seconds.
    pub beliefs: Vec<f64>,
    pub rounds: usize,
}

/// Pairs of processes of one library, each pair with a lock of its own.
struct Pairs<'a> {
    library: &'a Library,
    server: &'a Server,
    lease: Duration,
    rounds: usize,
}

pub async fn measure(
    library: &Library,
    server: &Server,
    lease: Duration,
    rounds: usize,
) -> Result<Figures, Failure> {
    let pairs = Pairs { library, server, lease, rounds };
    let mut figures = Figures { rounds, ..Figures::default() };
    let mut first = pairs.start("a").await?;
    pairs.held_by("a").await?;
    sleep(lease).await;
    let alone = server.count_over(lease * COUNTED_LEASES).await?;
    let per_lease = rounds as f64 * f64::from(COUNTED_LEASES);
    figures.holder_requests = alone / per_lease;
    let calls = if library.name.starts_with(crate::OURS) { 1_000_000 } else { 300 };
    figures.cost_ns = first[0].cost(calls).await?;

    let mut second = pairs.start("b").await?;
    sleep(lease * 3 / 2).await;
    let both = server.count_over(lease * COUNTED_LEASES).await?;
    figures.contender_requests = (both - alone) / per_lease;

    (figures.crash, figures.killed) = pairs.kill(&mut first, &second).await?;
    drop(first);
    let mut third = pairs.start("c").await?;
    sleep(lease * 3 / 2).await;
    pairs.stop(&mut second, &third, &mut figures).await?;
    sleep(lease * 2).await;
    figures.hand_over = pairs.ask_to_go(&mut third, &second).await?;
    Ok(figures)
}

impl Pairs<'_> {
    async fn start(&self, id: &str) -> Result<Vec<Participant>, Failure> {
        let mut started = Vec::new();
        for round in 0..self.rounds {
            let prefix = self.prefix(round);
            let participant =
                Participant::start(self.library, &self.server.address, id, &prefix, 1, self.lease)?;
            started.push(participant);
            // Spread, so that the rounds are not all of one phase.
            sleep(self.lease / 2 / self.rounds as u32).await;
        }
        for participant in &started {
            participant.ready().await?;
        }
        Ok(started)
    }

    fn prefix(&self, round: usize) -> String {
        format!("{}-{round:02}", self.library.name)
    }

    fn lock(&self, round: usize) -> String {
        format!("{}-00000", self.prefix(round))
    }

    fn time_limit(&self) -> Duration {
        self.lease * LIMIT_LEASES
    }

    async fn held_by(&self, id: &str) -> Result<(), Failure> {
        let held =
            self.server.held_by(self.library.name, id, self.rounds, self.time_limit()).await?;
        if held == self.rounds {
            return Ok(());
        }
        Err(format!("{}: {held} of {} locks are held by {id}", self.library.name, self.rounds)
            .into())
    }

    /// Kills the holders, each at another phase of its lease.
    async fn kill(
        &self,
        holders: &mut [Participant],
        next: &[Participant],
    ) -> Result<(Rounds, Rounds), Failure> {
        let killing = async {
            let mut killed = BTreeMap::new();
            for (round, holder) in holders.iter_mut().enumerate() {
                sleep(self.lease / self.rounds as u32).await;
                killed.insert(self.lock(round), crate::now());
                holder.kill().await?;
            }
            Ok::<_, Failure>(killed)
        };
        let (killed, taken) = tokio::join!(killing, self.hand_overs("a", "b"));
        let (killed, taken) = (killed?, taken?);
        sleep(self.lease * 5 / 2).await;
        let since_kill =
            |lock: &str, over: &HandOver| killed.get(lock).copied().unwrap_or(over.last);
        let crash = self.rounds_of(&taken, next, |_, over| over.last);
        Ok((crash, self.rounds_of(&taken, next, since_kill)))
    }

    /// Stops the holders past their lease, lets them run again, and asks them.
    async fn stop(
        &self,
        holders: &mut [Participant],
        next: &[Participant],
        figures: &mut Figures,
    ) -> Result<(), Failure> {
        let stopping = async {
            for holder in holders.iter() {
                sleep(self.lease / self.rounds as u32).await;
                holder.signal(Signal::STOP)?;
            }
            Ok::<(), Failure>(())
        };
        let (stopped, taken) = tokio::join!(stopping, self.hand_overs("b", "c"));
        stopped?;
        let taken = taken?;
        let mut asked = Vec::new();
        for holder in holders.iter_mut() {
            asked.push(holder.ask().await?);
            holder.signal(Signal::CONT)?;
        }
        let mut answers = Vec::new();
        for (holder, since) in holders.iter().zip(asked) {
            answers.push(holder.answer(since).await?);
        }
        sleep(self.lease * 3).await;
        for (round, (holder, answer)) in holders.iter().zip(answers).enumerate() {
            // Only where another holds by now is the belief wrong.
            if !taken.contains_key(&self.lock(round)) {
                continue;
            }
            figures.believed += usize::from(answer.told);
            figures.believed_by_call += usize::from(answer.called);
            if answer.told {
                let lost = holder.told().into_iter().find(|it| !it.gained && it.at > answer.at);
                let seconds = lost.map_or(f64::INFINITY, |lost| seconds(lost.at - answer.at));
                figures.beliefs.push(seconds);
            }
        }
        figures.pause = self.rounds_of(&taken, next, |_, over| over.last);
        Ok(())
    }

    /// Asks the holders to go, each at another phase of its lease.
    async fn ask_to_go(
        &self,
        holders: &mut [Participant],
        next: &[Participant],
    ) -> Result<Rounds, Failure> {
        let asking = async {
            let mut gone = BTreeMap::new();
            for (round, holder) in holders.iter_mut().enumerate() {
                sleep(self.lease / self.rounds as u32).await;
                gone.insert(self.lock(round), holder.go().await?);
            }
            Ok::<_, Failure>(gone)
        };
        let (gone, taken) = tokio::join!(asking, self.hand_overs("c", "b"));
        let gone = gone?;
        sleep(self.lease * 5 / 2).await;
        Ok(self.rounds_of(&taken?, next, |lock, over| gone.get(lock).copied().unwrap_or(over.last)))
    }

    async fn hand_overs(
        &self,
        from: &str,
        to: &str,
    ) -> Result<BTreeMap<String, HandOver>, Failure> {
        let prefix = self.library.name;
        self.server.hand_overs(prefix, (from, to), self.rounds, self.time_limit()).await
    }

    fn rounds_of(
        &self,
        taken: &BTreeMap<String, HandOver>,
        next: &[Participant],
        since: impl Fn(&str, &HandOver) -> i128,
    ) -> Rounds {
        let mut rounds = Rounds { never: self.rounds - taken.len(), ..Rounds::default() };
        for (round, successor) in next.iter().enumerate() {
            let lock = self.lock(round);
            let Some(over) = taken.get(&lock) else { continue };
            let since = since(&lock, over);
            rounds.seconds.push(seconds(over.taken - since));
            // The announcement may be stamped a little before the commit's reply was read here.
            let slack = 50_000_000;
            let mut told = successor.told().into_iter();
            if let Some(told) = told.find(|it| it.gained && it.at > over.taken - slack) {
                rounds.told.push(seconds(told.at - since));
            }
        }
        rounds
    }
}

pub fn seconds(nanoseconds: i128) -> f64 {
    nanoseconds as f64 / 1e9
}
