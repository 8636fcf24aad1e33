//! Whether a directory may be handed to an agent.

use std::fs;
use std::path::Path;

use cursor_home::WorkspacePath;
use run_protocol::ExitCode;
use sandbox_plan::{Surroundings, Workspace, WorkspaceError};

use crate::command_error::CommandError;
use crate::host::Host;

/// Checks the directory that the user named, or the one we are in, and gives its physical path.
pub(crate) fn check(host: &Host, named: Option<&Path>) -> Result<WorkspacePath, CommandError> {
    let Host { environment, places, .. } = host;
    let named = match named {
        Some(named) => environment.absolute(named),
        None => environment.working_directory.clone(),
    };
    let ours = [places.state.clone(), places.sockets.clone(), places.config.clone()];
    let surroundings =
        Surroundings { uid: environment.uid.as_raw(), home: &environment.home, ours: &ours };
    let workspace = Workspace::inspect(&named, surroundings).map_err(refused)?;
    WorkspacePath::new(workspace.path())
        .map_err(|error| CommandError::new(ExitCode::Usage, error.to_string()))
}

fn refused(error: WorkspaceError) -> CommandError {
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
            "the repository or an earlier run put it there: look at it, and remove it".to_owned()
        }
        _ => "name a project of your own with --workspace DIR".to_owned(),
    };
    let command_error = CommandError::new(code, error.to_string()).hint(hint);
    match error {
        WorkspaceError::Look { source, .. } => command_error.because(source),
        _ => command_error,
    }
}
