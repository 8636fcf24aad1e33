//! Why the shim cannot prepare a run, with exit codes, outcomes and hints.

use std::path::PathBuf;

use cursor_home::{ExtraFlagError, ModelSlugError, WorkspacePathError};
use egress::AllowedHostError;
use ground::with_causes;
use run_protocol::{ExitCode, FailureClass, RunOutcome};
use sandbox_plan::{MountPointError, PlanError, PlanWarning, ProfileError, WorkspaceError};

use crate::agent_tools::agent_servers::UserMcpError;
use crate::limits::LimitsNotHeld;
use crate::login::LoginCopyError;
use crate::preparation::caches::CacheError;
use crate::preparation::private_roots::PrivateRootsError;

/// Why the shim cannot prepare a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrepareError {
    #[error(transparent)]
    Workspace(#[from] WorkspacePathError),
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Model(#[from] ModelSlugError),
    #[error(transparent)]
    Flags(#[from] ExtraFlagError),
    #[error(transparent)]
    Roots(#[from] PrivateRootsErrorText),
    #[error(transparent)]
    MountPoints(#[from] MountPointError),
    #[error(transparent)]
    Login(#[from] LoginCopyError),
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error("the session's directory could not be made")]
    Bucket(#[source] std::io::Error),
    #[error(transparent)]
    AllowedHost(#[from] AllowedHostError),
    #[error(transparent)]
    UserMcp(#[from] UserMcpError),
    #[error("the prompt cannot be read from `{}`", path.display())]
    Prompt { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Limits(#[from] LimitsNotHeld),
    #[error("Caretaker cannot find its own program")]
    OwnProgram(#[source] std::io::Error),
}

/// The shim could not write the agent's files. The error is only text, because only people read the details.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PrivateRootsErrorText(String);

impl From<PrivateRootsError> for PrepareError {
    fn from(error: PrivateRootsError) -> Self {
        Self::Roots(PrivateRootsErrorText(with_causes(&error)))
    }
}

impl PrepareError {
    /// The exit code of a command that fails with this.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Model(_) | Self::Flags(_) | Self::Profile(_) | Self::Workspace(_) => {
                ExitCode::Usage
            }
            Self::Plan(_) | Self::AllowedHost(_) | Self::UserMcp(_) => ExitCode::Usage,
            Self::Cache(CacheError::InUse) => ExitCode::Usage,
            Self::Login(_) => ExitCode::AuthenticationMissing,
            Self::Roots(_)
            | Self::MountPoints(_)
            | Self::Bucket(_)
            | Self::Cache(CacheError::Io { .. })
            | Self::Prompt { .. }
            | Self::Limits(_)
            | Self::OwnProgram(_) => ExitCode::SupervisorFailed,
        }
    }

    /// The outcome of a run that fails with this after it waited.
    pub(crate) fn outcome(&self) -> RunOutcome {
        match self.exit_code() {
            ExitCode::SupervisorFailed => RunOutcome::SupervisorFailed,
            ExitCode::AuthenticationMissing => RunOutcome::Failed { class: FailureClass::Auth },
            _ => RunOutcome::SandboxFailed,
        }
    }

    /// One thing to try.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Plan(PlanError::NoSandbox) => Some("use the profile `default`".to_owned()),
            Self::Plan(PlanError::RootCaller { .. }) => Some(
                "run as an ordinary user, or give the workspace to one: chown -R USER DIR"
                    .to_owned(),
            ),
            Self::Plan(PlanError::Workspace(
                WorkspaceError::ProtectedSymlink(_) | WorkspaceError::CommonDir(_),
            )) => Some("look at it, and remove it if it is not yours".to_owned()),
            Self::Plan(PlanError::Unprotected { what, .. }) => Some(
                match what {
                    PlanWarning::NestedUnseen { .. } => {
                        "run it in a smaller directory, or beside the checkout: --worktree"
                    }
                    _ => "look at it, and replace it with a plain file or directory",
                }
                .to_owned(),
            ),
            Self::Plan(PlanError::TooManyProtected { pattern, .. }) => Some(format!(
                "move some of them out of the workspace, or take `{pattern}` out of `protect` with a profile of your own"
            )),
            Self::Plan(PlanError::Workspace(WorkspaceError::ProtectedKind { .. })) => Some(
                "the repository or an earlier run put it there: look at it, and remove it"
                    .to_owned(),
            ),
            Self::Cache(CacheError::InUse) => {
                Some("wait for that run, or leave out --fresh-cache".to_owned())
            }
            Self::Login(_) => {
                Some("log in with `cursor-agent login`, or set CURSOR_API_KEY".to_owned())
            }
            Self::Limits(_) => Some(
                "see what to change with `caretaker doctor`, or use the profile `default`"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}
