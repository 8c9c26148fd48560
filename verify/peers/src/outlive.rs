//! What a holder's term outlives: silence at any phase of its heartbeats, a constant delay, and flows that die.
//!
//! Each pair of processes contends for a lock of its own, each through a proxy of its own.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::time::{Instant, sleep};

use crate::Failure;
use crate::participant::{Library, Participant};
use crate::proxy::Proxy;
use crate::report::{load, row};
use crate::server::Server;

/// The silences, in hundredths of the lease.
const SILENCES: [u32; 5] = [30, 40, 50, 60, 70];

/// The delays of each request, in hundredths of the lease; the first that loses a term is the last that is tried.
const DELAYS: [u32; 6] = [5, 10, 15, 20, 30, 40];

/// A contender that polls once a lease has seen by then that a lease has run out.
const WATCHED_LEASES: u32 = 3;

/// As long as each delay lasts.
const DELAYED_LEASES: u32 = 6;

/// Far longer than a takeover takes.
const TIME_LIMIT: Duration = Duration::from_secs(40);

pub struct Figures {
    name: &'static str,
    /// Terms that were lost, for each of the silences, and for each of the delays.
    silences: Vec<usize>,
    delays: Vec<usize>,
    dead_flows: usize,
    pairs: usize,
}

/// Two processes that contend for one lock.
struct Pair<'a> {
    server: &'a Server,
    prefix: String,
    participants: [(Participant, Proxy); 2],
}

/// A term, as far as it can be lost: in the table, or by what the holder is told.
#[derive(PartialEq)]
struct Standing {
    token: Option<i128>,
    losses: usize,
}

/// All libraries at once, each on a server of its own.
pub async fn measure(
    program: &Path,
    libraries: &[Library],
    lease: Duration,
    pairs: usize,
) -> Result<String, Failure> {
    let before = load();
    let each = libraries.iter().map(async |library| {
        let server = Server::start(program).await?;
        of_library(library, &server, lease, pairs).await
    });
    let figures = try_join_all(each).await?;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "Lease {} s, {pairs} phases; load {before} before and {} after.\n",
        lease.as_secs_f64(),
        load()
    );
    text += &table(&figures);
    Ok(text)
}

/// All its pairs go through each fault at once, at phases that are spread over a lease.
async fn of_library(
    library: &Library,
    server: &Server,
    lease: Duration,
    count: usize,
) -> Result<Figures, Failure> {
    let pairs = async |trial: &str| {
        let started = (0..count)
            .map(|number| Pair::start(library, server, format!("{trial}{number:03}"), lease));
        try_join_all(started).await
    };
    let (silenced, delayed) = tokio::try_join!(pairs("silence"), pairs("delay"))?;
    let phase = |number: usize| lease.mul_f64(number as f64 / count as f64);
    let silences = async {
        let mut silences = Vec::new();
        for hundredths in SILENCES {
            let silence = lease * hundredths / 100;
            let each = silenced.iter().enumerate().map(async |(number, pair)| {
                sleep(lease + phase(number)).await;
                pair.loses(lease * WATCHED_LEASES, async |holder| {
                    holder.silence(true);
                    sleep(silence).await;
                    holder.silence(false);
                })
                .await
            });
            silences.push(lost(try_join_all(each).await?));
        }
        let each = silenced.iter().enumerate().map(async |(number, pair)| {
            sleep(lease + phase(number)).await;
            pair.loses(lease * WATCHED_LEASES, async |holder| holder.kill_flows()).await
        });
        Ok::<_, Failure>((silences, lost(try_join_all(each).await?)))
    };
    let delays = async {
        let mut delays = Vec::new();
        for hundredths in DELAYS {
            let each = delayed.iter().map(async |pair| {
                sleep(lease).await;
                pair.loses(lease * DELAYED_LEASES, async |_| {
                    for (_, proxy) in &pair.participants {
                        proxy.delay(lease * hundredths / 100);
                    }
                })
                .await
            });
            delays.push(lost(try_join_all(each).await?));
            if delays.last().is_some_and(|lost| *lost > 0) {
                break;
            }
        }
        Ok(delays)
    };
    let ((silences, dead_flows), delays) = tokio::try_join!(silences, delays)?;
    Ok(Figures { name: library.name, silences, delays, dead_flows, pairs: count })
}

