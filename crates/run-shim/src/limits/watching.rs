//! A thread that watches something, for as long as somebody wants it to.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Lets everybody else go first.
const NICE: i32 = 15;

/// A watch that is kept. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Watching {
    _wanted: Sender<()>,
}

/// Waits, and says whether the watch is still wanted.
pub(super) type Wait<'a> = &'a dyn Fn(Duration) -> bool;

impl Watching {
    pub(super) fn start(
        name: &str,
        watch: impl FnOnce(Wait<'_>) + Send + 'static,
    ) -> io::Result<Self> {
        let (wanted, ending) = channel::<()>();
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            // Of this thread alone, which is why it is no thread of a pool.
            rustix::process::setpriority_process(None, NICE).ok();
            watch(&|pause| ending.recv_timeout(pause) == Err(RecvTimeoutError::Timeout));
        })?;
        Ok(Self { _wanted: wanted })
    }
}
