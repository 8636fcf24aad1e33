//! Delivers an order to a run's shim, and retries until the shim has it. `caretaker kill`, Ctrl-C, the daemon and an
//! agent that stops its child use this.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use ground::with_causes;
use run_journal::{EndQueued, EndQueuedError, LockHolder, RunDirectory, WriterPresence};
use run_protocol::{ControlRequest, RunOutcome, StopManner};

use crate::control::control_client::{self, ControlError};
use crate::sandbox::{Supervision, kill_without_shim, supervision};

/// A shim that holds its lock must open its socket, or answer, within this time.
const COMING_UP: Duration = Duration::from_secs(10);
/// The shim must greet within this time. After that, the caller checks whether the shim is stopped.
const GREETING: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// An order, and the run that it is for.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    pub run: &'a RunDirectory,
    pub socket: &'a Path,
    pub request: &'a ControlRequest,
    /// The journal's sentence for a run that ends while it waits in the queue.
    pub why_unbegun: &'a str,
}

/// The result of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// The shim has the order, or the run is over.
    Taken,
    /// The shim with this process id did not answer, and the caller killed the sandbox without it.
    KilledWithout { shim: u32, was_stopped: bool },
}

/// Why an order did not reach the shim.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotGiven {
    #[error("it has not begun, so there is nothing to suspend")]
    NotBegun,
    #[error("it is waiting in the queue and cannot be ended")]
    Queue(#[source] EndQueuedError),
    #[error("its lock cannot be examined")]
    Lock(#[source] io::Error),
    #[error("its sandbox cannot be killed")]
    Kill(#[source] io::Error),
    #[error("its supervisor is stopped, so it does not answer")]
    Stopped(#[source] ControlError),
    #[error("its supervisor does not answer")]
    Deaf(#[source] ControlError),
}

impl NotGiven {
    /// Returns the reason with its causes.
    #[must_use]
    pub fn why(&self) -> String {
        with_causes(self)
    }
}

impl Order<'_> {
    /// Delivers the order. A run that is over needs no order. If the order is to kill immediately and the shim does not
    /// answer, this kills the sandbox without the shim. It calls `waits_for` once when it starts waiting for a stopped
    /// shim.
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
                // A shim refuses an order if it is about to exit.
                Ok(()) | Err(ControlError::Refused(_)) => return Ok(Given::Taken),
                Err(error) => error,
            };
            let is_late = Instant::now() >= deadline;
            let is_stopped =
                shim.as_ref().is_some_and(|shim| supervision(shim) == Supervision::Stopped);
            // The shim may be starting, or may just have ended, even between the order and its answer. The lock shows
            // which.
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

    /// Ends a run that waits in the queue. It has no shim that could take an order.
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
