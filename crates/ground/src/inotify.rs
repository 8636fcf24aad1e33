//! inotify: the kernel reports changes to files and directories.
//!
//! Start the watch before the first look, so that you miss no change in between.

use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, Reader};
pub use rustix::fs::inotify::{ReadFlags, WatchFlags};
use rustix::io::Errno;

/// The kernel's number for a watch.
pub type Watch = i32;

/// An inotify instance. A user may have only a few, so put as many watches as possible on one.
#[derive(Debug)]
pub struct Inotify {
    fd: OwnedFd,
}

/// A change that the kernel reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub watch: Watch,
    pub what: ReadFlags,
    /// The changed file in the watched directory; `None` if the watched file or directory itself changed.
    pub name: Option<OsString>,
}

impl Change {
    /// True if the kernel lost events: anything may have changed.
    pub fn is_overflow(&self) -> bool {
        self.what.contains(ReadFlags::QUEUE_OVERFLOW)
    }

    /// True if the kernel removed the watch, for example together with its file.
    pub fn is_end_of_watch(&self) -> bool {
        self.what.contains(ReadFlags::IGNORED)
    }
}

impl Inotify {
    pub fn new() -> io::Result<Self> {
        Ok(Self { fd: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)? })
    }

    /// Watches a file or a directory, without its subdirectories.
    pub fn add(&self, path: &Path, what: WatchFlags) -> io::Result<Watch> {
        Ok(inotify::add_watch(&self.fd, path, what)?)
    }

    pub fn remove(&self, watch: Watch) {
        // If it fails, the watch ended with its file.
        inotify::remove_watch(&self.fd, watch).ok();
    }

    /// Waits for an event, for at most `patience` (`None`: forever) or until a signal arrives. `true` if there is an
    /// event.
    pub fn wait(&self, patience: Option<Duration>) -> io::Result<bool> {
        // A time too long for the kernel means forever.
        let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
        let mut descriptors = [PollFd::new(&self.fd, PollFlags::IN)];
        match poll(&mut descriptors, patience.as_ref()) {
            Ok(n_ready) => Ok(n_ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns all events so far, without waiting. Merges equal events in a row.
    pub fn read(&self) -> io::Result<Vec<Change>> {
        let mut buffer = [MaybeUninit::<u8>::uninit(); 16 * 1024];
        let mut reader = Reader::new(&self.fd, &mut buffer);
        let mut changes: Vec<Change> = Vec::new();
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => return Ok(changes),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let name = event.file_name().map(|name| OsString::from_vec(name.to_bytes().to_vec()));
            let change = Change { watch: event.wd(), what: event.events(), name };
            if changes.last() != Some(&change) {
                changes.push(change);
            }
        }
    }
}

impl AsFd for Inotify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Inotify {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

#[cfg(test)]
#[path = "inotify_tests.rs"]
mod tests;
