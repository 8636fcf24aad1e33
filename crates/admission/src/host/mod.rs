//! The host: its environment, Caretaker's directories on it, and the runs in them.

pub mod agent_discovery;
pub mod disk;
pub mod environment;
pub(crate) mod git_settings;
pub mod host_git;
pub mod kept_agents;
pub mod login_file;
pub mod memory;
pub mod places;
pub mod store_places;

use std::path::PathBuf;

pub use run_journal::list_runs;
use run_journal::{OpenRunError, ResolveError, RunDirectory, RunFinder, RunOverview, StateRoot};
use run_protocol::{ExitCode, RunId, RunName};
use run_shim::SocketPaths;

use crate::command_error::CommandError;
use crate::config::Config;
use crate::host::environment::Environment;
use crate::host::places::Places;

#[derive(Debug, Clone)]
pub struct Host {
    pub environment: Environment,
    pub places: Places,
    pub state: StateRoot,
}

impl Host {
    /// The host with this environment, which determines Caretaker's directories.
    pub fn new(environment: Environment) -> Self {
        let places = Places::of(&environment);
        let state = StateRoot::new(places.state.clone());
        Self { environment, places, state }
    }

    /// Reads the user's configuration. Commands use their `CommandHelper` instead, which reads it once.
    pub fn load_config(&self) -> Result<Config, CommandError> {
        Config::load(&self.environment, &self.places)
    }

    /// Removes the leftovers of dead runs: files in workspaces, copies of logins, and sockets.
    pub fn clean_up_after_the_dead(&self) {
        run_shim::clean_up_after_the_dead(&self.state, &self.places.sockets);
        for directory in [self.state.path(), &self.state.groups(), &self.state.worktrees()] {
            ground::remove_dead_drafts(directory);
        }
    }

    /// Finds the run that the user means: by id, by a prefix of an id, by name, or `-` for the latest.
    pub fn find_run(&self, text: &str) -> Result<RunDirectory, CommandError> {
        self.find_among(&RunFinder::new(&self.state)?, text)
    }

    fn find_among(&self, all: &RunFinder<'_>, text: &str) -> Result<RunDirectory, CommandError> {
        let run = match all.find(text) {
            // A name is free again once its run has ended, so several runs may have had it. The name means the last of
            // them. No id looks like a name.
            Err(ResolveError::Ambiguous { candidates, .. })
                if text.parse::<RunName>().is_ok() && !candidates.is_empty() =>
            {
                candidates[0]
            }
            resolved => resolved?,
        };
        RunDirectory::open(&self.state, run).map_err(|error| {
            let code = match &error {
                OpenRunError::Missing(_) => ExitCode::NotFound,
                _ => ExitCode::Failed,
            };
            CommandError::new(code, format!("the run {run} cannot be opened")).because(error)
        })
    }

    /// The socket of a run's shim. If the spec is unreadable, returns the path that a new run would use.
    pub fn control_socket(&self, run: &RunDirectory) -> PathBuf {
        let root =
            run.spec().map_or_else(|_| self.places.sockets.clone(), |spec| spec.socket_dir.0);
        SocketPaths::new(&root, run.run_id()).control()
    }

    /// Finds all runs that the user means, each once.
    pub fn find_runs(&self, texts: &[String]) -> Result<Vec<RunDirectory>, CommandError> {
        let all = RunFinder::new(&self.state)?;
        let mut found: Vec<RunDirectory> = Vec::new();
        for text in texts {
            let run = self.find_among(&all, text)?;
            if found.iter().all(|earlier| earlier.run_id() != run.run_id()) {
                found.push(run);
            }
        }
        Ok(found)
    }
}

/// The overview of a run.
pub fn overview(run: &RunDirectory) -> Result<RunOverview, CommandError> {
    RunOverview::read(run).map_err(|error| {
        if !run.path().exists() {
            let what = format!("run {} no longer exists: its shim refused it", run.run_id());
            return CommandError::new(ExitCode::NotFound, what);
        }
        let what = format!("the run {} cannot be read", run.run_id());
        CommandError::new(ExitCode::Failed, what).because(error)
    })
}

/// A short id to tell runs apart. It is the end of the id, because ids from the same minute begin alike.
pub fn short_id(run: RunId) -> String {
    let id = run.to_string();
    id.rsplit('-').next().unwrap_or(&id).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_form_of_an_id_is_its_last_group() {
        let run: RunId = "0191d0f6-1111-7000-8000-0123456789ab".parse().unwrap();
        assert_eq!(short_id(run), "0123456789ab");
    }
}
