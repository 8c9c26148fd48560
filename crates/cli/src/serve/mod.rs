//! `serve`: metrics, health and a web page of who holds what, read-only.

pub mod allowed_hosts;
mod board;
pub mod connections;
pub mod event;
pub mod gauges;
mod lanes;
mod routes;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use spindle::{CancellationToken, LockTable};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::Serve;
use crate::failure::{Code, Failure, Result};
use crate::output::{Output, complain};
use crate::place::Place;
use allowed_hosts::AllowedHosts;
use board::Board;
use connections::{Limits, Listener, answer, connections_max};
use lanes::Lanes;

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
    let end = end_on_signal()?;
    // This connection comes back by itself after Spanner has lost its session.
    let table = LockTable::connect(&place.database, &place.table);
    let board = Arc::new(Board::new(table.clone(), connections_max() / 2));
    let lanes = Arc::new(Lanes::new(table, Arc::clone(&board)));
    let polling = tokio::spawn(until_end(Arc::clone(&board).follow(), end.clone()));
    let walking = tokio::spawn(until_end(Arc::clone(&lanes).walk(), end.clone()));
    let page = routes::Page { title: format!("{} {}", place.database, place.table) };
    let routes = routes::routes(
        page,
        Arc::clone(&board),
        lanes,
        AllowedHosts::new(&serve.allow_host),
        serve.metrics_locks,
    );
    out.text(&format!("Listens on http://{address}/ until Ctrl-C.\n"))?;
    if !address.ip().is_loopback() {
        complain(&format!("whoever reaches {address} sees who holds what: there is no password"));
    }
    answer(Listener::Tcp(listener), routes, LIMITS, &end, || board.close()).await;
    end.cancel();
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

/// A token that SIGINT and SIGTERM cancel.
pub fn end_on_signal() -> Result<CancellationToken> {
    let end = CancellationToken::new();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let ends = end.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = ends.cancelled() => {}
        }
        ends.cancel();
    });
    Ok(end)
}

async fn until_end(work: impl Future<Output = ()>, end: CancellationToken) {
    end.run_until_cancelled(work).await;
}
