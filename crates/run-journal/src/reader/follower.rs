//! Waits for a journal to grow, without polling it.
//!
//! ```text
//!   start ──► files (inotify) ◄──► the shim's socket      if one fails, the follower tries the other
//!                  │ neither
//!                  ▼
//!              a check every quarter of a second
//! ```
//!
//! The follower prefers the socket: a user has few inotify instances, and a machine may have many readers.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::reader::control_watch::{ControlWatch, Heard};
use crate::reader::file_watch::{FileChange, FileWatch};
use crate::{RunDirectory, WriterPresence};

/// How often to check for changes without an event: a socket that stays silent, a shim that never started.
const SLOW_CHECK: Duration = Duration::from_secs(2);
/// How often to check the journal if there is neither socket nor inotify.
const WITHOUT_WATCH: Duration = Duration::from_millis(250);
/// How long to wait before trying a failed socket again while its shim is alive.
const SOCKET_PAUSE: Duration = Duration::from_secs(5);
/// The kernel reports a closed file before it frees the file's lock, so the follower checks the lock after 1, 2, 4 …
/// ms.
const LOCK_CHECKS: u32 = 8;

/// Waits for a journal to grow: the shim's control socket or else inotify wakes it.
#[derive(Debug)]
pub struct Follower {
    directory: RunDirectory,
    control_socket: PathBuf,
    source: Source,
    /// When the follower may try the socket again.
    socket_not_before: Option<Instant>,
    /// The remaining number of quick lock checks.
    n_lock_checks: u32,
    /// The journal's length at the last check.
    known_length: u64,
}

#[derive(Debug)]
enum Source {
    None,
    Socket(ControlWatch),
    Files(FileWatch),
    /// Neither works.
    Slow,
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// There may be more to read. The follower also returns this when it sets up a new source.
    Grown,
    /// The writer is gone: read to the end again, and you have the whole journal.
    WriterGone,
    TimedOut,
}

impl Follower {
    /// Follows the run's journal; the socket need not exist.
    pub fn new(directory: &RunDirectory, control_socket: &Path) -> Self {
        Self {
            directory: directory.clone(),
            control_socket: control_socket.to_owned(),
            source: Source::None,
            socket_not_before: None,
            n_lock_checks: 0,
            known_length: 0,
        }
    }

    /// Waits; a timeout of `None` means forever. Lines written since the caller last read to the end wake the next
    /// wait, so the caller misses nothing between two calls. May return `Grown` although nothing has changed.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Woken> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let presence = self.directory.writer()?;
            if let WriterPresence::Gone(_) = presence {
                return Ok(Woken::WriterGone);
            }
            let set_up = self.set_up(&presence);
            if self.look() == Look::Longer || set_up == SetUp::New {
                return Ok(Woken::Grown);
            }
            let remaining =
                deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let patience = self.patience();
            let patience = remaining.map_or(patience, |remaining| remaining.min(patience));
            match self.wait_for_source(patience)? {
                Heard::Grown => {
                    self.look();
                    return Ok(Woken::Grown);
                }
                Heard::Nothing if deadline.is_some_and(|deadline| deadline <= Instant::now()) => {
                    return Ok(Woken::TimedOut);
                }
                Heard::Nothing | Heard::Closed => {}
            }
        }
    }

    /// Prefers the socket of a live shim, then inotify.
    fn set_up(&mut self, presence: &WriterPresence) -> SetUp {
        let socket_allowed = self.socket_not_before.is_none_or(|instant| instant <= Instant::now());
        let has_socket = matches!(self.source, Source::Socket(_));
        if !has_socket
            && socket_allowed
            && matches!(presence, WriterPresence::Live(_))
            && let Ok(watch) = ControlWatch::connect(&self.control_socket, self.directory.run_id())
        {
            self.source = Source::Socket(watch);
            return SetUp::New;
        }
        if !matches!(self.source, Source::None) {
            return SetUp::AsBefore;
        }
        self.source = FileWatch::of(&self.directory).map_or(Source::Slow, Source::Files);
        SetUp::New
    }

    /// Checks the journal's length. This is cheap, and makes up for lost wake-ups.
    fn look(&mut self) -> Look {
        let length =
            std::fs::symlink_metadata(self.directory.journal_path()).map_or(0, |it| it.len());
        let look = if length > self.known_length { Look::Longer } else { Look::Same };
        self.known_length = length;
        look
    }

    fn patience(&mut self) -> Duration {
        if self.n_lock_checks > 0 {
            self.n_lock_checks -= 1;
            return Duration::from_millis(1 << (LOCK_CHECKS - 1 - self.n_lock_checks));
        }
        match self.source {
            Source::Slow | Source::None => WITHOUT_WATCH,
            Source::Socket(_) | Source::Files(_) => SLOW_CHECK,
        }
    }

    fn wait_for_source(&mut self, patience: Duration) -> io::Result<Heard> {
        let heard = match &mut self.source {
            Source::Socket(watch) => watch.wait(patience)?,
            Source::Files(watch) => match watch.wait(patience)? {
                FileChange::Journal => Heard::Grown,
                FileChange::LockClosed => {
                    self.n_lock_checks = LOCK_CHECKS;
                    Heard::Nothing
                }
                FileChange::Nothing => Heard::Nothing,
            },
            Source::Slow | Source::None => {
                std::thread::sleep(patience);
                Heard::Nothing
            }
        };
        if heard == Heard::Closed {
            // The shim is about to end, or refuses us.
            self.n_lock_checks = LOCK_CHECKS;
            self.socket_not_before = Some(Instant::now() + SOCKET_PAUSE);
            self.source = Source::None;
        }
        Ok(heard)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SetUp {
    New,
    AsBefore,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Longer,
    Same,
}

#[cfg(test)]
#[path = "follower_tests.rs"]
mod tests;
