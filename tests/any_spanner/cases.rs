//! The cases that need no fault injection, in real time, each on locks of its own and all at once.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use spindle::google_cloud_spanner::key;
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::job::JobOutcome;
use spindle::{CancellationToken, Fence, FencingToken, LockTable, RunHandle, Spindle};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use crate::place::{Failure, Place};
use crate::report::{Report, Verdict};

/// Long enough for a server at some distance.
const LEASE: Duration = Duration::from_secs(3);

/// Far more than anything here takes.
const TIME_LIMIT: Duration = Duration::from_secs(90);

type Case = Result<String, Failure>;

pub async fn hold(place: &Arc<Place>, report: &mut Report) {
    let place = || Arc::clone(place);
    let running = [
        (
            "an instance alone takes a free lock, and everybody is told so",
            tokio::spawn(alone(place())),
        ),
        (
            "of racing first acquisitions one wins, and heartbeats keep it",
            tokio::spawn(racing(place())),
        ),
        ("two instances with one id hold one at a time", tokio::spawn(same_id(place()))),
        (
            "a crashed holder's lock is taken when its lease has run out, not before",
            tokio::spawn(crashed(place())),
        ),
        (
            "a release hands over without waiting for the lease, to a later token",
            tokio::spawn(released(place())),
        ),
        (
            "tokens increase though the row is deleted under its holder",
            tokio::spawn(deleted(place())),
        ),
        (
            "a fenced write of an earlier term is refused, of the present one accepted",
            tokio::spawn(fenced(place())),
        ),
        ("a guard excludes others until it is released", tokio::spawn(guarded(place()))),
        ("a job runs on one node of two", tokio::spawn(once(place()))),
        ("a seized lock goes to the one it is seized for", tokio::spawn(seized(place()))),
        ("a peer's half of a takeover is written over", tokio::spawn(half_taken(place()))),
        ("names are data, whatever is in them", tokio::spawn(named(place()))),
    ];
    for (name, case) in running {
        let verdict = match case.await {
            Ok(Ok(seen)) => Verdict::Held(seen),
            Ok(Err(error)) => Verdict::Broken(error.to_string()),
            Err(panic) => Verdict::Broken(panic.to_string()),
        };
        report.add(name, verdict);
    }
}

/// An instance that contends.
struct Contender {
    lock: Spindle,
    cancel: CancellationToken,
    running: RunHandle,
}

impl Contender {
    fn start(table: &LockTable, name: &str, id: &str) -> Result<Contender, Failure> {
        Contender::with_lease(LEASE, table, name, id)
    }

    fn with_lease(
        lease: Duration,
        table: &LockTable,
        name: &str,
        id: &str,
    ) -> Result<Contender, Failure> {
        let lock = table.lock(name).id(id).lease(lease).build()?;
        let cancel = CancellationToken::new();
        let running = lock.run(cancel.clone());
        Ok(Contender { lock, cancel, running })
    }

    async fn holds(&self) -> Result<FencingToken, Failure> {
        held(&self.lock).await
    }

    async fn stop(self) -> Result<(), Failure> {
        self.cancel.cancel();
        Ok(timeout(TIME_LIMIT, self.running).await??)
    }
}

async fn held(lock: &Spindle) -> Result<FencingToken, Failure> {
    until(&format!("{} holds `{}`", lock.id(), lock.name()), || lock.has_lock()).await
}

async fn until<T>(what: &str, condition: impl Fn() -> Option<T>) -> Result<T, Failure> {
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        if let Some(found) = condition() {
            return Ok(found);
        }
        if Instant::now() > deadline {
            return Err(format!("never: {what}").into());
        }
        sleep(Duration::from_millis(5)).await;
    }
}

fn expect(held: bool, otherwise: impl Into<String>) -> Result<(), Failure> {
    if held { Ok(()) } else { Err(otherwise.into().into()) }
}

