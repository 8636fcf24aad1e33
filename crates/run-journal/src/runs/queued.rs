//! Runs that wait in the queue: the last line of the journal is `queued`, and no process holds the lock.

use std::io;

use ground::now_ms;
use ground::plain_file;
use run_protocol::{RunEvent, RunOutcome};

use crate::journal::last_word;
use crate::{JournalError, JournalWriter, LockRunError, Redaction, RunDirectory, RunLock};

/// The result of ending a queued run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndQueued {
    Ended,
    /// The run is not queued, or no longer queued.
    NotQueued,
}

/// Why a queued run could not be ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndQueuedError {
    #[error("the run's lock could not be taken")]
    Lock(#[source] io::Error),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl RunDirectory {
    /// True if the journal's last line is `queued`.
    pub fn is_queued(&self) -> io::Result<bool> {
        last_word::is_queued(&plain_file::open(&self.journal_path())?)
    }

    /// Ends a queued run under its lock, so that no shim can start it.
    pub fn end_queued(
        &self,
        outcome: RunOutcome,
        why: String,
    ) -> Result<EndQueued, EndQueuedError> {
        // First without the lock, so as not to disturb a shim that is about to take it.
        if !self.is_queued().unwrap_or(false) {
            return Ok(EndQueued::NotQueued);
        }
        let lock: RunLock = match self.lock() {
            Ok(lock) => lock,
            Err(LockRunError::Held { .. }) => return Ok(EndQueued::NotQueued),
            Err(LockRunError::Take(source)) => return Err(EndQueuedError::Lock(source)),
        };
        if !self.is_queued().map_err(EndQueuedError::Lock)? {
            return Ok(EndQueued::NotQueued);
        }
        let mut writer = JournalWriter::open(self, &lock)?;
        let at = now_ms();
        let duration_ms = at.saturating_sub(self.run_id().created_ms());
        let stderr_tail = String::new();
        writer.use_reserve();
        writer.event(
            at,
            &RunEvent::Ended { outcome, why, exit_code: None, duration_ms, stderr_tail },
            Redaction::Untouched,
        );
        writer.finish()?;
        Ok(EndQueued::Ended)
    }
}

#[cfg(test)]
#[path = "queued_tests.rs"]
mod tests;
