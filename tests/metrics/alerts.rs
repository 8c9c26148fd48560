//! The alert rules, on what an exporter prints when all is well and when not.

use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use metrics_util::MetricKindMask;
use spindle::job::{JobOutcome, Slot};
use spindle::testing::Clock;
use spindle::{CancellationToken, Database, Ddl, LockTable, RunHandle, Spindle, Term};
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Emulator, Fault, Rpc};
use tokio::time::{advance, sleep};

use super::DATABASE;
use super::promtool::{INTERVAL, Recording};

/// The default, for which the rules are written.
const LEASE: Duration = Duration::from_secs(10);
const MINUTE: Duration = Duration::from_secs(60);

/// A service with an exporter, scraped on the virtual clock.
struct Service {
    emulator: Emulator,
    table: LockTable,
    exporter: PrometheusHandle,
    recording: Recording,
}

struct Leading {
    _lock: Spindle,
    cancel: CancellationToken,
    running: RunHandle,
}

impl Service {
    async fn start(exporter: PrometheusHandle) -> Service {
        let emulator = Emulator::start().await.unwrap();
        emulator.create_database(DATABASE, LockTable::ddl(Ddl::GoogleSql)).await.unwrap();
        let table = LockTable::new(Database::at(emulator.endpoint(), DATABASE), "locktable");
        Service { emulator, table, exporter, recording: Recording::default() }
    }

    fn lead(&self, name: &str) -> Leading {
        let lock = self.table.lock(name).id("a").lease(LEASE).clock(Clock::runtime());
        let lock = lock.build().unwrap();
        let cancel = CancellationToken::new();
        let running = lock.run(cancel.clone());
        Leading { _lock: lock, cancel, running }
    }

