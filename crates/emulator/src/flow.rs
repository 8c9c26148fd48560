//! The bytes of connections, until a test has them swallowed.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// One connection's way to its client.
///
/// Once its socket is taken, the connection hears nothing more, and what it writes reaches nobody.
#[derive(Clone, Debug)]
pub(crate) struct Flow(Arc<Mutex<Option<TcpStream>>>);

impl Flow {
    fn socket(&self) -> MutexGuard<'_, Option<TcpStream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for Flow {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self.socket() {
            Some(socket) => Pin::new(socket).poll_read(context, buffer),
            None => Poll::Pending,
        }
    }
}

impl AsyncWrite for Flow {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut *self.socket() {
            Some(socket) => Pin::new(socket).poll_write(context, bytes),
            None => Poll::Ready(Ok(bytes.len())),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self.socket() {
            Some(socket) => Pin::new(socket).poll_write_vectored(context, slices),
            None => Poll::Ready(Ok(slices.iter().map(|bytes| bytes.len()).sum())),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self.socket() {
            Some(socket) => Pin::new(socket).poll_flush(context),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self.socket() {
            Some(socket) => Pin::new(socket).poll_shutdown(context),
            None => Poll::Ready(Ok(())),
        }
    }
}

/// The flows of a port's connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flows(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    flows: HashMap<u64, Flow>,
    opened: u64,
}

impl Flows {
    /// Adds a connection that was accepted. It counts until the guard is dropped.
    pub fn add(&self, socket: TcpStream) -> (Flow, OpenFlow) {
        let flow = Flow(Arc::new(Mutex::new(Some(socket))));
        let mut open = self.open();
        open.opened += 1;
        let number = open.opened;
        open.flows.insert(number, flow.clone());
        (flow, OpenFlow { flows: self.clone(), number })
    }

    /// Takes the sockets of all connections that are open.
    pub fn swallow(&self) -> Vec<TcpStream> {
        self.open().flows.values().filter_map(|flow| flow.socket().take()).collect()
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A flow's place among those that are open.
pub(crate) struct OpenFlow {
    flows: Flows,
    number: u64,
}

impl Drop for OpenFlow {
    fn drop(&mut self) {
        self.flows.open().flows.remove(&self.number);
    }
}
