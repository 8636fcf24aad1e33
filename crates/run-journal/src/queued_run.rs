//! Runs that wait in the queue: a journal whose last word is `queued`, and a lock that nobody holds.

use std::io;

use ground::now_ms;
use ground::plain_file;
use run_protocol::{RunEvent, RunOutcome};

use crate::{JournalError, JournalWriter, LockRunError, RunDirectory, RunLock, last_word};

/// What became of the wish to end a run that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndQueued {
    /// It is over.
    Ended,
    /// It does not wait in the queue, or not any more.
    NotQueued,
}

/// Says why a run that waits could not be ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndQueuedError {
    #[error("the run's lock could not be taken")]
    Lock(#[source] io::Error),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl RunDirectory {
    /// Whether the journal says that the run waits in the queue, and nothing after that.
    pub fn is_queued(&self) -> io::Result<bool> {
        last_word::is_queued(&plain_file::open(&self.journal_path())?)
    }

    /// Ends a run that nobody has begun, under its lock, so that nobody can begin it meanwhile or after.
    pub fn end_queued(
        &self,
        outcome: RunOutcome,
        why: String,
    ) -> Result<EndQueued, EndQueuedError> {
        // Without the lock first: a look does not disturb whoever is about to take it.
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
        );
        writer.finish()?;
        Ok(EndQueued::Ended)
    }
}

#[cfg(test)]
#[path = "queued_run_tests.rs"]
mod tests;
