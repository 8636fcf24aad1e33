//! Checks that a directory can be a workspace.

use std::path::Path;

use cursor_home::WorkspacePath;
use sandbox_plan::{Surroundings, Workspace};

use crate::command_error::CommandError;
use crate::host::Host;

/// Checks the directory that the user named, or the working directory, and returns its physical path.
pub fn check(host: &Host, named: Option<&Path>) -> Result<WorkspacePath, CommandError> {
    let Host { environment, places, .. } = host;
    let named = match named {
        Some(named) => environment.absolute(named),
        None => environment.working_directory.clone(),
    };
    let ours = [places.state.clone(), places.sockets.clone(), places.config.clone()];
    let surroundings =
        Surroundings { uid: environment.uid.as_raw(), home: &environment.home, ours: &ours };
    let workspace = Workspace::inspect(&named, surroundings)?;
    Ok(WorkspacePath::new(workspace.path())?)
}