async fn alone(place: Arc<Place>) -> Case {
    let table = place.table();
    let a = Contender::start(&table, "alone", "a")?;
    let token = a.holds().await?;
    expect(a.lock.verify().await? == token, "the row has another token")?;
    let state = place.table().inspect("alone").await?;
    let is_as_said = state.holder() == Some("a") && state.token == Some(token);
    expect(is_as_said, format!("the leader is {state:?}"))?;
    a.stop().await?;
    expect(!table.inspect("alone").await?.is_held(), "somebody leads after the release")?;
    Ok(String::new())
}

async fn racing(place: Arc<Place>) -> Case {
    let mut contenders = Vec::new();
    for number in 0..4 {
        // A busy machine may hold heartbeats up for as long as a short lease.
        let (table, id) = (place.table(), format!("node-{number}"));
        contenders.push(Contender::with_lease(LEASE * 4, &table, "racing", &id)?);
    }
    let token = until("one holds", || contenders.iter().find_map(|it| it.lock.has_lock())).await?;
    let end = Instant::now() + LEASE * 6;
    while Instant::now() < end {
        let held: Vec<_> = contenders.iter().filter_map(|it| it.lock.has_lock()).collect();
        expect(held.len() <= 1, format!("two hold at once: {held:?}"))?;
        expect(held.first().is_none_or(|it| *it == token), "another took a lock that is kept")?;
        sleep(Duration::from_millis(10)).await;
    }
    expect(contenders.iter().any(|it| it.lock.has_lock() == Some(token)), "the winner lost it")?;
    for contender in contenders {
        contender.stop().await?;
    }
    Ok("four contenders, one and a half leases".into())
}

async fn same_id(place: Arc<Place>) -> Case {
    let a = Contender::start(&place.table(), "same", "same")?;
    let b = Contender::start(&place.table(), "same", "same")?;
    let end = Instant::now() + LEASE * 2;
    let mut seen = 0;
    while Instant::now() < end {
        let held = [&a, &b].iter().filter(|it| it.lock.has_lock().is_some()).count();
        expect(held <= 1, "both hold at once")?;
        seen += held;
        sleep(Duration::from_millis(10)).await;
    }
    expect(seen > 0, "neither ever held")?;
    a.stop().await?;
    b.stop().await?;
    Ok(String::new())
}

/// A process of its own would be killed; here its runtime is, with everything in it.
async fn crashed(place: Arc<Place>) -> Case {
    let (database, locks) = (place.database().to_string(), place.locks());
    let dies = std::thread::spawn(move || -> Result<FencingToken, Failure> {
        let runtime = tokio::runtime::Runtime::new()?;
        let token = runtime.block_on(async {
            let table = LockTable::new(database, locks);
            let a = Contender::start(&table, "crashed", "a")?;
            let token = a.holds().await?;
            sleep(LEASE).await;
            expect(a.lock.has_lock() == Some(token), "it lost the lock before it died")?;
            std::mem::forget(a);
            Ok::<_, Failure>(token)
        });
        runtime.shutdown_background();
        token
    });
    let first =
        tokio::task::spawn_blocking(move || dies.join()).await?.map_err(|_| "panicked")??;
    let state = place.table().inspect("crashed").await?;
    expect(state.is_held(), format!("the dead holder's lock is {:?}", state.holding))?;
    let b = Contender::start(&place.table(), "crashed", "b")?;
    let age = state.heartbeat_age.unwrap_or_default();
    let (begun, second) = (Instant::now(), b.holds().await?);
    let waited = age + begun.elapsed();
    expect(second > first, format!("token {second} after {first}"))?;
    // The age was read a little before the clock here began.
    expect(waited >= LEASE - Duration::from_millis(500), format!("taken after {waited:?}"))?;
    b.stop().await?;
    Ok(format!(
        "taken {:.2} leases after the last heartbeat",
        waited.as_secs_f64() / LEASE.as_secs_f64()
    ))
}

