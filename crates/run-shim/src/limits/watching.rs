//! A thread that watches something until its watch is dropped.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// The lowest priority.
const NICE: i32 = 15;

/// A running watch. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Watching {
    _wanted: Sender<()>,
}

/// Waits, and returns true if the watch goes on.
pub(super) type Wait<'a> = &'a dyn Fn(Duration) -> bool;

impl Watching {
    pub(super) fn start(
        name: &str,
        watch: impl FnOnce(Wait<'_>) + Send + 'static,
    ) -> io::Result<Self> {
        let (wanted, ending) = channel::<()>();
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            // This lowers the priority of the current thread only, so it must not be a pool's thread.
            rustix::process::setpriority_process(None, NICE).ok();
            watch(&|pause| ending.recv_timeout(pause) == Err(RecvTimeoutError::Timeout));
        })?;
        Ok(Self { _wanted: wanted })
    }
}
