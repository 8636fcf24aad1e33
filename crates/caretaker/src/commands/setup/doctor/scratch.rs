//! The scratch repository of a trial, and everything that the trial's runs put elsewhere on the host.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use admission::command_error::{CommandError, OrFail};
use admission::config::Config;
use admission::host::{Host, host_git, kept_agents};
use admission::words::talk::note;
use cursor_home::WorkspacePath;
use ground::command::Bounds;
use run_journal::{KernelLock, RunDirectory};
use run_protocol::{ControlRequest, RunId, RunSpec, StopManner};
use tempfile::TempDir;
use uuid::Uuid;

use crate::retention::removal::{self, RemoveError};
use crate::running::stopping::{tell, wait_until_dead};

/// `git init` takes a few milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// A message names at most this many files.
const MOST_NAMES: usize = 5;

pub(super) struct Scratch<'a> {
    host: &'a Host,
    config: &'a Config,
    directory: TempDir,
    /// Its physical path.
    path: PathBuf,
    runs: Vec<RunId>,
    /// The session of the runs, and the directory where Cursor keeps all chats.
    session: Option<(Uuid, PathBuf)>,
}

impl<'a> Scratch<'a> {
    /// Makes an empty repository. Without git it is an empty directory, as for any run.
    pub(super) fn make(host: &'a Host, config: &'a Config) -> Result<Self, CommandError> {
        let made = tempfile::Builder::new().prefix("caretaker-trial-").tempdir();
        let directory = made.or_fail(|| "cannot make a directory for the trial")?;
        let path = fs::canonicalize(directory.path())
            .or_fail(|| "cannot use the directory of the trial")?;
        if let Some(git) = host_git::program(&host.environment, Some(&path)) {
            let mut git = Command::new(git);
            git.args(["init", "--quiet", "--template="]).arg(&path).env_clear();
            let made = ground::command::run(&mut git, None, Bounds::of_question(PATIENCE));
            made.or_fail(|| "cannot make a repository for the trial")?;
        }
        Ok(Self { host, config, directory, path, runs: Vec::new(), session: None })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Notes a run that is about to start, and where it will put its session.
    pub(super) fn expect(&mut self, spec: &RunSpec) {
        self.runs.push(spec.run);
        self.session = Some((spec.session, spec.host_config_root.0.join("chats")));
    }

    /// The session's store in Cursor's own directory.
    pub(super) fn store_db(&self) -> Option<PathBuf> {
        let (session, _) = self.session.as_ref()?;
        let stores = self.buckets().into_iter().map(|bucket| bucket.join(session.to_string()));
        stores.map(|store| store.join("store.db")).find(|store_db| store_db.is_file())
    }

    /// The buckets of this workspace. No other session is in them, because the workspace is new.
    fn buckets(&self) -> Vec<PathBuf> {
        let Some((session, chats)) = &self.session else { return Vec::new() };
        let own = WorkspacePath::new(&self.path).map(|workspace| chats.join(workspace.bucket()));
        let entries = fs::read_dir(chats).into_iter().flatten().flatten();
        entries
            .map(|entry| entry.path())
            .filter(|bucket| {
                own.as_ref().is_ok_and(|own| own == bucket)
                    || bucket.join(session.to_string()).is_dir()
            })
            .collect()
    }

    /// Removes the runs, their session and the repository. Returns what the agent left besides, each in a few words.
    pub(super) fn clear(self) -> Vec<String> {
        let runs: Vec<RunDirectory> = self
            .runs
            .iter()
            .filter_map(|run| RunDirectory::open(&self.host.state, *run).ok())
            .collect();
        for run in runs.iter().filter(|run| run.is_live()) {
            let socket = self.host.control_socket(run);
            let stop = ControlRequest::Stop { manner: StopManner::Now };
            tell(run, &socket, &stop).and_then(|()| wait_until_dead(run, &socket)).ok();
        }
        let mut left = self.processes();
        left.extend(self.files());
        left.extend(self.other_sessions());
        if self.config.budgets.day.budget().is_set() {
            note("the trial's runs stay until tomorrow, because today's budget counts them");
        } else {
            left.extend(runs.iter().filter_map(|run| {
                let error = self.remove(run).err()?;
                Some(format!("run {}: {}", run.run_id(), ground::with_causes(&error)))
            }));
        }
        if let Err(error) = self.remove_session() {
            left.push(error.message_with_causes());
        }
        if let Err(error) = kept_agents::remove_unneeded(&self.host.state) {
            left.push(format!("the kept version of the agent: {error}"));
        }
        if let Err(error) = self.directory.close() {
            left.push(format!("{}: {error}", self.path.display()));
        }
        left
    }

    /// Processes that still work in the repository.
    fn processes(&self) -> Vec<String> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries
            .filter(|entry| {
                let place = fs::read_link(entry.path().join("cwd"));
                place.is_ok_and(|place| place.starts_with(&self.path))
            })
            .filter_map(|entry| Some(format!("process {}", entry.file_name().to_str()?)))
            .collect()
    }

