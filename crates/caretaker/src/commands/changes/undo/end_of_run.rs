//! The workspace at the end of a run, or the next best snapshot if the shim did not save it.

use std::path::{Path, PathBuf};

use admission::command_error::CommandError;
use admission::host::{Host, short_id};
use run_protocol::RunId;
use workspace_history::{History, Snapshot, SnapshotName};

/// Where the changes of a run end.
#[derive(Debug)]
pub(crate) enum RunEnd {
    /// The snapshot from the end of the run.
    Saved(Snapshot),
    /// There is no such snapshot. This one is from the start of the next run.
    NextRun(RunId, Snapshot),
    /// There is no such snapshot and no later run. Use the current workspace.
    Now,
}

impl RunEnd {
    pub(crate) fn find(host: &Host, history: &History, run: RunId) -> Result<Self, CommandError> {
        let kept = |name: &SnapshotName| {
            let found = history.snapshot(name)?;
            Ok::<_, CommandError>(found.filter(|snapshot| snapshot.commit.is_some()))
        };
        if let Some(saved) = kept(&SnapshotName::after(run))? {
            return Ok(Self::Saved(saved));
        }
        for later in later_runs(host, run, history.workspace()) {
            if let Some(before) = kept(&SnapshotName::before(later))? {
                return Ok(Self::NextRun(later, before));
            }
        }
        Ok(Self::Now)
    }

    /// `None`: the current workspace.
    pub(crate) fn snapshot(&self) -> Option<&Snapshot> {
        match self {
            Self::Saved(snapshot) | Self::NextRun(_, snapshot) => Some(snapshot),
            Self::Now => None,
        }
    }

    /// Its name in JSON.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Saved(_) => "saved",
            Self::NextRun(..) => "next_run",
            Self::Now => "now",
        }
    }

    /// Changes until this moment count as the run's.
    pub(crate) fn until(&self) -> String {
        match self {
            Self::Saved(_) => "the run ended".to_owned(),
            Self::NextRun(next, _) => format!("run {} began", short_id(*next)),
            Self::Now => "now".to_owned(),
        }
    }
}

/// Later runs in the same workspace, oldest first.
fn later_runs(host: &Host, run: RunId, workspace: &Path) -> Vec<RunId> {
    let Ok(entries) = std::fs::read_dir(host.state.runs()) else { return Vec::new() };
    let mut later: Vec<RunId> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<RunId>().ok())
        .filter(|other| *other > run)
        .filter(|other| {
            run_journal::RunDirectory::open(&host.state, *other)
                .ok()
                .and_then(|directory| directory.spec().ok())
                .is_some_and(|spec| PathBuf::from(spec.workspace) == workspace)
        })
        .collect();
    later.sort();
    later
}
