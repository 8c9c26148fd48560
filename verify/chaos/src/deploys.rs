//! Deploys in figures: for how long shards are vacant, how many tasks are started, and the time until
//! all has settled.

use std::time::Duration;

use crate::checks::{Evidence, Term, phase, terms};
use crate::history::{Deploy, Event, Fault, Phase, Record};
use crate::nemesis::{FIFTH, LIFE, LOOP};

/// Answers, attempts and processes take their time beside the polls.
const REST: Duration = Duration::from_millis(500);
/// A claim may be so old when its term ends. For longer than that nothing is done after all has settled.
const CLAIM_AGE: u64 = 500_000_000;
/// So many tasks more than shards may start where shards wait for their members.
const FEW: usize = 4;

/// One kind of deploy.
pub struct DeployFigures {
    deploy: Deploy,
    lease: Duration,
    /// For how long each shard was vacant at the most, in seconds, sorted.
    pub vacant: Vec<f64>,
    pub starts: usize,
    /// From the last act to an even share, at the most, in seconds; none if it never came.
    pub settled: Option<f64>,
}

impl DeployFigures {
    /// Returns the figures of each deploy of a run; `parts` has the evidence of each shard.
    pub fn all(evidence: &Evidence, parts: &[Evidence]) -> Vec<DeployFigures> {
        let (records, lease) = (&evidence.records, evidence.target().lease());
        let begun = records.iter().filter_map(|record| match record.event {
            Event::Deploy(deploy) => Some((record.at, deploy)),
            _ => None,
        });
        let begun: Vec<(u64, Deploy)> = begun.collect();
        let shards: Vec<Vec<Term>> = parts.iter().map(|part| terms(&part.records)).collect();
        let end = phase(records, Phase::Recovery).unwrap_or(u64::MAX);
        let ends = begun.iter().skip(1).map(|(at, _)| *at).chain([end]);
        let of = |((from, deploy), to): (&(u64, Deploy), u64)| {
            let is_here = |at: u64| (*from..to).contains(&at);
            let mut vacant: Vec<f64> =
                shards.iter().map(|terms| longest_gap(terms, is_here)).collect();
            vacant.sort_by(f64::total_cmp);
            let starts = shards.iter().flatten().filter(|term| is_here(term.begin)).count();
            let settled = settled(records.iter().filter(|record| is_here(record.at)));
            DeployFigures { deploy: *deploy, lease, vacant, starts, settled }
        };
        begun.iter().zip(ends).map(of).collect()
    }

    /// Returns `NAME: ok key=value …`, or `missed`.
    pub fn line(&self) -> String {
        let median = self.vacant.get(self.vacant.len() / 2).copied().unwrap_or(0.0);
        let per_shard = self.starts as f64 / self.vacant.len().max(1) as f64;
        let settled = self.settled.map_or("never".to_string(), |seconds| format!("{seconds:.1}"));
        let (bar, is_met) = self.bar();
        format!(
            "deploy-{}: {} shards={} vacant_median_s={median:.2} vacant_worst_s={:.2} starts={} \
             starts_a_shard={per_shard:.2} settled_after_s={settled} bar=\"{bar}\"",
            format!("{:?}", self.deploy).to_lowercase(),
            if is_met { "ok" } else { "missed" },
            self.vacant.len(),
            self.worst(),
            self.starts,
        )
    }

    fn worst(&self) -> f64 {
        self.vacant.last().copied().unwrap_or(0.0)
    }

    /// Returns how many tasks may start beside a member that dies again and again: its share comes and
    /// goes with each life, and all lives but the first two are two leases late.
    fn starts_of_a_loop(&self) -> usize {
        let lives = 2 + (LOOP.as_secs_f64() / (self.lease * 2 + LIFE).as_secs_f64()) as usize;
        lives * 2 * (self.vacant.len() / 5 + 1)
    }

    /// Returns what a deploy without faults may cost, and if it cost no more.
    fn bar(&self) -> (String, bool) {
        // The library's default.
        let poll = Duration::from_secs(1).min(self.lease / 5);
        let no_longer = |most: Duration| self.worst() <= (most + REST).as_secs_f64();
        match self.deploy {
            Deploy::Roll | Deploy::Half | Deploy::BlueGreen => {
                ("two polls".to_string(), no_longer(poll * 2))
            }
            Deploy::CrashLoop => {
                let most = self.starts_of_a_loop();
                let is_met = self.starts <= most && no_longer(self.lease + poll * 4);
                (format!("{most} starts, a lease and four polls"), is_met)
            }
            Deploy::Restart => {
                let most = self.vacant.len() + FEW;
                (format!("{most} starts"), self.starts <= most)
            }
        }
    }
}

