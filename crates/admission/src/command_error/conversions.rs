//! How a command words the errors of our other crates, so that it can write `?`.
//!
//! Only errors that mean the same wherever they occur are here. A command that knows more, such as which file or which run
//! it was about, says so itself: see `OrFail`. An `io::Error` has no place here: it does not say what was read or written.

use std::fs;

use cursor_home::{ExtraFlagError, RootsError, WorkspacePathError};
use run_journal::{CreateRunError, IndexError, ResolveError};
use run_protocol::{ExitCode, PromptProblem};
use run_shim::{PrepareError, RestoreError, StartShimError, UserMcpError, WorkspaceBusy};
use sandbox_plan::WorkspaceError;
use workspace_history::{HistoryError, MergeError};

use crate::command_error::CommandError;
use crate::host::short_id;

impl CommandError {
    fn hint_if_any(self, hint: Option<impl Into<String>>) -> Self {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }
}

// Runs

impl From<IndexError> for CommandError {
    fn from(error: IndexError) -> Self {
        Self::new(ExitCode::Failed, "the runs cannot be listed").because(error)
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
                    .hint(format!("write more of the one you mean:\n{}", list.join("\n")))
            }
            error => Self::new(ExitCode::Failed, "the runs cannot be listed").because(error),
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
                return Self::new(ExitCode::NotFound, "the run was not made").because(error);
            }
            _ => ExitCode::SupervisorFailed,
        };
        Self::new(code, "the run's directory could not be made")
            .because(error)
            .hint("see what `caretaker doctor` says of the state directory, or set CARETAKER_HOME")
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

// The sandbox and what an agent gets in it

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
        let what = "it is not clear where cursor-agent keeps its files";
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
                Err(_) => "it leads nowhere".to_owned(),
            },
            WorkspaceError::NotUtf8(_) => "rename the directory".to_owned(),
            WorkspaceError::DotCursor(_)
            | WorkspaceError::McpJson(_)
            | WorkspaceError::Git(_)
            | WorkspaceError::CommonDir(_)
            | WorkspaceError::ProtectedSymlink(_) => {
                "the repository or an earlier run put it there: look at it, and remove it"
                    .to_owned()
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
        Self::new(ExitCode::Failed, "what is kept of the workspace cannot be used").because(error)
    }
}

impl From<MergeError> for CommandError {
    fn from(error: MergeError) -> Self {
        Self::new(ExitCode::Failed, "the changes could not be brought together").because(error)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use run_protocol::RunId;

    use super::*;

    #[test]
    fn an_error_of_another_crate_has_its_exit_code_its_sentence_and_its_hint() {
        let run: RunId = "0191d0f6-1111-7000-8000-0123456789ab".parse().unwrap();
        let unreadable = || io::Error::other("it is not a directory");
        let refused = |hint: Option<&str>| StartShimError::Refused {
            exit_code: ExitCode::Conflict as u8,
            message: "the workspace is in use".to_owned(),
            hint: hint.map(ToOwned::to_owned),
        };
        let errors: [(CommandError, ExitCode, &str); 9] = [
            (
                IndexError::Runs(unreadable()).into(),
                ExitCode::Failed,
                "error: the runs cannot be listed\n  because the directory of runs could not be read\n  \
                 because it is not a directory\n",
            ),
            (
                ResolveError::NotFound { text: "x".to_owned() }.into(),
                ExitCode::NotFound,
                "error: there is no run `x`\n\nhint: see all runs with `caretaker ps --all`\n",
            ),
            (
                ResolveError::Ambiguous { text: "0191".to_owned(), candidates: vec![run] }.into(),
                ExitCode::Usage,
                "error: `0191` may be any of 1 runs\n\nhint: write more of the one you mean:\n\
                 0191d0f6-1111-7000-8000-0123456789ab\n",
            ),
            (
                ResolveError::Runs(unreadable()).into(),
                ExitCode::Failed,
                "error: the runs cannot be listed\n  because the directory of runs could not be read\n  \
                 because it is not a directory\n",
            ),
            (PromptProblem::Empty.into(), ExitCode::Usage, "error: the prompt is empty\n"),
            (
                CreateRunError::FollowsNone(run).into(),
                ExitCode::NotFound,
                "error: the run was not made\n  \
                 because run 0191d0f6-1111-7000-8000-0123456789ab, which it is to follow, is gone\n",
            ),
            (
                refused(Some("wait")).into(),
                ExitCode::Conflict,
                "error: the workspace is in use\n\nhint: wait\n",
            ),
            (refused(None).into(), ExitCode::Conflict, "error: the workspace is in use\n"),
            (
                StartShimError::Silent { log: "one\ntwo\n".to_owned() }.into(),
                ExitCode::SupervisorFailed,
                "error: the run's supervisor ended without a word\n  because two\n",
            ),
        ];
        for (error, code, text) in errors {
            assert_eq!((error.exit_code(), error.text().as_str()), (code, text));
        }
    }
}