    /// Files in the repository. The prompts ask for none.
    fn files(&self) -> Option<String> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name()).filter(|name| name != ".git");
        let mut names: Vec<String> = names.map(|name| name.display().to_string()).collect();
        names.sort();
        let n_more = names.len().saturating_sub(MOST_NAMES);
        names.truncate(MOST_NAMES);
        let more = if n_more > 0 { format!(" and {n_more} more") } else { String::new() };
        (!names.is_empty()).then(|| format!("{}{more} in the workspace", names.join(", ")))
    }

    /// Sessions that the agent made besides its own.
    fn other_sessions(&self) -> Vec<String> {
        let own = self.session.as_ref().map(|(session, _)| session.to_string());
        let entries = self.buckets().into_iter().filter_map(|bucket| fs::read_dir(bucket).ok());
        let names =
            entries.flatten().flatten().map(|entry| entry.file_name().display().to_string());
        names
            .filter(|name| Some(name) != own.as_ref())
            .map(|name| format!("session {name}"))
            .collect()
    }

    fn remove(&self, run: &RunDirectory) -> Result<(), RemoveError> {
        let state = &self.host.state;
        let lock = KernelLock::take_waiting(&state.removal_lock()).map_err(RemoveError::Lock)?;
        removal::remove(state, run, lock)
    }

    /// Removes the session, and what Caretaker keeps about the workspace.
    fn remove_session(&self) -> Result<(), CommandError> {
        let Some((session, _)) = &self.session else { return Ok(()) };
        let state = &self.host.state;
        for gone in self.buckets().into_iter().chain([state.session_dir(session)]) {
            if gone.exists() {
                fs::remove_dir_all(&gone)
                    .or_fail(|| format!("cannot remove `{}`", gone.display()))?;
            }
        }
        if let Ok(found) = fs::metadata(&self.path) {
            fs::remove_file(state.workspace_lock(found.dev(), found.ino())).ok();
        }
        // Without git there is no history.
        if let Ok(history) = host_git::history(self.host, &self.path) {
            history.remove().or_fail(|| "cannot remove the history of the workspace")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surroundings::tests::environment_of;

    #[test]
    fn a_process_and_files_that_are_left_in_the_repository_are_named_and_the_repository_is_removed()
    {
        let root = tempfile::tempdir().unwrap();
        let host = Host::new(environment_of(&[
            ("HOME", root.path()),
            ("CARETAKER_HOME", &root.path().join("state")),
            ("PATH", Path::new("/usr/bin:/bin")),
        ]));
        let config = Config::default();
        let make = || Scratch::make(&host, &config).unwrap();
        assert_eq!(make().clear(), Vec::<String>::new());

        let scratch = make();
        let path = scratch.path().to_owned();
        for name in ["g", "f", "e", "d", "c", "b", "a"] {
            fs::write(path.join(name), "").unwrap();
        }
        let mut sleeper = Command::new("sleep").arg("600").current_dir(&path).spawn().unwrap();
        let left = scratch.clear();
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        let process = format!("process {}", sleeper.id());
        assert_eq!(left, [process, "a, b, c, d, e and 2 more in the workspace".to_owned()]);
        assert!(!path.exists());
    }
}
