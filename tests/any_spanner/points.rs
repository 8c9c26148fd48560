//! The proof's assumptions of Spanner, asked one by one. The page `docs/safety.md` says what each
//! is for.

use google_cloud_gax::error::rpc::Code;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::{self as client};

use crate::conflicts;
use crate::place::{COMMIT_TIMESTAMP, Failure, Place, Point, nanoseconds};
use crate::report::{Report, Verdict};

pub const READ_TIMESTAMP: &str = "a read that begins its transaction tells its timestamp";

/// Rounds of two clients in turn.
const ROUNDS: i64 = 20;

pub async fn check(place: &Place, report: &mut Report) {
    add(report, READ_TIMESTAMP, read_timestamp(place).await);
    let one = "one commit timestamp, in all columns and in the reply";
    add(report, one, one_timestamp(place).await);
    add(report, "an insert of a row that exists is ALREADY_EXISTS", already_exists(place).await);
    let order = "timestamps are in order for a second observer";
    add(report, order, in_order(place).await);
    let changed = "a commit whose reads have changed is ABORTED";
    add(report, changed, conflicts::changed_reads(place).await);
    let beside = "a heartbeat and a fence don't wait for each other";
    add(report, beside, conflicts::heartbeat_beside_a_fence(place).await);
    let idle = "an idle transaction holds nobody up for good";
    add(report, idle, conflicts::idle(place).await);
}

fn add(report: &mut Report, point: &str, found: Result<Verdict, Failure>) {
    report.add(point, found.unwrap_or_else(|error| Verdict::Broken(format!("an error: {error}"))));
}

async fn read_timestamp(place: &Place) -> Result<Verdict, Failure> {
    let committed = write(place, place.set("read", 1)).await?;
    let transaction = place.client.read_only_transaction().build().await?;
    let mut rows = transaction.execute_read(place.read("read")).await?;
    let found = Point::next(&mut rows).await?;
    Ok(match transaction.read_timestamp() {
        None => Verdict::Broken(
            "no read timestamp comes with the reply: no lock can be taken here".into(),
        ),
        Some(at) if committed.is_some_and(|committed| nanoseconds(at) < committed) => {
            Verdict::Broken(format!(
                "it lies before a commit that was acknowledged earlier: {at:?}"
            ))
        }
        Some(_) if found.is_none() => {
            Verdict::Broken("a strong read misses a committed row".into())
        }
        Some(_) => Verdict::Held(String::new()),
    })
}

async fn one_timestamp(place: &Place) -> Result<Verdict, Failure> {
    let row = Mutation::new_insert_builder(place.points()).set("id").to("one");
    let row = row.set("a").to(COMMIT_TIMESTAMP).set("b").to(COMMIT_TIMESTAMP).build();
    let committed = write(place, row).await?;
    let found = place.point(&place.client, "one").await?;
    let Some(Point { a: Some(a), b: Some(b), .. }) = found else {
        return Ok(Verdict::Broken(format!("the row reads {found:?}")));
    };
    Ok(match committed {
        None => Verdict::Broken("the reply to a commit carries no timestamp".into()),
        Some(committed) if a == b && b == committed => Verdict::Held(String::new()),
        Some(committed) => {
            Verdict::Broken(format!("columns have {a} and {b}, the reply has {committed}"))
        }
    })
}

async fn already_exists(place: &Place) -> Result<Verdict, Failure> {
    let insert = |n: i64| {
        let row = Mutation::new_insert_builder(place.points()).set("id").to("exists");
        row.set("n").to(n).build()
    };
    write(place, insert(1)).await?;
    let second = place.client.write_only_transaction().build().write(vec![insert(2)]).await;
    let found = place.point(&place.client, "exists").await?;
    Ok(match second {
        Ok(_) => Verdict::Broken("the second insert was accepted".into()),
        Err(error) if code(&error) != Some(Code::AlreadyExists) => {
            Verdict::Broken(format!("the second insert ended with {error}"))
        }
        Err(_) if found.and_then(|point| point.n) != Some(1) => {
            Verdict::Broken(format!("the row was changed all the same: {found:?}"))
        }
        Err(_) => Verdict::Held(String::new()),
    })
}

/// Two clients in turn: each sees the other's commit at once, and comes after it.
async fn in_order(place: &Place) -> Result<Verdict, Failure> {
    let mut last = 0;
    for n in 1..=ROUNDS {
        let (writer, reader) = if n % 2 == 0 {
            (&place.client, &place.observer)
        } else {
            (&place.observer, &place.client)
        };
        let written =
            writer.write_only_transaction().build().write(vec![place.set("order", n)]).await?;
        let Some(committed) = written.commit_timestamp.map(nanoseconds) else {
            return Ok(Verdict::Broken("the reply to a commit carries no timestamp".into()));
        };
        if committed <= last {
            return Ok(Verdict::Broken(format!(
                "a commit at {committed} came after one at {last}"
            )));
        }
        let transaction = reader.read_only_transaction().build().await?;
        let mut rows = transaction.execute_read(place.read("order")).await?;
        let seen = Point::next(&mut rows).await?.and_then(|point| point.n);
        if seen != Some(n) {
            return Ok(Verdict::Broken(format!(
                "the other client read {seen:?} after {n} was acknowledged"
            )));
        }
        // Without read timestamps, which is a point of its own, the commits' alone are compared.
        let read = transaction.read_timestamp().map(nanoseconds);
        if let Some(read) = read.filter(|read| *read < committed) {
            return Ok(Verdict::Broken(format!(
                "a strong read at {read} follows a commit at {committed}"
            )));
        }
        last = read.unwrap_or(committed).max(committed);
    }
    Ok(Verdict::Held(format!("{ROUNDS} rounds of two clients")))
}

/// Writes a row, and says at which commit timestamp.
async fn write(place: &Place, row: Mutation) -> Result<Option<i128>, Failure> {
    let written = place.client.write_only_transaction().build().write(vec![row]).await?;
    Ok(written.commit_timestamp.map(nanoseconds))
}

pub fn code(error: &client::Error) -> Option<Code> {
    error.status().map(|status| status.code)
}