async fn released(place: Arc<Place>) -> Case {
    let a = Contender::start(&place.table(), "released", "a")?;
    let first = a.holds().await?;
    let b = Contender::start(&place.table(), "released", "b")?;
    sleep(LEASE / 2).await;
    a.stop().await?;
    let begun = Instant::now();
    let second = b.holds().await?;
    let took = begun.elapsed();
    expect(second > first, format!("token {second} after {first}"))?;
    expect(took < LEASE, format!("handed over after {took:?}"))?;
    b.stop().await?;
    Ok(format!("after {} ms", took.as_millis()))
}

async fn deleted(place: Arc<Place>) -> Case {
    let a = Contender::start(&place.table(), "deleted", "a")?;
    let first = a.holds().await?;
    let keys = KeySet::builder().add_key(key!["deleted"]).build();
    let delete = Mutation::delete(place.locks(), keys);
    place.write(vec![delete]).await?;
    let next = until("a later term", || a.lock.has_lock().filter(|token| *token != first)).await?;
    expect(next > first, format!("token {next} after {first}"))?;
    a.stop().await?;
    Ok(String::new())
}

async fn fenced(place: Arc<Place>) -> Case {
    let a = Contender::start(&place.table(), "fenced", "a")?;
    a.holds().await?;
    let term = a.lock.term().ok_or("the term ended by itself")?;
    // Travelled as JSON: not even its own process knows any more whether the term goes on.
    let early: Fence = serde_json::from_str(&serde_json::to_string(&term.fence())?)?;
    write_fenced(&early, &place, 1).await?;
    let b = Contender::start(&place.table(), "fenced", "b")?;
    a.stop().await?;
    b.holds().await?;
    let late = write_fenced(&early, &place, 2).await;
    let Err(error) = late else { return Err("the late write was accepted".into()) };
    expect(error.is_fenced(), format!("the late write ended with {error}"))?;
    let n = place.point(&place.client, "fenced").await?.and_then(|point| point.n);
    expect(n == Some(1), format!("the late write changed the row to {n:?}"))?;
    let fence = b.lock.term().ok_or("the term ended by itself")?.fence();
    write_fenced(&fence, &place, 3).await?;
    b.stop().await?;
    Ok(String::new())
}

/// Writes under a fence, and again where nobody knows what became of it: it sets a value.
async fn write_fenced(fence: &Fence, place: &Place, n: i64) -> Result<(), spindle::Error> {
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        match fence.write(&place.client, [place.set("fenced", n)]).await {
            Err(error) if !error.is_fenced() && Instant::now() < deadline => {}
            written => return written.map(|_| ()),
        }
    }
}

async fn guarded(place: Arc<Place>) -> Case {
    let lock = |id: &str| place.table().lock("guarded").id(id).lease(LEASE).build();
    let (a, b) = (lock("a")?, lock("b")?);
    let guard = timeout(TIME_LIMIT, a.acquire()).await??;
    expect(b.try_acquire().await?.is_none(), "a second guard while the first is there")?;
    let first = guard.token();
    guard.release().await;
    let guard = timeout(TIME_LIMIT, b.acquire()).await??;
    expect(guard.token() > first, "the second guard has no later token")?;
    guard.release().await;
    Ok(String::new())
}

async fn once(place: Arc<Place>) -> Case {
    let table = place.table();
    let slot = table.inspect("once").await?.read_at;
    let lock = || place.table().lock("once").lease(LEASE);
    let (a, b) = (lock(), lock());
    let job = |_| async { Ok::<_, std::convert::Infallible>(7) };
    let (a, b) = tokio::join!(a.run_once(slot, job), b.run_once(slot, job));
    let ran = |it: &JobOutcome<i32>| usize::from(matches!(it, JobOutcome::Ran(7)));
    let (a, b) = (a?, b?);
    expect(ran(&a) + ran(&b) == 1, format!("{a:?} and {b:?}"))?;
    let late = lock().run_once(slot, job).await?;
    expect(matches!(late, JobOutcome::Skipped { .. }), format!("a late node: {late:?}"))?;
    Ok(String::new())
}

