//! Descriptors that the runtime waits on.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Has the runtime wait for the descriptor to become readable.
#[expect(
    deprecated,
    reason = "its successor is unsafe for types that may name another descriptor later; an owned one cannot"
)]
pub(crate) fn pollable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, Interest::READABLE)
}
