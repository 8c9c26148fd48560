//! `serve`: metrics, health and a web page of who holds what, read-only.

pub mod allowed_hosts;
pub mod answers;
pub mod connections;
pub mod gauges;
mod lanes;
pub mod peer;
mod poller;
mod routes;
mod unread;

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use spindle::{CancellationToken, LockTable};
use tokio::net::{TcpListener, TcpSocket};

use crate::arguments::{Common, Serve};
use crate::failure::{Code, Failure, Result};
use crate::output::{Output, complain};
use crate::place::database;
use crate::signals::Signals;
use crate::start::Start;
use allowed_hosts::AllowedHosts;
use connections::{Limits, Listener, answer, connections_max};
use lanes::Lanes;
use poller::Poller;

const LIMITS: Limits = Limits {
    // A page that listens comes back by itself.
    connection: Some(Duration::from_secs(60 * 60)),
    keep_alive: true,
    connections: None,
    unsent: None,
    // An hour ends it anyway.
    unread: Duration::from_secs(60 * 60),
};

pub async fn serve(common: &Common, out: &Output, serve: &Serve) -> Result<ExitCode> {
    let database = database(common)?;
    let listener = listen("--listen", serve.listen)?;
    let address = listener.local_addr()?;
    let (mut signals, end) = (Signals::listen()?, CancellationToken::new());
    let told = end.clone();
    tokio::spawn(async move {
        signals.end().await;
        told.cancel();
    });
    // This connection comes back by itself after Spanner has lost its session.
    let table = LockTable::new(&database, &common.table);
    let poller = Arc::new(Poller::new(table.clone(), connections_max() / 2));
    let lanes = Arc::new(Lanes::new(table, Arc::clone(&poller)));
    let polling = tokio::spawn(until_end(Arc::clone(&poller).follow(), end.clone()));
    let walking = tokio::spawn(until_end(Arc::clone(&lanes).walk(), end.clone()));
    let page = routes::Page { title: format!("{} {}", database, common.table) };
    let start = Arc::new(Start::new());
    let routes = routes::routes(
        page,
        Arc::clone(&start),
        Arc::clone(&poller),
        lanes,
        AllowedHosts::new(&serve.allow_host),
        serve.metrics_locks,
    );
    // An error that no wait cures ends the program at the start; a later one is shown.
    let starting = async {
        let first = start.attempt(common).await?;
        out.text(&format!("Listens on http://{address}/ until Ctrl-C.\n"))?;
        if !address.ip().is_loopback() {
            complain(&format!("whoever reaches {address} sees who holds what: no password"));
        }
        start.wait(common, first, Duration::MAX).await
    };
    let starting = async {
        let started = end.run_until_cancelled(starting).await.transpose();
        if started.is_err() {
            end.cancel();
        }
        started
    };
    let answering = answer(Listener::Tcp(listener), routes, LIMITS, &end, || poller.close());
    let ((), started) = tokio::join!(answering, starting);
    for task in [polling, walking] {
        task.await.map_err(|error| Failure::of_task(&error))?;
    }
    started.map(|_| ExitCode::SUCCESS)
}

/// Connections that the system keeps until they are accepted. One that finds no room is asked for again a second later.
const QUEUE: u32 = 4096;

/// Listens at the address that this option names.
pub fn listen(option: &str, address: SocketAddr) -> Result<TcpListener> {
    bind(address).map_err(|error| {
        Failure::new(Code::Usage, format!("{option} {address}: {error}"))
            .cure("choose another address or port; port 0 takes any that is free")
    })
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Its port may have been another program's a moment ago.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(QUEUE)
}

async fn until_end(work: impl Future<Output = ()>, end: CancellationToken) {
    end.run_until_cancelled(work).await;
}
