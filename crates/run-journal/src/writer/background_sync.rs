//! Makes a journal durable in the background: within a second, or immediately on request.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a write waits for further writes: half of the promised second. The disk gets the other half.
const GATHER: Duration = Duration::from_millis(500);
/// The thread only calls `fdatasync`.
const STACK_BYTES: usize = 128 * 1024;

/// A thread that syncs one file.
#[derive(Debug)]
pub(crate) struct BackgroundSync {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<SyncState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SyncState {
    /// The number of writes; the first `n_synced` of them are durable.
    n_written: u64,
    n_synced: u64,
    dirty_since: Option<Instant>,
    urgency: Urgency,
    /// Never cleared: the kernel reports a failed write-back once and then forgets it.
    failure: Option<SyncFailure>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Urgency {
    #[default]
    Gather,
    Now,
    /// Sync now, and then stop.
    Last,
}

#[derive(Debug, Clone, Copy)]
struct SyncFailure {
    errno: Option<i32>,
    kind: io::ErrorKind,
}

impl BackgroundSync {
    /// Starts the thread. The first sync also covers `also`: the directories and files around the journal.
    pub(crate) fn start(file: Arc<File>, also: Vec<PathBuf>) -> io::Result<Self> {
        let dirty =
            SyncState { n_written: 1, dirty_since: Some(Instant::now()), ..SyncState::default() };
        let shared = Arc::new(Shared { state: Mutex::new(dirty), changed: Condvar::new() });
        let for_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("journal-sync".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || for_thread.sync_until_told(&file, also))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Reports a write, which becomes durable within a second.
    pub(crate) fn wrote(&self) {
        let mut state = self.shared.lock();
        state.n_written += 1;
        if state.dirty_since.is_none() {
            state.dirty_since = Some(Instant::now());
            self.shared.changed.notify_all();
        }
    }

    /// Starts making the writes durable, without waiting.
    pub(crate) fn hurry(&self) {
        let mut state = self.shared.lock();
        if state.n_synced < state.n_written && state.urgency == Urgency::Gather {
            state.urgency = Urgency::Now;
            self.shared.changed.notify_all();
        }
    }

    /// Fails if an earlier write could not be made durable.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.shared.lock().check()
    }

    /// Waits until everything written so far is durable.
    pub(crate) fn wait(&self) -> io::Result<()> {
        let mut state = self.shared.lock();
        let target = state.n_written;
        if state.n_synced < target {
            state.urgency = Urgency::Now;
            self.shared.changed.notify_all();
        }
        while state.n_synced < target && state.failure.is_none() {
            state = self.shared.wait(state);
        }
        state.check()
    }
}

impl Drop for BackgroundSync {
    fn drop(&mut self) {
        self.shared.lock().urgency = Urgency::Last;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, SyncState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, SyncState>) -> MutexGuard<'s, SyncState> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn sync_until_told(&self, file: &File, mut also: Vec<PathBuf>) {
        loop {
            let (n_written, urgency) = self.wait_for_work();
            if let Some(n_written) = n_written {
                let synced = file.sync_data();
                for path in also.drain(..) {
                    // Some file systems cannot sync a directory, so report only the journal's own result.
                    File::open(path).and_then(|file| file.sync_all()).ok();
                }
                self.report(n_written, synced);
            }
            if urgency == Urgency::Last {
                return;
            }
        }
    }

    /// Waits until it is time, and returns the number of writes to make durable.
    fn wait_for_work(&self) -> (Option<u64>, Urgency) {
        let mut state = self.lock();
        loop {
            let due = state.dirty_since.map(|since| since + GATHER);
            let now = Instant::now();
            match (due, state.urgency) {
                (None, Urgency::Last) => return (None, Urgency::Last),
                (None, _) => state = self.wait(state),
                (Some(due), Urgency::Gather) if now < due => {
                    let answer = self.changed.wait_timeout(state, due - now);
                    state = answer.unwrap_or_else(PoisonError::into_inner).0;
                }
                (Some(_), urgency) => {
                    state.dirty_since = None;
                    if urgency == Urgency::Now {
                        state.urgency = Urgency::Gather;
                    }
                    return (Some(state.n_written), urgency);
                }
            }
        }
    }

    fn report(&self, n_written: u64, synced: io::Result<()>) {
        let mut state = self.lock();
        match synced {
            Ok(()) => state.n_synced = n_written,
            Err(err) => {
                state.failure = Some(SyncFailure { errno: err.raw_os_error(), kind: err.kind() });
            }
        }
        self.changed.notify_all();
    }
}

impl SyncState {
    fn check(&self) -> io::Result<()> {
        match self.failure {
            None => Ok(()),
            Some(SyncFailure { errno: Some(errno), .. }) => {
                Err(io::Error::from_raw_os_error(errno))
            }
            Some(SyncFailure { kind, .. }) => Err(kind.into()),
        }
    }
}

#[cfg(test)]
#[path = "background_sync_tests.rs"]
mod tests;
