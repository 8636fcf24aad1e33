//! File descriptors that the async runtime waits on.

use std::io;
use std::os::fd::AsRawFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Makes the runtime wait for the descriptor to become readable.
#[expect(
    deprecated,
    reason = "its successor is unsafe, because a type may return another descriptor later; our types own theirs"
)]
pub(crate) fn pollable<T: AsRawFd>(fd: T) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(fd, Interest::READABLE)
}
