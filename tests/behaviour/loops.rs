//! The loops that the docs show, in trouble: none works after its term, none spins, each leads again,
//! and each ends when it is told to.
//!
//! The docs quote the code between the marks, word for word.

use std::cell::RefCell;
use std::pin::Pin;
use std::time::Duration;

use spindle::google_cloud_spanner::client::DatabaseClient;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::{CancellationToken, Error, Fence, FencingToken, Spindle, Term};
use tokio::time::{Instant, sleep, timeout};

use crate::stalls::Suspendable;
use crate::world::{LEASE, LOCK, World, until};

/// Quicker than a loop of the library's, which would tell first.
const PACE: Duration = Duration::from_millis(100);

/// The work of the loop of this thread; a test has one thread.
#[derive(Default)]
struct Book {
    client: Option<DatabaseClient>,
    lock: Option<Spindle>,
    attempts: usize,
    done: Vec<FencingToken>,
}

thread_local! {
    static BOOK: RefCell<Book> = RefCell::default();
}

fn book<T>(look: impl FnOnce(&mut Book) -> T) -> T {
    BOOK.with_borrow_mut(look)
}

fn note(token: FencingToken) {
    book(|book| {
        book.attempts += 1;
        let held = book.lock.as_ref().and_then(Spindle::has_lock);
        assert_eq!(held, Some(token), "it works after its term");
        book.done.push(token);
    });
}

/// Effects without a fence.
async fn serve(term: Term) {
    while !term.is_cancelled() {
        note(term.token());
        sleep(PACE).await;
    }
}

async fn work(token: FencingToken) {
    note(token);
}

async fn tick() {
    sleep(PACE).await;
}

/// An effect under the fence: a refused one is an attempt, and no work.
async fn bill(fence: Fence) -> Result<(), Error> {
    let client = book(|book| {
        book.attempts += 1;
        book.client.clone().unwrap()
    });
    let order = Mutation::new_insert_or_update_builder("orders").set("id").to("o-1").build();
    fence.write(&client, [order]).await?;
    book(|book| book.done.push(fence.token()));
    Ok(())
}

async fn import(fence: Fence) -> Result<(), std::io::Error> {
    bill(fence).await.map_err(std::io::Error::other)?;
    sleep(PACE).await;
    Ok(())
}

type Looping = Pin<Box<dyn Future<Output = spindle::Result<()>> + Send>>;

fn readmes(lock: Spindle, shutdown: CancellationToken) -> Looping {
    Box::pin(async move {
        // Quoted {
        lock.lead(shutdown, serve).await?;
        // }
        Ok(())
    })
}

fn leads(lock: Spindle, shutdown: CancellationToken) -> Looping {
    async fn bill(_: &DatabaseClient, fence: Fence) -> Result<(), Error> {
        self::bill(fence).await
    }
    Box::pin(async move {
        let client = book(|book| book.client.clone().unwrap());
        // Quoted {
        let task = move |term: Term| {
            let client = client.clone(); // for this term; the next one needs its own
            async move {
                loop {
                    tokio::select! {
                        () = term.cancelled() => return Ok::<(), spindle::Error>(()),
                        () = tick() => bill(&client, term.fence()).await?,
                    }
                }
            }
        };
        lock.lead(shutdown, task).await?;
        // }
        Ok(())
    })
}

fn watched(lock: Spindle, shutdown: CancellationToken) -> Looping {
    Box::pin(async move {
        // Quoted {
        let task = |term: Term| async move {
            while !term.is_cancelled() {
                import(term.fence()).await?;
                term.progress();
            }
            Ok::<(), std::io::Error>(())
        };
        lock.lead(shutdown, task).watchdog(Duration::from_secs(300)).await?;
        // }
        Ok(())
    })
}

fn guards(lock: Spindle, shutdown: CancellationToken) -> Looping {
    let acquiring = async move {
        // Quoted {
        loop {
            let guard = lock.acquire().await?;
            loop {
                tokio::select! {
                    () = guard.cancelled() => break,
                    () = tick() => {}
                }
                match bill(guard.fence()).await {
                    Err(error) if error.is_fenced() => break, // the term is over
                    billed => billed?,
                }
            }
        } // a guard that is dropped is released, if it still holds
        // }
    };
    Box::pin(async move { shutdown.run_until_cancelled(acquiring).await.unwrap_or(Ok(())) })
}

