//! Waits on a shim's control socket until the shim reports that the journal has grown.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use run_protocol::{ControlReply, ControlRequest, RunId};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// Every reply is much shorter.
const REPLY_LIMIT: usize = 64 * 1024;

/// A connection on which a shim reports growth.
#[derive(Debug)]
pub(crate) struct ControlWatch {
    stream: UnixStream,
    run: RunId,
    /// The beginning of an incomplete reply.
    received: Vec<u8>,
}

/// The result of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    Grown,
    Nothing,
    /// The other side is gone, or is not this run's shim.
    Closed,
}

impl ControlWatch {
    /// Connects and sends the request. Does not wait: a stopped shim must not stop its readers.
    pub(crate) fn connect(path: &Path, run: RunId) -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        let mut stream = UnixStream::from(socket);
        let mut request = serde_json::to_vec(&ControlRequest::Watch)?;
        request.push(b'\n');
        stream.write_all(&request)?;
        Ok(Self { stream, run, received: Vec::new() })
    }

    /// Waits for at most `patience`.
    pub(crate) fn wait(&mut self, patience: Duration) -> io::Result<Heard> {
        if !wait_readable(&self.stream, patience)? {
            return Ok(Heard::Nothing);
        }
        let mut chunk = [0; 4096];
        let heard = match self.stream.read(&mut chunk) {
            Ok(0) => Heard::Closed,
            Ok(n_bytes) => self.take(&chunk[..n_bytes]),
            Err(err) if is_passing(&err) => Heard::Nothing,
            Err(_) => Heard::Closed,
        };
        Ok(heard)
    }

    fn take(&mut self, bytes: &[u8]) -> Heard {
        self.received.extend_from_slice(bytes);
        let mut heard = Heard::Nothing;
        while let Some(end) = memchr::memchr(b'\n', &self.received) {
            match serde_json::from_slice(&self.received[..end]) {
                Ok(ControlReply::Hello { run, .. }) if run != self.run => return Heard::Closed,
                Ok(ControlReply::Grown { .. }) => heard = Heard::Grown,
                // A newer shim may send replies that this build does not know.
                Ok(_) | Err(_) => {}
            }
            self.received.drain(..=end);
        }
        if self.received.len() > REPLY_LIMIT { Heard::Closed } else { heard }
    }
}

fn is_passing(err: &io::Error) -> bool {
    matches!(err.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Waits until there is something to read; `false` after a timeout.
pub(crate) fn wait_readable(source: &impl AsFd, patience: Duration) -> io::Result<bool> {
    // Rounded up, because a wait of zero would become a busy loop.
    let milliseconds = u16::try_from(patience.as_micros().div_ceil(1000)).unwrap_or(u16::MAX);
    let mut watched = [PollFd::new(source.as_fd(), PollFlags::POLLIN)];
    match poll(&mut watched, PollTimeout::from(milliseconds)) {
        Ok(n_ready) => Ok(n_ready > 0),
        // The caller checks its deadline and calls again.
        Err(Errno::EINTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}
