//! Leading for each of a changing set of names.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use spindle::{FencingToken, LeadEach, LockTable, Term};
use tokio::time::{Instant, sleep, timeout};

use crate::world::{EVENTUALLY, LEASE, World, lock_of, until};

/// The tasks at work, by their names.
type Work = Arc<Mutex<BTreeMap<String, Vec<FencingToken>>>>;

/// Until its end.
struct AtWork(Work, String, FencingToken);

impl AtWork {
    fn begin(work: &Work, name: &str, term: &Term) -> AtWork {
        work.lock().unwrap().entry(name.to_string()).or_default().push(term.token());
        AtWork(Arc::clone(work), name.to_string(), term.token())
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let mut work = self.0.lock().unwrap();
        work.get_mut(&self.1).unwrap().retain(|token| *token != self.2);
        work.retain(|_, tokens| !tokens.is_empty());
    }
}

fn workers(table: &LockTable, work: &Work) -> LeadEach<()> {
    let (table, work) = (table.clone(), Arc::clone(work));
    LeadEach::new(
        move |name| lock_of(&table, format!("tenant/{name}")),
        move |name, term| {
            let at_work = AtWork::begin(&work, &name, &term);
            async move {
                let _at_work = at_work;
                term.cancelled().await;
            }
        },
    )
}

async fn works_at(work: &Work, names: &[&str]) {
    until("these are at work, and no others", || {
        work.lock().unwrap().keys().eq(names).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_comes_is_led_for_and_one_that_goes_is_released_and_the_rest_go_on() {
    let world = World::start().await;
    let (table, work) = (world.table(), Work::default());
    let mut leads = workers(&table, &work);
    leads.set(["a", "b"]).unwrap();
    works_at(&work, &["a", "b"]).await;
    let kept = leads.lock("b").unwrap().has_lock().unwrap();
    leads.set(["b", "c"]).unwrap();
    works_at(&work, &["b", "c"]).await;
    let (gone, led) = timeout(EVENTUALLY, leads.next()).await.expect("it ends").unwrap();
    assert_eq!((&*gone, led.unwrap()), ("a", Some(())));
    assert!(!table.inspect("tenant/a").await.unwrap().is_held(), "it is released");
    assert!(leads.lock("a").is_none() && leads.lock("b").unwrap().has_lock() == Some(kept));
    // One that comes back before its task has ended is led for anew.
    leads.set(["c"]).unwrap();
    leads.set(["b", "c"]).unwrap();
    let (gone, _) = timeout(EVENTUALLY, leads.next()).await.expect("it ends").unwrap();
    assert_eq!(gone, "b");
    works_at(&work, &["b", "c"]).await;
    assert!(leads.lock("b").unwrap().has_lock() > Some(kept));
    timeout(EVENTUALLY, leads.stop()).await.expect("they end");
    assert!(work.lock().unwrap().is_empty());
    for name in ["tenant/b", "tenant/c"] {
        assert!(!table.inspect(name).await.unwrap().is_held(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_is_repeated_and_a_panic_or_a_name_that_cannot_be_ends_its_own_lead_alone() {
    let world = World::start().await;
    let (table, starts) = (world.table(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&starts);
    let mut leads = LeadEach::new(
        move |name| lock_of(&table, name),
        move |name: String, term: Term| {
            let counted = Arc::clone(&counted);
            async move {
                assert!(name != "panics", "out of ink");
                if name == "fails" && counted.fetch_add(1, Ordering::Relaxed) < 3 {
                    return Err("out of paper");
                }
                term.cancelled().await;
                Ok(())
            }
        },
    );
    for _ in 0..2 {
        leads.set(["fails", "panics", "works", ""]).unwrap();
        let mut ended = BTreeMap::new();
        for _ in 0..2 {
            let (name, led) = timeout(EVENTUALLY, leads.next()).await.expect("it ends").unwrap();
            ended.insert(name, led.unwrap_err());
        }
        assert!(ended[""].is_config() && ended["panics"].is_panic(), "{ended:?}");
        assert!(leads.lock("panics").is_none(), "the next `set` leads for it again");
    }
    until("the third repetition works", || (starts.load(Ordering::Relaxed) == 4).then_some(()))
        .await;
    assert!(leads.lock("works").unwrap().has_lock().is_some());
    leads.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_has_ended_is_led_again_before_its_end_is_told() {
    let world = World::start().await;
    let (table, starts) = (world.table(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&starts);
    let mut leads = LeadEach::new(
        move |name| lock_of(&table, name),
        move |_, _: Term| {
            counted.fetch_add(1, Ordering::Relaxed);
            async {}
        },
    );
    let deadline = Instant::now() + EVENTUALLY;
    while starts.load(Ordering::Relaxed) < 2 {
        assert!(Instant::now() < deadline, "it is led once");
        leads.set(["a"]).unwrap();
        sleep(LEASE).await;
    }
    for _ in 0..2 {
        let (name, led) = timeout(EVENTUALLY, leads.next()).await.expect("it ends").unwrap();
        assert_eq!((&*name, led.unwrap()), ("a", Some(())));
    }
    assert!(leads.lock("a").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_set_that_is_dropped_leaves_no_task_behind_and_no_lock_held() {
    let world = World::start().await;
    let (table, work) = (world.table(), Work::default());
    let mut leads = workers(&table, &work);
    leads.set(["a", "b"]).unwrap();
    works_at(&work, &["a", "b"]).await;
    drop(leads);
    timeout(EVENTUALLY, table.all_released()).await.expect("all have ended");
    assert!(work.lock().unwrap().is_empty());
    for name in ["tenant/a", "tenant/b"] {
        assert!(!table.inspect(name).await.unwrap().is_held(), "{name}");
    }
    sleep(LEASE).await;
    assert!(work.lock().unwrap().is_empty(), "and stay so");
}
