//! The directory of one run: how to find it and lock it.

pub(crate) mod boot;
mod create;
mod kernel_lock;
mod queued;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ground::now_ms;
use ground::plain_file;
use nix::unistd::geteuid;
use run_protocol::{RunId, RunSpec};

use crate::StateRoot;

pub use boot::{boot_id, process_started};
pub use create::{CreateRunError, Prompt};
pub use kernel_lock::{KernelLock, LockHolder, LockSight};
pub use queued::{EndQueued, EndQueuedError};

/// How long a new run may be without a shim before it counts as lost.
const START_EXPECTED_MS: u64 = 30_000;
/// A spec holds a profile's text and some paths.
const SPEC_LIMIT: u64 = 16 * 1024 * 1024;

/// The directory of a run. It exists and belongs to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDirectory {
    run: RunId,
    path: PathBuf,
}

/// The holder may write to the run's directory. The kernel frees the lock when the last clone or the process is gone.
#[derive(Debug, Clone)]
pub struct RunLock {
    run: RunId,
    _lock: Arc<KernelLock>,
}

/// Whether a process writes to a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriterPresence {
    /// No process has written yet, and it is early enough to expect one.
    NotYet,
    /// A process holds the lock; its note may not be written yet.
    Live(Option<LockHolder>),
    /// No process writes any more; the journal is final. `None` if no process ever held the lock.
    Gone(Option<LockHolder>),
}

/// Why a run's directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenRunError {
    #[error("there is no run {0}")]
    Missing(RunId),
    #[error("`{path}` is not a directory of this user")]
    NotOurs { path: PathBuf },
    #[error("`{path}` cannot be examined")]
    Examine { path: PathBuf, source: io::Error },
}

/// Why a run's lock cannot be taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockRunError {
    #[error("the run already has a shim")]
    Held { holder: Option<LockHolder> },
    #[error("the run's lock could not be taken")]
    Take(#[source] io::Error),
}

/// Why a run's spec cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadSpecError {
    #[error("`{path}` cannot be read")]
    Read { path: PathBuf, source: io::Error },
    #[error("`{path}` is not the spec of a run that this version can read")]
    Parse { path: PathBuf, source: serde_json::Error },
}

impl RunDirectory {
    /// Creates the directory (0700) with `spec.json`, `prompt`, a free `run.lock` and a journal with `created` (0600).
    /// Other processes see the whole directory or nothing.
    pub fn create<'a>(
        state: &StateRoot,
        spec: &RunSpec,
        prompt: impl Into<Prompt<'a>>,
    ) -> Result<Self, CreateRunError> {
        let path = create::create(state, spec, prompt.into())?;
        Ok(Self { run: spec.run, path })
    }

    /// Removes a run that never began.
    pub fn withdraw(&self) {
        create::withdraw(&self.path);
    }

    /// Finds the directory of a run; refuses a link, and another user's directory.
    pub fn open(state: &StateRoot, run: RunId) -> Result<Self, OpenRunError> {
        let path = state.run_dir(&run);
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() && metadata.uid() == geteuid().as_raw() => {
                Ok(Self { run, path })
            }
            Ok(_) => Err(OpenRunError::NotOurs { path }),
            Err(err) if err.kind() == io::ErrorKind::NotFound => Err(OpenRunError::Missing(run)),
            Err(source) => Err(OpenRunError::Examine { path, source }),
        }
    }

    pub fn run_id(&self) -> RunId {
        self.run
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn spec(&self) -> Result<RunSpec, ReadSpecError> {
        let path = self.spec_path();
        let text = plain_file::read_at_most(&path, SPEC_LIMIT)
            .map_err(|source| ReadSpecError::Read { path: path.clone(), source })?;
        serde_json::from_slice(&text).map_err(|source| ReadSpecError::Parse { path, source })
    }

    /// The prompt, opened for reading.
    pub fn open_prompt(&self) -> io::Result<File> {
        plain_file::open(&self.prompt_path())
    }

    pub fn spec_path(&self) -> PathBuf {
        self.path.join("spec.json")
    }

    pub fn prompt_path(&self) -> PathBuf {
        self.path.join("prompt")
    }

    pub fn journal_path(&self) -> PathBuf {
        self.path.join("events.jsonl")
    }

    pub fn lock_path(&self) -> PathBuf {
        self.path.join("run.lock")
    }

    pub fn stderr_log_path(&self) -> PathBuf {
        self.path.join("stderr.log")
    }

    pub fn shim_log_path(&self) -> PathBuf {
        self.path.join("shim.log")
    }

    /// Takes the run's lock. Does not wait: the error names the process that holds it.
    pub fn lock(&self) -> Result<RunLock, LockRunError> {
        let path = self.lock_path();
        let Some(lock) = KernelLock::try_take(&path).map_err(LockRunError::Take)? else {
            let holder = KernelLock::note(&path).map_err(LockRunError::Take)?;
            return Err(LockRunError::Held { holder });
        };
        let pid = std::process::id();
        let holder = LockHolder {
            run: self.run,
            pid,
            since_ms: now_ms(),
            started: process_started(pid),
            boot: boot_id(),
        };
        lock.set_note(&holder).map_err(LockRunError::Take)?;
        Ok(RunLock { run: self.run, _lock: Arc::new(lock) })
    }

    /// True if a process holds the run's lock.
    pub fn is_live(&self) -> bool {
        KernelLock::is_held(&self.lock_path()).unwrap_or(false)
    }

    /// Returns whether a process writes, has written, or is still expected to write.
    pub fn writer(&self) -> io::Result<WriterPresence> {
        let start_expected_until = self.run.created_ms().saturating_add(START_EXPECTED_MS);
        Ok(match KernelLock::look(&self.lock_path())? {
            Some(LockSight::Held(holder)) => WriterPresence::Live(holder),
            Some(LockSight::Free(None)) if now_ms() < start_expected_until => {
                WriterPresence::NotYet
            }
            // A queued run may wait for any length of time.
            Some(LockSight::Free(_)) if self.is_queued().unwrap_or(false) => WriterPresence::NotYet,
            Some(LockSight::Free(last_holder)) => WriterPresence::Gone(last_holder),
            // Another process is removing the run.
            None => WriterPresence::Gone(None),
        })
    }
}

impl RunLock {
    pub fn run_id(&self) -> RunId {
        self.run
    }
}

#[cfg(test)]
#[path = "runs_tests.rs"]
mod tests;
