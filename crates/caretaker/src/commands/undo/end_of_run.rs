//! How a run left its workspace, and what stands for it where that was not saved.

use std::path::{Path, PathBuf};

use admission::command_error::CommandError;
use admission::host::{Host, short_id};
use run_protocol::RunId;
use workspace_history::{History, Snapshot, SnapshotName};

/// Where the changes of a run end.
#[derive(Debug)]
pub(crate) enum RunEnd {
    /// As it was saved when the run ended.
    Saved(Snapshot),
    /// That was not saved. This is how the next run found the workspace.
    NextRun(RunId, Snapshot),
    /// That was not saved, and no later run began. There is the workspace of now.
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

    /// `None`: as it is now.
    pub(crate) fn snapshot(&self) -> Option<&Snapshot> {
        match self {
            Self::Saved(snapshot) | Self::NextRun(_, snapshot) => Some(snapshot),
            Self::Now => None,
        }
    }

    /// What stands for the end, for a program.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Saved(_) => "saved",
            Self::NextRun(..) => "next_run",
            Self::Now => "now",
        }
    }

    /// Until when changes are taken for the run's.
    pub(crate) fn until(&self) -> String {
        match self {
            Self::Saved(_) => "the run ended".to_owned(),
            Self::NextRun(next, _) => format!("run {} began", short_id(*next)),
            Self::Now => "now".to_owned(),
        }
    }
}

/// Runs in the same workspace that were begun after this one, the oldest first.
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