fn lost(terms: Vec<bool>) -> usize {
    terms.into_iter().filter(|is_lost| *is_lost).count()
}

impl<'a> Pair<'a> {
    async fn start(
        library: &Library,
        server: &'a Server,
        prefix: String,
        lease: Duration,
    ) -> Result<Pair<'a>, Failure> {
        let participant = async |id: &str| {
            let proxy = Proxy::start(&server.address).await?;
            let participant = Participant::start(library, &proxy.address, id, &prefix, 1, lease)?;
            participant.ready().await?;
            Ok::<_, Failure>((participant, proxy))
        };
        let participants = [participant("a").await?, participant("b").await?];
        let pair = Pair { server, prefix, participants };
        pair.holder().await?;
        Ok(pair)
    }

    /// Waits until one of the two holds, by the table and by what it is told.
    async fn holder(&self) -> Result<usize, Failure> {
        let deadline = Instant::now() + TIME_LIMIT;
        while Instant::now() < deadline {
            let rows = self.server.locks(&self.prefix).await?;
            let holds = |(participant, _): &(Participant, Proxy)| {
                rows.values().any(|row| row.is_of(&participant.id))
                    && participant.told().last().is_some_and(|told| told.gained)
            };
            if let Some(holder) = self.participants.iter().position(holds) {
                return Ok(holder);
            }
            sleep(Duration::from_millis(50)).await;
        }
        Err(format!("{}: nobody holds", self.prefix).into())
    }

    async fn standing(&self, holder: usize) -> Result<Standing, Failure> {
        let rows = self.server.locks(&self.prefix).await?;
        let told = self.participants[holder].0.told();
        let losses = told.iter().filter(|told| !told.gained).count();
        Ok(Standing { token: rows.values().next().map(|row| row.token), losses })
    }

    /// Returns true if the holder's term has ended within that time, once this has befallen it.
    async fn loses(
        &self,
        watched: Duration,
        fault: impl AsyncFnOnce(&Proxy),
    ) -> Result<bool, Failure> {
        let Ok(holder) = self.holder().await else {
            // Nobody has held it again since the fault before.
            return Ok(true);
        };
        let before = self.standing(holder).await?;
        fault(&self.participants[holder].1).await;
        sleep(watched).await;
        Ok(self.standing(holder).await? != before)
    }
}

fn table(figures: &[Figures]) -> String {
    let cells = |cell: &dyn Fn(&Figures) -> String| figures.iter().map(cell).collect::<Vec<_>>();
    let mut text = row("", cells(&|it| it.name.to_string()).into_iter());
    text += &row("---", cells(&|_| "---".to_string()).into_iter());
    let outlived = |levels: &[u32], lost: &[usize]| {
        let kept = levels.iter().zip(lost).take_while(|(_, lost)| **lost == 0);
        kept.last()
            .map_or("none".to_string(), |(level, _)| format!("{:.2}", f64::from(*level) / 100.0))
    };
    let each = |levels: &[u32], lost: &[usize]| {
        let each = levels.iter().zip(lost);
        let each = each.map(|(level, lost)| format!("{:.2}: {lost}", f64::from(*level) / 100.0));
        each.collect::<Vec<_>>().join(", ")
    };
    text += &row(
        "silence that the term outlives at every phase, leases",
        cells(&|it| outlived(&SILENCES, &it.silences)).into_iter(),
    );
    text += &row(
        &format!("terms lost of {}, by silence", figures.first().map_or(0, |it| it.pairs)),
        cells(&|it| each(&SILENCES, &it.silences)).into_iter(),
    );
    text += &row(
        &format!(
            "delay of each request that the term outlives for {DELAYED_LEASES} leases, leases"
        ),
        cells(&|it| outlived(&DELAYS, &it.delays)).into_iter(),
    );
    text += &row(
        &format!("terms lost of {}, by delay", figures.first().map_or(0, |it| it.pairs)),
        cells(&|it| each(&DELAYS, &it.delays)).into_iter(),
    );
    text += &row(
        "terms lost as the holder's flows die",
        cells(&|it| format!("{} of {}", it.dead_flows, it.pairs)).into_iter(),
    );
    text
}
