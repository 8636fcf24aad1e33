//! Why a run did not reach its sandbox: a refusal for its starter, or the end of its journal.

use std::io;
use std::path::PathBuf;

use ground::with_causes;
use run_protocol::{ExitCode, RunOutcome};

use crate::preparation::error::PrepareError;
use crate::session::locks::LockRefusal;
use crate::session::session_memory::ResumeRefusal;

/// Why the shim refused a run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShimError {
    #[error("the runtime could not be started")]
    Runtime(#[source] io::Error),
    #[error("the run's directory cannot be used: {0}")]
    Directory(String),
    #[error("could not make the run's sockets in `{}`", path.display())]
    Sockets { path: PathBuf, source: io::Error },
    #[error("another shim already took the run from the queue")]
    Begun,
    #[error("{0}")]
    Locked(LockRefusal),
    #[error(transparent)]
    Resume(#[from] ResumeRefusal),
    #[error(transparent)]
    Prepare(#[from] PrepareError),
}

/// Why a run ends in `claim` or `prepare`.
pub(crate) enum NotBegun {
    /// The starter gets the reason, and nothing of the run is left.
    Refused(ShimError),
    /// The starter already has its report, so the journal gets the reason.
    Ended { outcome: RunOutcome, why: String },
}

pub(crate) struct ShimRefusal {
    pub(crate) exit_code: ExitCode,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl ShimError {
    pub(crate) fn refusal(&self) -> ShimRefusal {
        let (exit_code, hint) = match self {
            Self::Locked(LockRefusal::Io(_)) => (ExitCode::SupervisorFailed, None),
            Self::Locked(refusal) => (ExitCode::Conflict, Some(refusal.hint())),
            Self::Begun => (ExitCode::Conflict, None),
            Self::Resume(ResumeRefusal::Store(reason)) if reason.is_passing() => {
                (ExitCode::Conflict, None)
            }
            Self::Resume(_) => (ExitCode::NotResumable, None),
            Self::Prepare(error) => (error.exit_code(), error.hint()),
            Self::Runtime(_) | Self::Directory(_) | Self::Sockets { .. } => {
                (ExitCode::SupervisorFailed, None)
            }
        };
        ShimRefusal { exit_code, message: with_causes(self), hint }
    }

    /// True if a new session did not begin.
    pub(crate) fn leaves_session_unbegun(&self) -> bool {
        matches!(self, Self::Locked(_) | Self::Prepare(_))
    }

    /// The outcome and reason for the journal of a run that had to wait.
    pub(crate) fn ended(&self) -> NotBegun {
        let (outcome, why) = match self {
            Self::Locked(refusal) => (RunOutcome::SandboxFailed, refusal.to_string()),
            Self::Resume(refusal) => (RunOutcome::NotResumable, refusal.to_string()),
            Self::Prepare(error) => (error.outcome(), with_causes(error)),
            Self::Begun | Self::Runtime(_) | Self::Directory(_) | Self::Sockets { .. } => {
                (RunOutcome::SupervisorFailed, with_causes(self))
            }
        };
        NotBegun::Ended { outcome, why }
    }
}
