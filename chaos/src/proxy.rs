//! A worker's way to the server: a TCP proxy that the nemesis can cut, silence and slow.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    Clear,
    /// Connections break, and new ones are closed at once.
    Cut,
    /// Bytes are held back until it is over; nobody is told.
    Silent,
    /// Every piece is held up for this long.
    Slow(Duration),
}

/// Ends with its connections when it is dropped.
pub struct Proxy {
    address: SocketAddr,
    weather: watch::Sender<Weather>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    pub async fn start(server: SocketAddr) -> io::Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (weather, seen) = watch::channel(Weather::Clear);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *seen.borrow() == Weather::Cut {
                    continue;
                }
                tokio::spawn(carry(client, server, seen.clone()));
            }
        });
        Ok(Proxy { address, weather, accepting })
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn set(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Carries one connection's bytes both ways until an end closes, the line is cut, or the proxy is
/// gone.
async fn carry(client: TcpStream, server: SocketAddr, mut weather: watch::Receiver<Weather>) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    // Slowness here is intended.
    if client.set_nodelay(true).is_err() || server.set_nodelay(true).is_err() {
        return;
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = pass(from_client, to_server, weather.clone()) => {}
        () = pass(from_server, to_client, weather.clone()) => {}
        _ = weather.wait_for(|weather| *weather == Weather::Cut) => {}
    }
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut weather: watch::Receiver<Weather>,
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let Ok(length @ 1..) = from.read(&mut buffer).await else { return };
        let now = *weather.borrow_and_update();
        match now {
            Weather::Slow(delay) => sleep(delay).await,
            Weather::Silent => {
                if weather.wait_for(|weather| *weather != Weather::Silent).await.is_err() {
                    return;
                }
            }
            Weather::Clear | Weather::Cut => {}
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
