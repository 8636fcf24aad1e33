//! Converts the errors of other crates into command errors, so that a command can use `?`.
//!
//! Only errors that mean the same everywhere are here. A command that knows more, such as the file or the run, adds
//! that with `OrFail`. `io::Error` is not here: it does not say which file.

use std::fs;

use cursor_home::{ExtraFlagError, RootsError, WorkspacePathError};
use run_journal::{CreateRunError, IndexError, ResolveError};
use run_protocol::{ExitCode, PromptProblem};
use run_shim::{PrepareError, RestoreError, StartShimError, UserMcpError, WorkspaceBusy};
use sandbox_plan::WorkspaceError;
use workspace_history::{HistoryError, MergeError};

use crate::command_error::CommandError;
use crate::host::kept_agents::KeepError;
use crate::host::short_id;

// Runs

impl From<IndexError> for CommandError {
    fn from(error: IndexError) -> Self {
        Self::new(ExitCode::Failed, "cannot list the runs").because(error)
    }
}

impl From<ResolveError> for CommandError {
    fn from(error: ResolveError) -> Self {
        match error {
            ResolveError::NotFound { .. } => Self::new(ExitCode::NotFound, error.to_string())
                .hint("see all runs with `caretaker ps --all`"),
            ResolveError::Ambiguous { ref candidates, .. } => {
                let list: Vec<String> = candidates.iter().map(ToString::to_string).collect();
                Self::new(ExitCode::Usage, error.to_string())
                    .hint(format!("use a longer prefix:\n{}", list.join("\n")))
            }
            error => Self::new(ExitCode::Failed, "cannot list the runs").because(error),
        }
    }
}

impl From<PromptProblem> for CommandError {
    fn from(problem: PromptProblem) -> Self {
        Self::new(ExitCode::Usage, problem.to_string())
    }
}

impl From<CreateRunError> for CommandError {
    fn from(error: CreateRunError) -> Self {
        let code = match &error {
            CreateRunError::Exists(_) => ExitCode::Conflict,
            CreateRunError::FollowsNone(_) | CreateRunError::NoWorktree { .. } => {
                return Self::new(ExitCode::NotFound, "the run was not created").because(error);
            }
            _ => ExitCode::SupervisorFailed,
        };
        Self::new(code, "the run's directory could not be created")
            .because(error)
            .hint("check the state directory with `caretaker doctor`, or set CARETAKER_HOME")
    }
}

impl From<KeepError> for CommandError {
    fn from(error: KeepError) -> Self {
        let hint = match &error {
            KeepError::Io { .. } => "check the state directory with `caretaker doctor`",
            KeepError::Changed(_) => "start the run again",
        };
        let what = "the run's version of the agent could not be kept";
        Self::new(ExitCode::SupervisorFailed, what).because(error).hint(hint)
    }
}

impl From<StartShimError> for CommandError {
    fn from(error: StartShimError) -> Self {
        let code = match &error {
            StartShimError::Refused { exit_code, .. } => ExitCode::from_number(*exit_code),
            _ => None,
        };
        let failed = Self::new(code.unwrap_or(ExitCode::SupervisorFailed), error.to_string());
        match error {
            StartShimError::Refused { hint, .. } => failed.hint_if_any(hint),
            StartShimError::Spawn { source, .. } => failed.because(source),
            StartShimError::Silent { log } => match log.lines().last() {
                Some(last) => failed.because(last),
                None => failed,
            },
            _ => failed,
        }
    }
}

// The sandbox and its contents

impl From<PrepareError> for CommandError {
    fn from(error: PrepareError) -> Self {
        Self::new(error.exit_code(), error.to_string()).hint_if_any(error.hint())
    }
}

impl From<UserMcpError> for CommandError {
    fn from(error: UserMcpError) -> Self {
        let hint = error.hint();
        Self::new(ExitCode::Usage, "the MCP servers cannot be used").because(error).hint(hint)
    }
}

impl From<ExtraFlagError> for CommandError {
    fn from(error: ExtraFlagError) -> Self {
        Self::new(ExitCode::Usage, error.to_string())
    }
}

impl From<RootsError> for CommandError {
    fn from(error: RootsError) -> Self {
        let what = "cannot determine cursor-agent's directories";
        Self::new(ExitCode::Usage, what).because(error)
    }
}

impl From<RestoreError> for CommandError {
    fn from(error: RestoreError) -> Self {
        let log_in = "log in again: cursor-agent login";
        let list = "see the kept logins: caretaker login ls";
        let (code, hint) = match &error {
            RestoreError::NothingKept => (ExitCode::NotFound, log_in),
            RestoreError::Unknown(_) => (ExitCode::NotFound, list),
            RestoreError::Ambiguous(_) => (ExitCode::Usage, list),
            _ => (ExitCode::Failed, log_in),
        };
        let failed = Self::new(code, error.to_string()).hint(hint);
        match error {
            RestoreError::Kept(source) | RestoreError::Write { source, .. } => {
                failed.because(source)
            }
            _ => failed,
        }
    }
}

// Workspaces

impl From<WorkspaceError> for CommandError {
    fn from(error: WorkspaceError) -> Self {
        let code = match &error {
            WorkspaceError::Missing(_) => ExitCode::NotFound,
            WorkspaceError::Look { .. } => ExitCode::Failed,
            _ => ExitCode::Usage,
        };
        let hint = match &error {
            WorkspaceError::Symlink(link) => match fs::canonicalize(link) {
                Ok(target) => format!("--workspace '{}'", target.display()),
                Err(_) => "its target does not exist".to_owned(),
            },
            WorkspaceError::NotUtf8(_) => "rename the directory".to_owned(),
            WorkspaceError::DotCursor(_)
            | WorkspaceError::McpJson(_)
            | WorkspaceError::Git(_)
            | WorkspaceError::CommonDir(_)
            | WorkspaceError::ProtectedSymlink(_) => {
                "the repository or an earlier run created it: check it, and remove it".to_owned()
            }
            _ => "name a project of your own with --workspace DIR".to_owned(),
        };
        let failed = Self::new(code, error.to_string()).hint(hint);
        match error {
            WorkspaceError::Look { source, .. } => failed.because(source),
            _ => failed,
        }
    }
}

impl From<WorkspacePathError> for CommandError {
    fn from(error: WorkspacePathError) -> Self {
        Self::new(ExitCode::Usage, error.to_string())
    }
}

impl From<WorkspaceBusy> for CommandError {
    fn from(busy: WorkspaceBusy) -> Self {
        let code = if busy.is_held() { ExitCode::Conflict } else { ExitCode::Failed };
        let hint = busy.holder().map(short_id).map(|id| {
            format!("wait for it with `caretaker wait {id}`, or stop it: caretaker kill {id}")
        });
        Self::new(code, busy.to_string()).hint_if_any(hint)
    }
}

impl From<HistoryError> for CommandError {
    fn from(error: HistoryError) -> Self {
        Self::new(ExitCode::Failed, "the saved states of the workspace cannot be used")
            .because(error)
    }
}

impl From<MergeError> for CommandError {
    fn from(error: MergeError) -> Self {
        Self::new(ExitCode::Failed, "the changes could not be merged").because(error)
    }
}

#[cfg(test)]
#[path = "conversions_tests.rs"]
mod tests;