fn asks(lock: Spindle, cancel: CancellationToken) -> Looping {
    Box::pin(async move {
        // Quoted {
        let running = lock.run(cancel.clone());
        while !cancel.is_cancelled() {
            if let Some(token) = lock.has_lock() {
                work(token).await;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        running.await // once the lock is released
        // }
    })
}

#[derive(Clone, Copy, Debug)]
enum Trouble {
    Evicted,
    Suspended,
}

async fn survives(shape: fn(Spindle, CancellationToken) -> Looping) {
    for trouble in [Trouble::Evicted, Trouble::Suspended] {
        let world = World::start().await;
        let (machine, clock) = Suspendable::new();
        let lock = world.table().lock(LOCK).id("a").lease(LEASE).clock(clock).build().unwrap();
        let client = Some(world.client().await);
        let seen = Some(lock.clone());
        book(|book| *book = Book { client, lock: seen, ..Book::default() });
        let shutdown = CancellationToken::new();
        let looping = tokio::spawn(shape(lock, shutdown.clone()));
        until("it works", || book(|book| (book.done.len() > 3).then_some(()))).await;
        let (first, began) = (book(|book| book.done[0]), Instant::now());
        book(|book| book.attempts = 0);

        match trouble {
            Trouble::Evicted => drop(world.table().evict(LOCK).await.unwrap()),
            Trouble::Suspended => machine.suspend(LEASE * 2),
        }
        until("it leads again", || book(|book| book.done.last() > Some(&first)).then_some(()))
            .await;
        sleep(LEASE).await;
        let (attempts, paces) =
            (book(|book| book.attempts), began.elapsed().as_millis() / PACE.as_millis());
        assert!(attempts as u128 <= paces + 5, "{trouble:?}: {attempts} attempts in {paces} paces");
        assert!(book(|book| book.done.is_sorted()), "{trouble:?}: an old term works on");

        shutdown.cancel();
        timeout(LEASE / 2, looping).await.expect("it ends when it is told to").unwrap().unwrap();
        book(|book| (book.attempts, book.lock) = (0, None));
        until("it is released", || world.is_released().then_some(())).await;
        sleep(LEASE * 2).await;
        assert_eq!(book(|book| book.attempts), 0, "{trouble:?}: it works after its end");
    }
}

#[tokio::test(start_paused = true)]
async fn the_loop_of_the_readme_ends_with_its_term_and_leads_again() {
    survives(readmes).await;
}

#[tokio::test(start_paused = true)]
async fn the_loop_of_lead_ends_with_its_term_and_leads_again() {
    survives(leads).await;
}

#[tokio::test(start_paused = true)]
async fn the_loop_with_a_watchdog_ends_with_its_term_and_leads_again() {
    survives(watched).await;
}

#[tokio::test(start_paused = true)]
async fn the_loop_of_guards_ends_with_its_term_and_leads_again() {
    survives(guards).await;
}

#[tokio::test(start_paused = true)]
async fn the_loop_that_asks_works_in_no_term_that_is_over_and_leads_again() {
    survives(asks).await;
}

#[test]
fn the_loops_stand_so_in_the_docs() {
    let plain = |text: &str| {
        let lines = text.lines().map(str::trim);
        let lines = lines.map(|line| line.strip_prefix("///").unwrap_or(line).trim());
        let shown = lines.filter(|line| !line.starts_with("# "));
        shown.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
    };
    let docs = [
        include_str!("../../README.md"),
        include_str!("../../src/lock/handle.rs"),
        include_str!("../../src/lock/lead.rs"),
        include_str!("../../src/lock/guard.rs"),
        include_str!("../../src/lock/call.rs"),
    ]
    .map(plain);
    let quotes: Vec<&str> = include_str!("loops.rs").split("// Quoted {\n").skip(1).collect();
    assert!(quotes.len() > 4);
    for quote in quotes.iter().filter(|quote| quote.contains("\n        // }")) {
        let (quote, _) = quote.split_once("// }\n").unwrap();
        assert!(docs.iter().any(|doc| doc.contains(&plain(quote))), "not in the docs:\n{quote}");
    }
}
