//! The embedded Spanner as a part of a benchmark.

use spindle_emulator::Emulator;

use crate::parts::Failure;

pub const DATABASE: &str = "projects/p/instances/i/databases/d";

/// Serves a database with these tables until the parent is gone; each line it reads asks for the
/// counts.
pub async fn serve(ddl: &str) -> Result<(), Failure> {
    let spanner = Emulator::start().await?;
    spanner.create_database(DATABASE, ddl).await?;
    println!("{}", spanner.endpoint());
    let counts = spanner.requests();
    let counting = tokio::task::spawn_blocking(move || {
        for _ in std::io::stdin().lines() {
            let each = counts.each();
            let each: Vec<_> = each.iter().map(|(rpc, count)| format!("{rpc}={count}")).collect();
            println!("{} sessions={}", each.join(" "), counts.sessions().len());
        }
    });
    Ok(counting.await?)
}
