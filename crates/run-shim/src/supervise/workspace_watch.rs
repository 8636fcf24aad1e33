//! Saves the workspace before the agent's release, and audits it afterwards.
//!
//! Both happen on other threads. The shim sets up the sandbox meanwhile, and still answers its clients.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use run_journal::StateRoot;
use run_protocol::{Audit, BytesPath, RunEvent, RunId, RunSpec, WorkspaceSaving};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use workspace_history::{
    Git, History, Limits, Looked, SaveError, Saved, Scope, Snapshot, SnapshotName, TreePath,
    forget_the_gone, look_over,
};

use crate::limits::DiskAccount;

/// The shim saves at most this many files from a workspace.
const MOST_FILES: usize = 200_000;
/// The event names at most this many paths that the snapshot does not cover.
const MOST_LEFT_OUT: usize = 10;
/// The time limit for examining ignored directories at the end of a run.
const LONGEST_LOOK: Duration = Duration::from_secs(2);
/// The time limit for examining a workspace without saving it.
const LONGEST_GLANCE: Duration = Duration::from_secs(2);

/// The most checkpoints that an agent may ask for in one run.
const MOST_MARKS: u32 = 10;

/// The watched workspace.
#[derive(Debug, Clone)]
struct Watched {
    run: RunId,
    history: History,
    checkpoints: PathBuf,
    /// `None` if the shim only notices changes and saves no contents.
    saving: Option<WorkspaceSaving>,
    /// The run's own mount points in the workspace.
    skip: Vec<TreePath>,
}

/// The watch over one run's workspace.
#[derive(Debug)]
pub(crate) struct WorkspaceWatch {
    watched: Watched,
    /// The task that saves the workspace, once it has begun.
    before: Option<JoinHandle<Option<RunEvent>>>,
}

impl WorkspaceWatch {
    /// Prepares to save the workspace. `ours` are the run's own mount points in it.
    pub(crate) fn new<'a>(
        state: &StateRoot,
        spec: &RunSpec,
        ours: impl Iterator<Item = &'a Path>,
    ) -> Self {
        let workspace = Path::new(&spec.workspace);
        let skip = ours
            .filter_map(|path| path.strip_prefix(workspace).ok()?.to_str().map(TreePath::from))
            .collect();
        let program = spec.saving.as_ref().and_then(|saving| saving.git.clone());
        let git = Git::new(
            program.map_or_else(|| PathBuf::from("git"), |program| program.0),
            Some(spec.home.0.clone()),
        );
        let checkpoints = state.checkpoints();
        let watched = Watched {
            run: spec.run,
            history: History::of(&checkpoints, workspace, git),
            checkpoints,
            saving: spec.saving.clone(),
            skip,
        };
        Self { watched, before: None }
    }

    /// Starts saving the workspace.
    pub(crate) fn begin(&mut self) {
        let watched = self.watched.clone();
        self.before = Some(tokio::task::spawn_blocking(move || watched.before()));
    }

    /// Waits until the workspace is saved, or saving failed. Returns the event about it.
    pub(crate) async fn saved(&mut self) -> Option<RunEvent> {
        self.before.take()?.await.ok().flatten()
    }

    /// Frees the space of forgotten snapshots while the agent works.
    pub(crate) fn tidy(&self) {
        let watched = self.watched.clone();
        tokio::task::spawn_blocking(move || watched.tidy());
    }

    /// Returns a marker that saves the workspace when the agent asks for it. `None` if the run saves no workspace.
    pub(crate) fn marker(
        &self,
        events: mpsc::Sender<RunEvent>,
        account: DiskAccount,
    ) -> Option<Marker> {
        self.watched.saving.as_ref().filter(|saving| saving.git.is_some())?;
        let marks = Arc::new(Mutex::new(Marks::default()));
        Some(Marker { watched: self.watched.clone(), events, marks, account })
    }

    /// Returns the audit of the run's changes. The agent must be gone.
    pub(crate) async fn audit(self) -> Option<RunEvent> {
        let watched = self.watched;
        tokio::task::spawn_blocking(move || watched.after()).await.ok().flatten()
    }
}

/// Saves the workspace when the agent asks for it.
#[derive(Debug, Clone)]
pub(crate) struct Marker {
    watched: Watched,
    events: mpsc::Sender<RunEvent>,
    marks: Arc<Mutex<Marks>>,
    /// The snapshots count against the run's limit.
    account: DiskAccount,
}

#[derive(Debug, Default)]
struct Marks {
    n_begun: u32,
    is_busy: bool,
}

