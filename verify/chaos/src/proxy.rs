//! A process's way to the server or to its agent: a TCP proxy that the nemesis can cut, silence and slow.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkFault {
    Clear,
    /// Connections break, and new ones are closed at once.
    Cut,
    /// Bytes are held back until it is over; nobody is told.
    Silent,
    /// Every piece is held up for this long.
    Slow(Duration),
}

/// The other end of a proxy.
#[derive(Clone)]
pub enum Server {
    Tcp(SocketAddr),
    /// A socket, which a process that comes anew finds free for certain.
    Unix(PathBuf),
}

/// Ends with its connections when it is dropped.
pub struct Proxy {
    address: SocketAddr,
    link_fault: watch::Sender<LinkFault>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    pub async fn start(server: Server) -> io::Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (link_fault, seen) = watch::channel(LinkFault::Clear);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *seen.borrow() == LinkFault::Cut {
                    continue;
                }
                tokio::spawn(connect(client, server.clone(), seen.clone()));
            }
        });
        Ok(Proxy { address, link_fault, accepting })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn set(&self, link_fault: LinkFault) {
        self.link_fault.send_replace(link_fault);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn connect(client: TcpStream, server: Server, link_fault: watch::Receiver<LinkFault>) {
    // Slowness here is intended.
    if client.set_nodelay(true).is_err() {
        return;
    }
    match server {
        Server::Tcp(address) => {
            let Ok(server) = TcpStream::connect(address).await else { return };
            if server.set_nodelay(true).is_ok() {
                carry(client, server.into_split(), link_fault).await;
            }
        }
        Server::Unix(path) => {
            let Ok(server) = UnixStream::connect(path).await else { return };
            carry(client, server.into_split(), link_fault).await;
        }
    }
}

/// Carries one connection's bytes both ways until an end closes, the line is cut, or the proxy is
/// gone.
async fn carry(
    client: TcpStream,
    (from_server, to_server): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    mut link_fault: watch::Receiver<LinkFault>,
) {
    let (from_client, to_client) = client.into_split();
    tokio::select! {
        () = pass(from_client, to_server, link_fault.clone()) => {}
        () = pass(from_server, to_client, link_fault.clone()) => {}
        _ = link_fault.wait_for(|link_fault| *link_fault == LinkFault::Cut) => {}
    }
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut link_fault: watch::Receiver<LinkFault>,
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let Ok(length @ 1..) = from.read(&mut buffer).await else { return };
        let now = *link_fault.borrow_and_update();
        match now {
            LinkFault::Slow(delay) => sleep(delay).await,
            LinkFault::Silent => {
                if link_fault.wait_for(|link_fault| *link_fault != LinkFault::Silent).await.is_err()
                {
                    return;
                }
            }
            LinkFault::Clear | LinkFault::Cut => {}
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
