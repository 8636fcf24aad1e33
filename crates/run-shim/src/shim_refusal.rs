//! Why a supervisor did not take its run, as it is told to whoever started it.

use std::io;
use std::path::PathBuf;

use ground::with_causes;
use run_protocol::ExitCode;

use crate::locks::LockRefusal;
use crate::prepare_error::PrepareError;
use crate::session_memory::ResumeRefusal;

/// Why a run was not accepted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShimError {
    #[error("the runtime could not be started")]
    Runtime(#[source] io::Error),
    #[error("the run's directory cannot be used: {0}")]
    Directory(String),
    #[error("the sockets of the run could not be made in `{}`", path.display())]
    Sockets { path: PathBuf, source: io::Error },
    #[error("the run was taken from the queue before")]
    Begun,
    #[error("{0}")]
    Locked(LockRefusal),
    #[error(transparent)]
    Resume(#[from] ResumeRefusal),
    #[error(transparent)]
    Prepare(#[from] PrepareError),
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
            Self::Resume(ResumeRefusal::Store(_) | ResumeRefusal::ContinuedBy { .. }) => {
                (ExitCode::NotResumable, None)
            }
            Self::Prepare(error) => (error.exit_code(), error.hint()),
            Self::Runtime(_) | Self::Directory(_) | Self::Sockets { .. } => {
                (ExitCode::SupervisorFailed, None)
            }
        };
        ShimRefusal { exit_code, message: with_causes(self), hint }
    }
}