impl Marker {
    /// Starts saving on another thread. An event follows when it is done. An error is a sentence for the model.
    pub(crate) fn begin(&self, label: &str) -> Result<u32, String> {
        let mut marks = self.marks();
        if marks.is_busy {
            return Err(
                "The last checkpoint is not saved yet; this one was not started.".to_owned()
            );
        }
        if marks.n_begun >= MOST_MARKS {
            return Err(format!("A run may have at most {MOST_MARKS} checkpoints."));
        }
        marks.n_begun += 1;
        marks.is_busy = true;
        let (number, marker, label) = (marks.n_begun, self.clone(), label.to_owned());
        drop(marks);
        std::thread::spawn(move || {
            let event = marker.watched.mark(number, label, &marker.account);
            marker.marks().is_busy = false;
            // If the run is already over, no one needs the event.
            marker.events.blocking_send(event).ok();
        });
        Ok(number)
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    /// Saves the current workspace, in addition to the snapshot before the run.
    fn mark(&self, number: u32, label: String, account: &DiskAccount) -> RunEvent {
        let Some(saving) = &self.saving else {
            return RunEvent::WorkspaceNotSaved { reason: "saving is switched off".to_owned() };
        };
        let name = SnapshotName::marked(self.run, number);
        match self.history.save(&name, Scope::AsGitWould, &self.skip, limits_of(saving)) {
            Ok(saved) => {
                account.add(saved.bytes_read);
                RunEvent::WorkspaceMarked {
                    label,
                    number,
                    files: saved.snapshot.n_files(),
                    ms: u64::try_from(saved.took.as_millis()).unwrap_or(u64::MAX),
                }
            }
            Err(error) => RunEvent::WorkspaceNotSaved {
                reason: format!("checkpoint `{label}`: {}", in_words(&error)),
            },
        }
    }

    fn before(&self) -> Option<RunEvent> {
        let (event, seen) = self.save_or_glance();
        if let Err(error) = self.history.save_refs(self.run, seen.as_ref()) {
            tracing::warn!(%error, "could not save the branches of the workspace");
        }
        event
    }

    /// Saves the workspace, or only examines it if saving is off or fails. Returns the event and the snapshot.
    fn save_or_glance(&self) -> (Option<RunEvent>, Option<Snapshot>) {
        let name = SnapshotName::before(self.run);
        let Some(saving) = &self.saving else {
            return (None, self.glance(&name));
        };
        let outcome = match &saving.git {
            Some(_) => {
                let limits = limits_of(saving);
                self.history
                    .save(&name, Scope::AsGitWould, &self.skip, limits)
                    .map_err(|error| in_words(&error))
            }
            None => Err("git is not installed".to_owned()),
        };
        match outcome {
            Ok(saved) => {
                self.forget(saving);
                (Some(saved_event(&saved)), Some(saved.snapshot))
            }
            Err(reason) => {
                tracing::warn!(reason, "the workspace was not saved");
                (Some(RunEvent::WorkspaceNotSaved { reason }), self.glance(&name))
            }
        }
    }

    /// Examines the workspace without saving contents. If the workspace is too large, the audit has nothing to compare
    /// with.
    fn glance(&self, name: &SnapshotName) -> Option<Snapshot> {
        let limits =
            Limits { most_files: MOST_FILES, most_new_bytes: u64::MAX, within: LONGEST_GLANCE };
        let looked = self.history.look(name, &self.skip, limits);
        let failed =
            |error: &SaveError| tracing::info!(%error, "the workspace before the run is unknown");
        looked.inspect_err(failed).ok().map(|saved| saved.snapshot)
    }

    fn after(&self) -> Option<RunEvent> {
        let before = match self.history.snapshot(&SnapshotName::before(self.run)) {
            Ok(before) => before,
            Err(error) => {
                tracing::warn!(%error, "cannot read the snapshot before the run");
                None
            }
        };
        let is_known = before.is_some();
        let mut looked = before.map_or_else(Looked::default, |before| self.look_over(&before));
        if let Err(error) = self.history.end_refs(self.run, &mut looked) {
            tracing::warn!(%error, "could not examine the repositories of the workspace");
            looked = looked.or_incomplete(error.to_string());
        }
        let audit = looked.audit();
        (is_known || audit != Audit::default()).then_some(RunEvent::Audit(audit))
    }

    /// Compares the workspace with the snapshot before the run.
    fn look_over(&self, before: &Snapshot) -> Looked {
        let name = SnapshotName::after(self.run);
        let after = match (&self.saving, &before.commit) {
            (Some(saving), Some(_)) => {
                // Use the ignore rules from before the run, to find files that the run hid from git.
                self.history.save(&name, Scope::LookAs(before), &[], limits_of(saving))
            }
            _ => {
                let within = LONGEST_GLANCE;
                let limits = Limits { most_files: MOST_FILES, most_new_bytes: u64::MAX, within };
                self.history.look(&name, &[], limits)
            }
        };
        let deadline = Instant::now() + LONGEST_LOOK;
        match after {
            Ok(Saved { snapshot: after, passed_over, .. }) => {
                look_over(self.history.workspace(), before, &after, &passed_over, deadline)
            }
            Err(error) => Looked::default().or_incomplete(in_words(&error)),
        }
    }

    fn forget(&self, saving: &WorkspaceSaving) {
        let keep = usize::try_from(saving.keep_runs).unwrap_or(usize::MAX).max(1);
        match self.history.forget_all_but(keep) {
            Ok(0) => {}
            Ok(n_runs) => tracing::info!(n_runs, "removed snapshots of old runs"),
            Err(error) => tracing::warn!(%error, "old snapshots could not be removed"),
        }
    }

    fn tidy(&self) {
        if self.saving.as_ref().is_none_or(|saving| saving.git.is_none()) {
            return;
        }
        if let Err(error) = self.history.tidy() {
            tracing::warn!(%error, "could not free the space of old snapshots");
        }
        forget_the_gone(&self.checkpoints);
    }
}

fn limits_of(saving: &WorkspaceSaving) -> Limits {
    Limits {
        most_files: MOST_FILES,
        most_new_bytes: saving.most_new_bytes,
        within: Duration::from_millis(saving.within_ms),
    }
}

fn saved_event(saved: &Saved) -> RunEvent {
    let left_out = saved.snapshot.left_out.iter().take(MOST_LEFT_OUT);
    RunEvent::WorkspaceSaved {
        files: saved.snapshot.n_files(),
        new_bytes: saved.bytes_read,
        ms: u64::try_from(saved.took.as_millis()).unwrap_or(u64::MAX),
        left_out: left_out.map(|path| BytesPath::from(path.as_path())).collect(),
    }
}

fn in_words(error: &SaveError) -> String {
    ground::with_causes(error)
}
