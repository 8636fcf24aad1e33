//! Worktrees for runs, so that they do not touch the user's own checkout.
//!
//! ```text
//!   worktrees/<name>/       the worktree: the workspace of its runs
//!   worktrees/<name>.json   its origin; kept when the worktree is discarded, to explain sessions that ran there
//!   checkpoints/…           its first state (`base`), and the state that the checkout got (`applied`)
//! ```

mod fresh;
mod include;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ground::{Durable, replace_file};
use run_journal::{RunDirectory, RunOverview};
use run_protocol::{ExitCode, RunId, WorktreeOrigin};
use serde::{Deserialize, Serialize};
use workspace_history::{History, Limits, Saved, Scope, Snapshot, SnapshotName};

use crate::command_error::{CommandError, OrFail};
use crate::host::host_git;
use crate::host::{Host, overview, short_id};

pub use fresh::{Branch, Fresh, Wanted, remove};

/// Generous limits, so that even a very large worktree is saved.
pub const GENEROUS: Limits = Limits {
    most_files: 2_000_000,
    most_new_bytes: u64::MAX,
    within: Duration::from_secs(24 * 3600),
};

/// The record next to a worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    v: u32,
    #[serde(flatten)]
    pub origin: WorktreeOrigin,
    created_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discarded_ms: Option<u64>,
}

/// The path of a worktree's record; `None` if Caretaker did not make the worktree.
fn record_path(host: &Host, workspace: &Path) -> Option<PathBuf> {
    let home = host.state.worktrees();
    let home = fs::canonicalize(&home).unwrap_or(home);
    let name = workspace.strip_prefix(&home).ok()?.to_str()?;
    (!name.is_empty() && !name.contains('/')).then(|| home.join(format!("{name}.json")))
}

pub(crate) fn record_of(host: &Host, workspace: &Path) -> Option<Record> {
    let text = fs::read(record_path(host, workspace)?).ok()?;
    serde_json::from_slice(&text).ok()
}

fn write_record(host: &Host, workspace: &Path, record: &Record) -> io::Result<()> {
    let Some(path) = record_path(host, workspace) else {
        return Err(io::Error::other("Caretaker did not make this worktree"));
    };
    replace_file(&path, &serde_json::to_vec(record)?, Durable::No)
}

/// The repository that a workspace is a worktree of, if Caretaker made the worktree.
pub(crate) fn origin_of(host: &Host, workspace: &Path) -> Option<WorktreeOrigin> {
    record_of(host, workspace).map(|record| record.origin)
}

/// A worktree that a run worked in.
pub struct Worktree {
    pub run: RunId,
    pub path: PathBuf,
    pub origin: WorktreeOrigin,
    pub history: History,
}

impl Worktree {
    /// The worktree of a run. Fails if the run has none or the worktree is gone.
    pub fn of(host: &Host, run: &RunDirectory) -> Result<Self, CommandError> {
        let RunOverview { workspace, worktree, run: id, .. } = overview(run)?;
        let Some(origin) = worktree else {
            let what = format!("run {id} did not work in a worktree");
            let hint = format!("see what it changed with `caretaker diff {}`", short_id(id));
            return Err(CommandError::new(ExitCode::Usage, what).hint(hint));
        };
        let path = workspace.0;
        if !path.is_dir() {
            let what = match record_of(host, &path).and_then(|record| record.discarded_ms) {
                Some(_) => format!("the worktree of run {id} was discarded"),
                None => format!("the worktree `{}` of run {id} is gone", path.display()),
            };
            return Err(CommandError::new(ExitCode::NotFound, what));
        }
        let history = host_git::history(host, &path)?;
        Ok(Self { run: id, path, origin, history })
    }

    /// The first state of the worktree.
    pub fn base(&self) -> Result<Snapshot, CommandError> {
        let base = self.history.snapshot(&SnapshotName::base())?;
        base.ok_or_else(|| {
            let what = "the first state of the worktree is no longer kept";
            CommandError::new(ExitCode::NotFound, what)
                .hint(format!("its branch is `{}`: use git", self.origin.branch))
        })
    }

    /// The state that the user's checkout has: the state that was applied last, or the first state.
    pub fn taken(&self) -> Result<Snapshot, CommandError> {
        match self.history.snapshot(&SnapshotName::applied())? {
            Some(applied) => Ok(applied),
            None => self.base(),
        }
    }

    /// The current state.
    pub fn present(&self, base: &Snapshot) -> Result<Snapshot, CommandError> {
        present(&self.history, self.run, base)
    }
}

/// Saves the current state of a workspace by the rules of an earlier snapshot.
pub fn present(
    history: &History,
    run: RunId,
    earlier: &Snapshot,
) -> Result<Snapshot, CommandError> {
    let name = SnapshotName::seen(run);
    let saved = history.save(&name, Scope::LookAs(earlier), &[], GENEROUS);
    let Saved { snapshot, .. } =
        saved.or_fail(|| format!("`{}` could not be read", history.workspace().display()))?;
    Ok(snapshot)
}

/// Records that a worktree was discarded.
pub fn note_discarded(host: &Host, workspace: &Path, now_ms: u64) -> io::Result<()> {
    match record_of(host, workspace) {
        Some(record) => {
            write_record(host, workspace, &Record { discarded_ms: Some(now_ms), ..record })
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use format_fixtures::{Layout, check};

    use super::*;

    #[test]
    fn records_of_version_1_are_read_in_full() {
        check::<Record>(&["v1/state/worktrees/*.json"], Layout::Compact);
    }
}