async fn seized(place: Arc<Place>) -> Case {
    let table = place.table();
    let a = Contender::start(&table, "seized", "a")?;
    let first = a.holds().await?;
    let b = Contender::start(&place.table(), "seized", "b")?;
    let c = Contender::start(&place.table(), "seized", "c")?;
    table.evict("seized").to("c").await?;
    let second = c.holds().await?;
    expect(second > first, format!("token {second} after {first}"))?;
    for contender in [a, b, c] {
        contender.stop().await?;
    }
    Ok(String::new())
}

async fn half_taken(place: Arc<Place>) -> Case {
    // As `spindle_rs` leaves them: an expired row, its takeover begun, its token never changed.
    let row =
        |name: &str| Mutation::new_insert_or_update_builder(place.locks()).set("name").to(name);
    let lock = row("half").set("heartbeat").to("2020-01-01T00:00:05Z");
    let lock = lock.set("token").to("2020-01-01T00:00:00.000001Z").set("writer").to("peer").build();
    let takeover = row("half_1577836800000001000").build();
    place.write(vec![lock, takeover]).await?;
    let begun = Instant::now();
    let a = Contender::start(&place.table(), "half", "a")?;
    a.holds().await?;
    let took = begun.elapsed();
    a.stop().await?;
    Ok(format!("after {:.2} leases", took.as_secs_f64() / LEASE.as_secs_f64()))
}

async fn named(place: Arc<Place>) -> Case {
    let names = ["o'brien", "a\"b\\c", "größe ☃", "-- DROP", "named_1", "named_10"];
    for name in names {
        let a = Contender::start(&place.table(), name, "it's me")?;
        let token = a.holds().await?;
        let state = place.table().inspect(name).await?;
        let is_as_said = state.token == Some(token) && state.holder() == Some("it's me");
        expect(is_as_said, format!("{name}: {state:?}"))?;
        a.stop().await?;
    }
    Ok(format!("{} names", names.len()))
}

/// The one example that doesn't start a server of its own.
pub async fn the_simple_example(place: &Place, report: &mut Report) {
    let name = "the example `simple` leads, and lets go when it is told to";
    let verdict = match simple(place).await {
        Ok(Some(line)) => Verdict::Held(line),
        Ok(None) => {
            Verdict::NotApplicable("it is not built: `cargo build --example simple`".into())
        }
        Err(error) => Verdict::Broken(error.to_string()),
    };
    report.add(name, verdict);
    let others = "some need the faults of the embedded Spanner; `on_google long` runs the rest";
    report.add("the other examples", Verdict::NotApplicable(others.into()));
}

async fn simple(place: &Place) -> Result<Option<String>, Failure> {
    let this = std::env::current_exe()?;
    let built = this.parent().and_then(|deps| deps.parent()).ok_or("no directory of its own")?;
    let program = built.join("examples/simple");
    if !program.exists() {
        return Ok(None);
    }
    let mut child = Command::new(program)
        .args(["--db", place.database(), "--table", &place.locks(), "--name", "simple"])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("it has no output")?).lines();
    let leads = async {
        while let Some(line) = lines.next_line().await? {
            if line.contains("leader active (me)") {
                return Ok::<_, Failure>(());
            }
        }
        Err("it ended before it led".into())
    };
    timeout(TIME_LIMIT, leads).await.map_err(|_| "it never led")??;
    let pid = child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
    rustix::process::kill_process(pid.ok_or("it is gone")?, rustix::process::Signal::TERM)?;
    let status = timeout(TIME_LIMIT, child.wait()).await??;
    expect(status.success(), format!("it ended with {status}"))?;
    expect(!place.table().inspect("simple").await?.is_held(), "it left the lock held")?;
    Ok(Some(String::new()))
}
