use std::net::{Ipv4Addr, UdpSocket};
use std::panic::catch_unwind;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::error::{Error, Result};

/// Returns the tokio runtime of the caller, without which `subject` can't wait or send.
pub(crate) fn runtime(subject: &str) -> Result<Handle> {
    let runtime = Handle::try_current()
        .map_err(|_| Error::config(format!("{subject}: called outside of a tokio runtime")))?;
    // Tokio tells that a runtime has no timers by a panic alone.
    catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).map_err(|_| {
        let cure = "build it with `enable_all`";
        Error::config(format!("{subject}: the tokio runtime has no timers; {cure}"))
    })?;
    Ok(runtime)
}

/// Fails if the caller's runtime has no I/O, without which `subject` can't connect.
pub(crate) fn check_io(subject: &str) -> Result<()> {
    // A socket that can't be had says nothing of the runtime.
    let Ok(socket) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)) else { return Ok(()) };
    if socket.set_nonblocking(true).is_err() {
        return Ok(());
    }
    // Tokio tells this, too, by a panic alone.
    let registered = catch_unwind(move || drop(tokio::net::UdpSocket::from_std(socket)));
    registered.map_err(|_| {
        let cure = "build it with `enable_all`";
        Error::config(format!("{subject}: the tokio runtime has no i/o; {cure}"))
    })
}
