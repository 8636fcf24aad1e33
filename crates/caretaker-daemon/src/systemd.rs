//! What systemd says to us and we to it: sockets it opened for us, and that we are ready.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// The first of the sockets that we inherit.
const FIRST_FD: i32 = 3;

/// A copy of the socket that was opened for us.
pub(crate) fn inherited_socket() -> io::Result<OwnedFd> {
    let ourselves = pidfd_open(getpid(), PidfdFlags::empty())?;
    Ok(pidfd_getfd(ourselves, FIRST_FD, PidfdGetfdFlags::empty())?)
}

/// Says it where systemd listens; where nobody does, nobody wants to know.
pub(crate) fn notify(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_is_said_on_a_path_and_on_an_abstract_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let listener = UnixDatagram::bind(&path).unwrap();
        notify(path.as_os_str(), "READY=1").unwrap();
        let mut heard = [0; 64];
        let length = listener.recv(&mut heard).unwrap();
        assert_eq!(&heard[..length], b"READY=1");

        let name = format!("caretaker-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let listener = UnixDatagram::bind_addr(&address).unwrap();
        notify(OsStr::new(&format!("@{name}")), "STOPPING=1").unwrap();
        let length = listener.recv(&mut heard).unwrap();
        assert_eq!(&heard[..length], b"STOPPING=1");
    }
}
