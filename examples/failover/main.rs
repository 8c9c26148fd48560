//! The lock at work: three contenders in processes of their own, on the embedded Spanner.
//!
//! ```text
//! cargo run --example failover
//! ```
//!
//! One leader is killed. One is stopped past its lease with a write decided; meanwhile a delegate, a
//! process to which it gave its fence as text, sends that write. Spanner refuses the delegate, and the
//! woken process refuses itself. One leader is asked to go. The verdict comes from outside: from the
//! `orders` table and the processes' logs, without the library.

mod delegate;
mod drawing;
mod fleet;
mod orders;
mod story;
mod verdict;
mod worker;

#[tokio::main]
async fn main() -> Result<(), fleet::Failure> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next(), arguments.next()) {
        (None, _, _) => tokio::select! {
            told = story::tell() => told,
            // The drop here kills the workers.
            _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        },
        (Some("worker"), Some(endpoint), Some(id)) => worker::work(&endpoint, &id).await,
        (Some("delegate"), Some(endpoint), Some(id)) => delegate::work(&endpoint, &id).await,
        _ => Err("usage: failover (no arguments)".into()),
    }
}
