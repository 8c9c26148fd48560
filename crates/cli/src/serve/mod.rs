//! `serve`: metrics, health and a web page of who holds what, read-only.

pub mod allowed_hosts;
pub mod answers;
pub mod connections;
pub mod gauges;
mod lanes;
mod poller;
mod routes;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use spindle::{CancellationToken, LockTable};
use tokio::net::TcpListener;

use crate::arguments::Serve;
use crate::failure::{Code, Failure, Result};
use crate::output::{Output, complain};
use crate::place::Place;
use crate::signals::Signals;
use allowed_hosts::AllowedHosts;
use connections::{Limits, Listener, answer, connections_max};
use lanes::Lanes;
use poller::Poller;

const LIMITS: Limits = Limits {
    // A page that listens comes back by itself.
    connection: Some(Duration::from_secs(60 * 60)),
    keep_alive: true,
};

pub async fn serve(place: &Place, out: &Output, serve: &Serve) -> Result<ExitCode> {
    // An error at the start ends the program; a later one is shown.
    place.locks.list().next().await?;
    let listener = listen(serve.listen).await?;
    let address = listener.local_addr()?;
    let (mut signals, end) = (Signals::listen()?, CancellationToken::new());
    let told = end.clone();
    tokio::spawn(async move {
        signals.end().await;
        told.cancel();
    });
    // This connection comes back by itself after Spanner has lost its session.
    let table = LockTable::new(&place.database, &place.table);
    let poller = Arc::new(Poller::new(table.clone(), connections_max() / 2));
    let lanes = Arc::new(Lanes::new(table, Arc::clone(&poller)));
    let polling = tokio::spawn(until_end(Arc::clone(&poller).follow(), end.clone()));
    let walking = tokio::spawn(until_end(Arc::clone(&lanes).walk(), end.clone()));
    let page = routes::Page { title: format!("{} {}", place.database, place.table) };
    let routes = routes::routes(
        page,
        Arc::clone(&poller),
        lanes,
        AllowedHosts::new(&serve.allow_host),
        serve.metrics_locks,
    );
    out.text(&format!("Listens on http://{address}/ until Ctrl-C.\n"))?;
    if !address.ip().is_loopback() {
        complain(&format!("whoever reaches {address} sees who holds what: there is no password"));
    }
    answer(Listener::Tcp(listener), routes, LIMITS, &end, || poller.close()).await;
    for task in [polling, walking] {
        task.await.map_err(|error| Failure::new(Code::No, format!("a task failed: {error}")))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub async fn listen(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::new(Code::Usage, format!("--listen {address}: {error}"))
            .cure("choose another address or port; port 0 takes any that is free")
    })
}

async fn until_end(work: impl Future<Output = ()>, end: CancellationToken) {
    end.run_until_cancelled(work).await;
}
