//! Counts the requests of a process to a server of somebody else, on their way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};

use crate::parts::Failure;

/// The length of what a client of HTTP/2 sends before its first frame, and of a frame's header.
const PREFACE: u64 = 24;
const HEADER: usize = 9;
/// The kind of frame that begins a request.
const HEADERS: u8 = 1;

/// Another address of a server, which counts.
pub struct Relay {
    pub endpoint: String,
    requests: Arc<AtomicU64>,
}

impl Relay {
    /// Listens for the clients of the server at `endpoint`, until the runtime is gone.
    pub async fn start(endpoint: &str) -> Result<Relay, Failure> {
        let server = endpoint.trim_start_matches("http://").to_string();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let requests = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(relay(client, server.clone(), Arc::clone(&counted)));
            }
        });
        Ok(Relay { endpoint, requests })
    }

    /// How many requests have begun so far.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

async fn relay(client: TcpStream, server: String, requests: Arc<AtomicU64>) -> Result<(), Failure> {
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((client_says, mut client), (mut server_says, server)) =
        (client.into_split(), server.into_split());
    // Either side may hang up.
    tokio::select! {
        done = count(client_says, server, &requests) => done?,
        done = copy(&mut server_says, &mut client) => drop(done?),
    }
    Ok(())
}

/// Passes frames on, and counts those that begin a request.
async fn count(
    from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin,
    requests: &AtomicU64,
) -> Result<(), Failure> {
    let mut from = tokio::io::BufReader::with_capacity(1 << 16, from);
    let mut to = tokio::io::BufWriter::with_capacity(1 << 16, to);
    copy(&mut (&mut from).take(PREFACE), &mut to).await?;
    loop {
        if from.buffer().len() < HEADER {
            to.flush().await?;
        }
        let mut header = [0; HEADER];
        from.read_exact(&mut header).await?;
        to.write_all(&header).await?;
        requests.fetch_add(u64::from(header[3] == HEADERS), Ordering::Relaxed);
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        copy(&mut (&mut from).take(length.into()), &mut to).await?;
    }
}