    /// Lets time pass, and expects these alerts at each scrape.
    async fn pass(&mut self, time: Duration, alerts: &[(&'static str, u32)]) {
        self.scrape(time).await;
        self.recording.expect(alerts);
    }

    /// The value that a scrape shows now.
    fn gauge(&self, name: &str, lock: &str) -> String {
        let (text, series) = (self.exporter.render(), format!("{name}{{lock=\"{lock}\"}} "));
        let value = text.lines().find_map(|line| line.strip_prefix(&*series));
        value.expect("there is such a series").to_string()
    }

    async fn scrape(&mut self, time: Duration) {
        for _ in 0..time.as_secs() / INTERVAL.as_secs() {
            sleep(INTERVAL).await;
            self.recording.scrape(&self.exporter.render());
        }
    }
}

impl Leading {
    async fn stop(self) {
        self.cancel.cancel();
        self.running.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn alerts_fire_once_for_a_cause_and_never_for_what_ended_well() {
    let buckets = [0.25, 1.0, 5.0];
    let builder = PrometheusBuilder::new();
    let builder = builder.set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &buckets);
    let recorder = builder.unwrap().build_recorder();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let mut service = Service::start(recorder.handle()).await;
    // Names are of this test alone: labels are the process's.
    let invoices = service.lead("invoices");
    let report = service.table.lock("report").id("a").lease(LEASE).clock(Clock::runtime());
    let report = report.build().unwrap();

    // 500 locks come and go; a guard comes and goes, and its instance stays; a job runs once.
    for wave in 0..5 {
        let leading: Vec<_> =
            (0..100).map(|n| service.lead(&format!("tenant-{wave}-{n}"))).collect();
        drop(report.acquire().await.unwrap());
        service.pass(INTERVAL * 3, &[]).await;
        for leading in leading {
            leading.stop().await;
        }
    }
    let job = service.table.lock("nightly").id("a").clock(Clock::runtime());
    let ran = job.run_once(Slot::every(MINUTE / 60), async |_| ()).await.unwrap();
    assert!(matches!(ran, JobOutcome::Ran(())));
    service.pass(MINUTE * 2, &[]).await;
    let text = service.exporter.render();
    let gone = text.lines().filter(|line| line.starts_with("spindle_held{lock=\"tenant-"));
    let gone: Vec<_> = gone.collect();
    assert_eq!(gone.len(), 500);
    assert!(gone.iter().all(|line| line.ends_with(" NaN")), "{gone:?}");

    // An outage, for fifty locks: one alert says so.
    let leading: Vec<_> = (0..50).map(|n| service.lead(&format!("late-{n}"))).collect();
    service.pass(MINUTE, &[]).await;
    service.emulator.inject(Fault::any().effect(Effect::Fail(Code::Unavailable)));
    // One caller gives up meanwhile.
    let (given_up, ()) = tokio::join!(
        report.acquire().within(MINUTE),
        service.pass(MINUTE * 3, &[("SpindleOutOfContact", 1)])
    );
    assert!(given_up.unwrap_err().is_not_acquired());
    service.emulator.clear_faults();
    service.pass(MINUTE, &[]).await;
    assert_eq!(service.gauge("spindle_contact_age_seconds", "report"), "0");

    // The task of a leader fails, and nobody leads in the pause.
    let cancel = CancellationToken::new();
    let failing = report
        .lead(cancel.clone(), |_| async { Err::<(), _>("no paper") })
        .pauses(MINUTE * 3, MINUTE * 3);
    tokio::join!(async { failing.await.unwrap() }, async {
        service.pass(MINUTE, &[("SpindleNoLeader", 1)]).await;
        cancel.cancel();
    });
    service.pass(MINUTE, &[]).await;
    assert_eq!(service.gauge("spindle_contending", "report"), "0");

    // The runtime is blocked again and again, for all of them.
    for _ in 0..5 {
        advance(LEASE / 4).await;
        service.scrape(INTERVAL * 3).await;
    }
    service.recording.expect(&[("SpindleStalls", 1)]);
    for leading in leading {
        leading.stop().await;
    }
    invoices.stop().await;
    service.pass(MINUTE * 10, &[]).await;
    service.recording.judge("alerts-of-a-service");
}

/// A `lead` goes on wanting the lock when it loses it.
#[tokio::test(start_paused = true)]
async fn the_age_of_contact_only_grows_in_an_outage_that_costs_a_leader_its_lock() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let service = Service::start(recorder.handle()).await;
    let ledger = service.table.lock("ledger").id("a").lease(LEASE).clock(Clock::runtime());
    let ledger = ledger.build().unwrap();
    let (leader, cancel) = (ledger.clone(), CancellationToken::new());
    let end = cancel.clone();
    let leading =
        tokio::spawn(
            async move { leader.lead(end, async |term: Term| term.cancelled().await).await },
        );
    sleep(LEASE).await;
    assert!(ledger.has_lock().is_some());
    service.emulator.inject(Fault::any().effect(Effect::Fail(Code::Unavailable)));
    let mut ages = vec![0.0];
    for _ in 0..40 {
        sleep(Duration::from_secs(1)).await;
        ages.push(service.gauge("spindle_contact_age_seconds", "ledger").parse::<f64>().unwrap());
    }
    assert!(ledger.has_lock().is_none() && ages[40] > 20.0, "{ages:?}");
    assert!(ages.is_sorted(), "{ages:?}");
    // A loop that ends later tells the recorder of another test.
    service.emulator.clear_faults();
    cancel.cancel();
    leading.await.unwrap().unwrap();
    drop(ledger);
    sleep(LEASE).await;
}

#[tokio::test(start_paused = true)]
async fn requests_are_counted_as_spanner_counts_them_and_acts_apart() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let service = Service::start(recorder.handle()).await;
    let leading: Vec<_> = (0..20).map(|n| service.lead(&format!("tenant-{n}"))).collect();
    sleep(MINUTE).await;
    for leading in leading {
        leading.stop().await;
    }
    let text = service.exporter.render();
    let sum = |start: &str| {
        let lines = text.lines().filter(|line| line.starts_with(start));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum::<u64>()
    };
    let rpc = |rpc: &str| sum(&format!("spindle_requests_total{{rpc=\"{rpc}\"}}"));
    let requests = service.emulator.requests();
    assert_eq!(rpc("read"), requests.get(Rpc::StreamingRead));
    assert_eq!(rpc("commit"), requests.get(Rpc::Commit));
    assert_eq!(rpc("query"), requests.get(Rpc::ExecuteStreamingSql));
    assert_eq!(rpc("rollback"), requests.get(Rpc::Rollback));
    let (acts, all) = (sum("spindle_acts_total"), sum("spindle_requests_total"));
    assert!(all > 20 && acts > all * 2, "{acts} acts, {all} requests");
}

#[tokio::test(start_paused = true)]
async fn labels_are_freed_and_an_exporter_forgets_what_is_gone() {
    let idle = Duration::from_secs(5);
    let recorder = PrometheusBuilder::new().idle_timeout(MetricKindMask::ALL, Some(idle));
    let recorder = recorder.build_recorder();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let mut service = Service::start(recorder.handle()).await;
    for wave in 0..11 {
        let leading: Vec<_> = (0..100).map(|n| service.lead(&format!("t-{wave}-{n}"))).collect();
        sleep(LEASE).await;
        for leading in leading {
            leading.stop().await;
        }
    }
    let _last = service.lead("last");
    sleep(LEASE).await;
    let text = service.exporter.render();
    assert!(text.contains("spindle_held{lock=\"last\"} 1\n"), "{text}");
    assert!(!text.contains("(others)"), "a thousand names were freed");
    // The exporter's time is real.
    std::thread::sleep(idle);
    service.scrape(INTERVAL).await;
    let text = service.exporter.render();
    assert!(!text.contains("t-0-0") && !text.contains("t-10-99"), "{text}");
    assert!(text.contains("spindle_held{lock=\"last\"} 1"), "it reports still: {text}");
}
