//! Sockets that listen.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 1_024;

/// Listens. An error names the port, of which a server has several.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    listen(address).map_err(|error| {
        let (port, host) = (address.port(), address.ip());
        let reason = match error.kind() {
            io::ErrorKind::AddrInUse => format!("port {port} of {host} is taken"),
            _ => format!("cannot listen on port {port} of {host}: {error}"),
        };
        io::Error::new(error.kind(), reason)
    })
}

/// Listens, with `SO_REUSEADDR`, so that a server can come back to its port at once.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
