//! The cost of a poll of a large group.

use std::time::Duration;

use spindle::{CancellationToken, LockTable};
use spindle_fleet::{Member, Members};
use tokio::time::{Instant, interval, sleep};

use crate::parts::{Failure, Server, Times, load};

const GROUP: &str = "group";
/// So long that no heartbeat disturbs the count.
const LONG: Duration = Duration::from_secs(120);
const POLLS: u32 = 100;
const INTERVAL: Duration = Duration::from_secs(1);
/// For so long everybody polls.
const WATCHED: Duration = Duration::from_secs(20);

/// So many members; then one poll after the other, then all members poll at the default interval.
pub async fn measure(server: &mut Server, members: usize) -> Result<(), Failure> {
    let (table, cancel) = (server.table(), CancellationToken::new());
    let join = |number| {
        let member = Member::new(&table, GROUP).id(format!("member-{number}")).lease(LONG);
        let member = member.info(format!("http://10.0.0.{number}:8080")).build()?;
        Ok((member.run(cancel.clone()), member))
    };
    let joined = (0..members).map(join).collect::<Result<Vec<_>, Failure>>()?;
    while Members::new(&table, GROUP).list().await?.len() < members {
        sleep(Duration::from_millis(100)).await;
    }
    let before = server.requests()?;
    let took = Times::from_iter(polls(&table, POLLS).await?);
    println!(
        "fleets-poll: ok members={members} requests={:.2} rows={} {}",
        (server.requests()? - before) as f64 / f64::from(POLLS),
        Members::new(&table, GROUP).list().await?.len(),
        took.told("", 2),
    );
    everybody(server, members).await?;
    cancel.cancel();
    for (running, _) in joined {
        running.await?;
    }
    Ok(())
}

async fn polls(table: &LockTable, count: u32) -> Result<Vec<Duration>, Failure> {
    let mut took = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        Members::new(table, GROUP).list().await?;
        took.push(start.elapsed());
    }
    Ok(took)
}

/// So many poll once a second, each at a phase of its own.
async fn everybody(server: &mut Server, members: usize) -> Result<(), Failure> {
    let (before, start) = (server.requests()?, Instant::now());
    let mut watching = Vec::new();
    // A few connections, since so many in one process are no measure of anything.
    let tables: Vec<LockTable> = (0..4).map(|_| server.table()).collect();
    for number in 0..members {
        let table = tables[number % tables.len()].clone();
        watching.push(tokio::spawn(async move {
            sleep(INTERVAL.mul_f64(rand::random())).await;
            let (mut due, mut took) = (interval(INTERVAL), Vec::new());
            while start.elapsed() < WATCHED {
                due.tick().await;
                took.push(polls(&table, 1).await);
            }
            took
        }));
    }
    let (mut took, mut failed) = (Vec::new(), 0);
    for watching in watching {
        for poll in watching.await? {
            poll.map_or_else(|_| failed += 1, |poll| took.extend(poll));
        }
    }
    let over = start.elapsed().as_secs_f64();
    let requests = (server.requests()? - before) as f64 / over;
    println!(
        "fleets-polls: ok members={members} requests_a_second={requests:.0} \
         rows_a_second={:.0} {} failed={failed}",
        requests * members as f64,
        Times::from_iter(took).told("", 2),
    );
    println!("{}", load());
    Ok(())
}
