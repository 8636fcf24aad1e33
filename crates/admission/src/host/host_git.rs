//! The host's git, and the workspace histories that it stores.

use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};
use run_protocol::ExitCode;
use workspace_history::{Git, GitError, History, RepositoryError};

use crate::command_error::CommandError;
use crate::host::Host;
use crate::host::environment::Environment;

/// Finds git on PATH; never in the workspace.
pub fn program(environment: &Environment, forbidden: Option<&Path>) -> Option<PathBuf> {
    let search = environment.variable("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin".as_ref());
    let is_foreign = |path: &Path| forbidden.is_none_or(|forbidden| !path.starts_with(forbidden));
    std::env::split_paths(search)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join("git"))
        .filter(|path| path.is_file() && access(path, AccessFlags::X_OK).is_ok())
        .filter_map(|path| path.canonicalize().ok().map(|real| (path, real)))
        .find(|(path, real)| is_foreign(path) && is_foreign(real))
        .map(|(path, _)| path)
}

/// The git to use, or an error with a hint.
pub fn find(host: &Host, forbidden: Option<&Path>) -> Result<Git, CommandError> {
    let found = program(&host.environment, forbidden).ok_or_else(|| {
        CommandError::new(ExitCode::Failed, "git is not installed, but this command needs it")
            .hint("install it: `sudo apt-get install git` (Debian, Ubuntu)")
    })?;
    Ok(Git::new(found, Some(host.environment.home.clone())))
}

/// The saved states of a workspace.
pub fn history(host: &Host, workspace: &Path) -> Result<History, CommandError> {
    // The overview of a run with a damaged record has no workspace.
    if !workspace.is_absolute() {
        let what = "the run's workspace is unknown, because its record cannot be read";
        return Err(CommandError::new(ExitCode::Failed, what)
            .hint("see what is wrong with it: caretaker show RUN"));
    }
    let git = find(host, Some(workspace))?;
    Ok(History::of(&host.state.checkpoints(), workspace, git))
}

/// The error of a failed git command, with a hint if the repository itself is the cause.
pub fn refused(what: impl Into<String>, error: GitError) -> CommandError {
    let hint = match &error {
        GitError::Repository(RepositoryError::Unsound { path, .. }) => {
            Some(format!("an agent may have left it; look at it, then: rm '{}'", path.display()))
        }
        GitError::Repository(RepositoryError::Foreign { file, .. }) => Some(format!(
            "an agent may have written `{}`; if it is yours, run in that repository: git config core.worktree '{}'",
            file.display(),
            file.parent().unwrap_or(file).display()
        )),
        _ => None,
    };
    let failed = CommandError::new(ExitCode::Failed, what).because(error);
    match hint {
        Some(hint) => failed.hint(hint),
        None => failed,
    }
}
