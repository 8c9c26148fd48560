//! A network between a participant and the server: silent for a while, slow, or with dead flows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::Failure;

/// Ends with the program.
pub struct Proxy {
    pub address: String,
    network: Arc<Network>,
}

struct Network {
    is_silent: watch::Sender<bool>,
    delay_us: AtomicU64,
    /// How many times the flows have died.
    generation: AtomicU64,
}

impl Proxy {
    pub async fn start(server: &str) -> Result<Proxy, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let network = Arc::new(Network {
            is_silent: watch::Sender::new(false),
            delay_us: AtomicU64::new(0),
            generation: AtomicU64::new(0),
        });
        let (server, shared) = (server.to_string(), Arc::clone(&network));
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(&server).await else { continue };
                connect(near, far, &shared);
            }
        });
        Ok(Proxy { address, network })
    }

    /// Holds all that is sent back while this is so, and delivers it then.
    pub fn silence(&self, is_silent: bool) {
        self.network.is_silent.send_replace(is_silent);
    }

    /// Delivers what the participant sends so much later.
    pub fn delay(&self, delay: Duration) {
        let delay_us = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        self.network.delay_us.store(delay_us, Ordering::Relaxed);
    }

    /// Swallows all that is sent on the connections that are open; new ones work.
    pub fn kill_flows(&self) {
        self.network.generation.fetch_add(1, Ordering::Relaxed);
    }
}

fn connect(near: TcpStream, far: TcpStream, network: &Arc<Network>) {
    drop((near.set_nodelay(true), far.set_nodelay(true)));
    let ((from_near, to_near), (from_far, to_far)) = (near.into_split(), far.into_split());
    let born = network.generation.load(Ordering::Relaxed);
    carry(from_near, to_far, network, born, true);
    carry(from_far, to_near, network, born, false);
}

fn carry(
    mut from: impl AsyncRead + Send + Unpin + 'static,
    mut to: impl AsyncWrite + Send + Unpin + 'static,
    network: &Arc<Network>,
    born: u64,
    is_delayed: bool,
) {
    let (sender, mut parts) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let reading = Arc::clone(network);
    tokio::spawn(async move {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            let delay_us = if is_delayed { reading.delay_us.load(Ordering::Relaxed) } else { 0 };
            let at = Instant::now() + Duration::from_micros(delay_us);
            if sender.send((at, buffer[..length].to_vec())).is_err() {
                break;
            }
        }
    });
    let network = Arc::clone(network);
    tokio::spawn(async move {
        let mut is_silent = network.is_silent.subscribe();
        while let Some((at, part)) = parts.recv().await {
            sleep_until(at).await;
            drop(is_silent.wait_for(|is_silent| !is_silent).await);
            let is_dead = network.generation.load(Ordering::Relaxed) != born;
            if !is_dead && to.write_all(&part).await.is_err() {
                break;
            }
        }
        // A dead flow tells nobody that it has ended.
        if network.generation.load(Ordering::Relaxed) != born {
            std::future::pending::<()>().await;
        }
    });
}
