//! Orders to the supervisor of a run, given from outside until it has them: by `caretaker kill`, by Ctrl-C, by the daemon
//! and by an agent that stops its child.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use ground::with_causes;
use run_journal::{EndQueued, EndQueuedError, LockHolder, RunDirectory, WriterPresence};
use run_protocol::{ControlRequest, RunOutcome, StopManner};

use crate::control::control_client::{self, ControlError};
use crate::sandbox::{Supervision, kill_without_shim, supervision};

/// How long a supervisor that holds its lock may take to open its socket, or to answer.
const COMING_UP: Duration = Duration::from_secs(10);
/// How long it may take to greet us, before we look why it does not.
const GREETING: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// An order, and the run that it is for.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    pub run: &'a RunDirectory,
    pub socket: &'a Path,
    pub request: &'a ControlRequest,
    /// The journal says this of a run that is stopped while it waits in the queue.
    pub why_unbegun: &'a str,
}

/// What came of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// The supervisor has it, or the run is over.
    Taken,
    /// The supervisor, which has this number, did not answer, and the sandbox was killed without it.
    KilledWithout { shim: u32, was_stopped: bool },
}

/// Why an order was not given.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotGiven {
    #[error("it has not begun, so there is nothing to suspend")]
    NotBegun,
    #[error("it waits in the queue and cannot be ended")]
    Queue(#[source] EndQueuedError),
    #[error("its lock cannot be examined")]
    Lock(#[source] io::Error),
    #[error("its sandbox cannot be killed")]
    Kill(#[source] io::Error),
    #[error("its supervisor is stopped, so it does not listen")]
    Stopped(#[source] ControlError),
    #[error("its supervisor does not listen")]
    Deaf(#[source] ControlError),
}

impl NotGiven {
    /// The sentence, with its causes.
    #[must_use]
    pub fn why(&self) -> String {
        with_causes(self)
    }
}

impl Order<'_> {
    /// Gives the order; a run that is over needs none. A supervisor that does not answer is not needed to kill a run at
    /// once: its sandbox is killed without it. `waits_for` hears once of a stopped supervisor that is waited for.
    pub fn give(&self, mut waits_for: impl FnMut(&LockHolder)) -> Result<Given, NotGiven> {
        let is_at_once = matches!(self.request, ControlRequest::Stop { manner: StopManner::Now });
        let deadline = Instant::now() + COMING_UP;
        let mut has_said = false;
        loop {
            if self.end_queued()? == EndQueued::Ended {
                return Ok(Given::Taken);
            }
            let shim = match self.run.writer().map_err(NotGiven::Lock)? {
                WriterPresence::Gone(_) => return Ok(Given::Taken),
                WriterPresence::Live(shim) => shim,
                WriterPresence::NotYet => None,
            };
            let run = self.run.run_id();
            let error = match control_client::order_within(GREETING, self.socket, run, self.request)
            {
                // A supervisor that is about to end anyway refuses.
                Ok(()) | Err(ControlError::Refused(_)) => return Ok(Given::Taken),
                Err(error) => error,
            };
            let is_late = Instant::now() >= deadline;
            let is_stopped =
                shim.as_ref().is_some_and(|shim| supervision(shim) == Supervision::Stopped);
            // It comes up, or went down just now, perhaps between the order and its answer: the lock tells which.
            let comes_perhaps =
                matches!(error, ControlError::Connect(_) | ControlError::Conversation(_));
            if let Some(shim) = shim {
                let can_do_without = is_at_once && comes_perhaps && (is_stopped || is_late);
                if can_do_without && kill_without_shim(self.run, &shim).map_err(NotGiven::Kill)? {
                    return Ok(Given::KilledWithout { shim: shim.pid, was_stopped: is_stopped });
                }
                if is_stopped && !is_at_once && !has_said {
                    has_said = true;
                    waits_for(&shim);
                }
            }
            if is_late || !comes_perhaps {
                return Err(match is_stopped {
                    true => NotGiven::Stopped(error),
                    false => NotGiven::Deaf(error),
                });
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// A run that waits in the queue has no supervisor that could take an order.
    fn end_queued(&self) -> Result<EndQueued, NotGiven> {
        if !self.run.is_queued().unwrap_or(false) {
            return Ok(EndQueued::NotQueued);
        }
        if !matches!(self.request, ControlRequest::Stop { .. }) {
            return Err(NotGiven::NotBegun);
        }
        let why = self.why_unbegun.to_owned();
        self.run.end_queued(RunOutcome::Cancelled, why).map_err(NotGiven::Queue)
    }
}