/// Returns the longest time for which nobody worked a shard after a term that ended then, in seconds.
fn longest_gap(terms: &[Term], ended: impl Fn(u64) -> bool) -> f64 {
    let pairs = terms.windows(2).filter(|pair| ended(pair[0].last + CLAIM_AGE));
    let gaps = pairs.map(|pair| pair[1].begin.saturating_sub(pair[0].last) as f64 / 1e9);
    gaps.fold(0.0, f64::max)
}

/// Returns the longest time from an act to the even share after it, in seconds; none if one never came.
fn settled<'a>(records: impl Iterator<Item = &'a Record>) -> Option<f64> {
    let (mut acted, mut longest) = (0, 0.0_f64);
    for record in records {
        match &record.event {
            Event::Fault { fault: Fault::Join | Fault::Leave, .. } => acted = record.at,
            Event::Fault { fault: Fault::Kill, on: Some(on) } if on == FIFTH => acted = record.at,
            Event::Settled => {
                longest = longest.max(record.at.saturating_sub(acted) as f64 / 1e9);
            }
            Event::Unsettled => return None,
            _ => {}
        }
    }
    Some(longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::Target;

    const SECOND: u64 = 1_000_000_000;

    fn tell(evidence: &mut Evidence, at: u64, lock: Option<usize>, event: Event) {
        let record = Record { at: at * SECOND, who: "w1".to_string(), pid: 1, lock, event };
        evidence.records.push(record);
    }

    fn works(evidence: &mut Evidence, lock: usize, from: u64, to: u64) {
        for at in [from, to] {
            let (token, asked) = (from * SECOND, at * SECOND);
            tell(evidence, at, Some(lock), Event::Claim { token, asked, until: asked });
        }
    }

    /// Half of the members leave after 10 s and come back after 20 s. One shard of two moves each time,
    /// at first after so many seconds.
    fn story(vacant: u64) -> Evidence {
        let mut evidence = Evidence::default();
        let target = Target::Deploys { shards: 2, lease: Duration::from_secs(10) };
        tell(&mut evidence, 0, None, Event::Run(target));
        works(&mut evidence, 0, 1, 40);
        works(&mut evidence, 1, 1, 10);
        works(&mut evidence, 1, 10 + vacant, 25);
        works(&mut evidence, 1, 26, 40);
        tell(&mut evidence, 9, None, Event::Deploy(Deploy::Half));
        tell(&mut evidence, 10, None, Event::Fault { fault: Fault::Leave, on: None });
        tell(&mut evidence, 12, None, Event::Settled);
        tell(&mut evidence, 20, None, Event::Fault { fault: Fault::Join, on: None });
        tell(&mut evidence, 26, None, Event::Settled);
        tell(&mut evidence, 30, None, Event::Phase(Phase::Recovery));
        evidence.records.sort_by_key(|record| record.at);
        evidence
    }

    fn figures(evidence: &Evidence) -> DeployFigures {
        DeployFigures::all(evidence, &evidence.by_lock().unwrap()).remove(0)
    }

    #[test]
    fn each_deploy_tells_its_gaps_and_starts_and_the_time_to_settle() {
        let half = figures(&story(2));
        assert_eq!(
            (half.vacant.clone(), half.starts, half.settled),
            (vec![0.0, 2.0], 2, Some(6.0))
        );
        let line = half.line();
        assert!(
            line.starts_with("deploy-half: ok ") && line.ends_with(" bar=\"two polls\""),
            "{line}"
        );
    }

    #[test]
    fn a_deploy_that_misses_its_bar_or_never_settles_says_so() {
        let mut late = story(3);
        let settles = |record: &mut Record| {
            if record.event == Event::Settled {
                record.event = Event::Unsettled;
            }
        };
        late.records.iter_mut().for_each(settles);
        let line = figures(&late).line();
        assert!(line.starts_with("deploy-half: missed ") && line.contains("=never "), "{line}");
        assert!(line.ends_with(" bar=\"two polls\""), "{line}");
    }
}
