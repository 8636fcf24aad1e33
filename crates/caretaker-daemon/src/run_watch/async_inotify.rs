//! The daemon's only inotify instance: the kernel allows each user only a few.

use std::io;
use std::path::Path;

use ground::inotify::{Change, Inotify as KernelInotify, Watch, WatchFlags};
use tokio::io::unix::AsyncFd;

use crate::run_watch::pollable::pollable;

#[derive(Debug)]
pub(crate) struct Inotify(AsyncFd<KernelInotify>);

impl Inotify {
    pub(crate) fn new() -> io::Result<Self> {
        pollable(KernelInotify::new()?).map(Self)
    }

    pub(crate) fn watch(&self, path: &Path, what: WatchFlags) -> io::Result<Watch> {
        self.0.get_ref().add(path, what)
    }

    pub(crate) fn forget(&self, watch: Watch) {
        self.0.get_ref().remove(watch);
    }

    /// Waits for changes, and returns all of them.
    pub(crate) async fn next(&self) -> io::Result<Vec<Change>> {
        loop {
            let mut ready = self.0.readable().await?;
            let changes = self.0.get_ref().read()?;
            ready.clear_ready();
            if !changes.is_empty() {
                return Ok(changes);
            }
        }
    }
}
