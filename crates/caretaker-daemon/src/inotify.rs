//! One inotify instance for everything the daemon watches: a user has few of them.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

use crate::pollable::pollable;

/// What the kernel calls a watch.
pub(crate) type Watch = i32;

#[derive(Debug)]
pub(crate) struct Inotify {
    fd: AsyncFd<OwnedFd>,
}

/// What happened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// To what is watched, or to the file of this name in it.
    Change { watch: Watch, name: Option<Vec<u8>> },
    /// The watch is no more.
    Gone(Watch),
    /// More than the kernel could keep: everything may have changed.
    Overflow,
}

impl Inotify {
    pub(crate) fn new() -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self { fd: pollable(fd)? })
    }

    /// Directories that appear in this one by being renamed into it.
    pub(crate) fn watch_arrivals(&self, path: &Path) -> io::Result<Watch> {
        let flags = WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        Ok(inotify::add_watch(self.fd.get_ref(), path, flags)?)
    }

    /// Writes to any file in this directory.
    pub(crate) fn watch_writes_in(&self, path: &Path) -> io::Result<Watch> {
        let flags = WatchFlags::MODIFY | WatchFlags::ONLYDIR;
        Ok(inotify::add_watch(self.fd.get_ref(), path, flags)?)
    }

    /// Writes to a file.
    pub(crate) fn watch_writes(&self, path: &Path) -> io::Result<Watch> {
        Ok(inotify::add_watch(self.fd.get_ref(), path, WatchFlags::MODIFY)?)
    }

    /// Writes to a lock's note, and the end of whoever could have held it.
    pub(crate) fn watch_lock(&self, path: &Path) -> io::Result<Watch> {
        let flags = WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE;
        Ok(inotify::add_watch(self.fd.get_ref(), path, flags)?)
    }

    pub(crate) fn forget(&self, watch: Watch) {
        // It went with its file, then.
        inotify::remove_watch(self.fd.get_ref(), watch).ok();
    }

    /// Waits until something happened, and returns all of it.
    pub(crate) async fn next(&self) -> io::Result<Vec<Happened>> {
        loop {
            let mut ready = self.fd.readable().await?;
            let happened = self.drain()?;
            ready.clear_ready();
            if !happened.is_empty() {
                return Ok(happened);
            }
        }
    }

    fn drain(&self) -> io::Result<Vec<Happened>> {
        let mut buffer = [MaybeUninit::<u8>::uninit(); 16 * 1024];
        let mut reader = Reader::new(self.fd.get_ref(), &mut buffer);
        let mut happened: Vec<Happened> = Vec::new();
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => return Ok(happened),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let flags = event.events();
            let news = if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                Happened::Overflow
            } else if flags.contains(ReadFlags::IGNORED) {
                Happened::Gone(event.wd())
            } else {
                let name = event.file_name().map(|name| name.to_bytes().to_vec());
                Happened::Change { watch: event.wd(), name }
            };
            if happened.last() != Some(&news) {
                happened.push(news);
            }
        }
    }
}

/// The name as text, if it is some.
pub(crate) fn as_text(name: &[u8]) -> Option<&str> {
    OsStr::from_bytes(name).to_str()
}
