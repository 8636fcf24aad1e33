//! The interface to systemd: the socket that it opened for the daemon, and the message that the daemon is ready.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// The first inherited descriptor.
const FIRST_FD: i32 = 3;

/// A copy of the socket that systemd opened.
pub(crate) fn inherited_socket() -> io::Result<OwnedFd> {
    let ourselves = pidfd_open(getpid(), PidfdFlags::empty())?;
    Ok(pidfd_getfd(ourselves, FIRST_FD, PidfdGetfdFlags::empty())?)
}

/// Sends the daemon's state to systemd.
pub(crate) fn notify(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
#[path = "systemd_tests.rs"]
mod tests;
