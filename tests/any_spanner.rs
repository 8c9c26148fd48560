//! A check that the lock can rest on a Spanner. It tries the assumptions of `docs/safety.md`, and
//! the cases that need no fault injection, on whatever database it is pointed at.
//!
//! ```text
//! SPINDLE_TEST_DATABASE=projects/p/instances/i/databases/d cargo test --test any_spanner
//! ```
//!
//! It finds the server as every client does: by `SPANNER_EMULATOR_HOST`, or by credentials. It makes
//! three tables with names of its own and removes them at the end. Where a server has no
//! administration by REST, `-- --ddl` prints the statements, and `SPINDLE_TEST_TABLES=made` says
//! that somebody else has run them. Without a database it starts an embedded Spanner and goes there,
//! with nothing but these variables.

#[path = "any_spanner/cases.rs"]
mod cases;
#[path = "any_spanner/columns.rs"]
mod columns;
#[path = "any_spanner/conflicts.rs"]
mod conflicts;
#[path = "any_spanner/place.rs"]
mod place;
#[path = "any_spanner/points.rs"]
mod points;
#[path = "any_spanner/report.rs"]
mod report;

use std::process::{Command, ExitCode};
use std::sync::Arc;

use place::{Failure, Place};
use report::{Report, Verdict};
use spindle_emulator::Emulator;

const DATABASE: &str = "SPINDLE_TEST_DATABASE";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|it| it == "--ddl") {
        println!("{}", place::ddl(place::MADE));
        return ExitCode::SUCCESS;
    }
    if !is_wanted(&arguments) || arguments.iter().any(|it| it == "--list") {
        println!("any_spanner: test");
        return ExitCode::SUCCESS;
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("any_spanner: no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let done = runtime.block_on(async {
        match std::env::var(DATABASE) {
            Ok(database) => examine(&database).await,
            Err(_) => on_an_embedded_spanner().await,
        }
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("any_spanner: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns true if `cargo test` with these arguments means this test, which has the name of its file.
fn is_wanted(arguments: &[String]) -> bool {
    let mut is_value = false;
    let filters = arguments.iter().filter(|argument| {
        let is_filter = !is_value && !argument.starts_with('-');
        is_value =
            matches!(argument.as_str(), "--test-threads" | "--skip" | "--format" | "--color");
        is_filter
    });
    let filters: Vec<_> = filters.collect();
    filters.is_empty() || filters.iter().any(|filter| "any_spanner".contains(&**filter))
}

/// Goes through everything; says whether all of it held.
async fn examine(database: &str) -> Result<bool, Failure> {
    println!("{}", place::cost(database));
    let place = Arc::new(Place::make(database).await?);
    let mut report = Report::default();
    points::check(&place, &mut report).await;
    let can_be_locked = report.held(points::READ_TIMESTAMP);
    check_says_so(&place, can_be_locked, &mut report).await;
    if can_be_locked {
        columns::check(&place, &mut report).await;
        cases::hold(&place, &mut report).await;
        cases::the_simple_example(&place, &mut report).await;
    } else {
        report
            .add("the cases", Verdict::NotApplicable("not run: no lock can be taken here".into()));
    }
    place.remove().await?;
    println!("{report}");
    Ok(report.is_well())
}

/// `LockTable::check` has to say of a Spanner that no lock can be taken on it.
async fn check_says_so(place: &Place, can_be_locked: bool, report: &mut Report) {
    let verdict = match (place.table().check().await, can_be_locked) {
        (Ok(_), true) => Verdict::Held("finds nothing wrong".into()),
        (Ok(_), false) => {
            Verdict::Broken("finds nothing wrong, though no lock can be taken".into())
        }
        (Err(error), true) => Verdict::Broken(format!("complains of a table in order: {error}")),
        (Err(error), false) if error.to_string().contains("read timestamp") => {
            Verdict::Held(format!("says: {error}"))
        }
        (Err(error), false) => Verdict::Broken(format!("says something else: {error}")),
    };
    report.add("`LockTable::check` tells the truth", verdict);
}

/// Starts itself again, with a server that it knows by the environment alone.
async fn on_an_embedded_spanner() -> Result<bool, Failure> {
    let spanner = Emulator::start().await?;
    let database = "projects/embedded/instances/embedded/databases/embedded";
    spanner.create_database(database, "").await?;
    let mut examination = Command::new(std::env::current_exe()?);
    examination.env(DATABASE, database).env("SPANNER_EMULATOR_HOST", spanner.address().to_string());
    let status = tokio::task::spawn_blocking(move || examination.status()).await??;
    println!("the embedded Spanner counted {} requests", spanner.requests().total());
    spanner.stop().await;
    Ok(status.success())
}
