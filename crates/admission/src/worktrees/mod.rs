//! Worktrees that runs work in, so that the user's own checkout is untouched.
//!
//! ```text
//!   worktrees/<name>/       the worktree: the workspace of its runs
//!   worktrees/<name>.json   whose it is; stays when it is discarded, so that a session that ran there can be explained
//!   checkpoints/…           what it was when it was made (`base`), and what of it the checkout got (`applied`)
//! ```

mod fresh;

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

pub use fresh::{Branch, Fresh, remove};

/// What a worktree holds is saved however large it is.
pub const GENEROUS: Limits = Limits {
    most_files: 2_000_000,
    most_new_bytes: u64::MAX,
    within: Duration::from_secs(24 * 3600),
};

/// What is written down beside a worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    v: u32,
    #[serde(flatten)]
    pub origin: WorktreeOrigin,
    created_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discarded_ms: Option<u64>,
}

/// The file beside a worktree; `None` for what is no worktree of ours.
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
        return Err(io::Error::other("it is no worktree of ours"));
    };
    replace_file(&path, &serde_json::to_vec(record)?, Durable::No)
}

/// The repository that a workspace is a worktree of, if we made it.
pub(crate) fn origin_of(host: &Host, workspace: &Path) -> Option<WorktreeOrigin> {
    record_of(host, workspace).map(|record| record.origin)
}

/// A worktree that a run worked in, and what is known of it.
pub struct Worktree {
    pub run: RunId,
    pub path: PathBuf,
    pub origin: WorktreeOrigin,
    pub history: History,
}

impl Worktree {
    /// The worktree of a run; an error where it has none, or has it no more.
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

    /// What the worktree was when it was made.
    pub fn base(&self) -> Result<Snapshot, CommandError> {
        let base = self.history.snapshot(&SnapshotName::base())?;
        base.ok_or_else(|| {
            let what = "what the worktree was when it was made is not kept any more";
            CommandError::new(ExitCode::NotFound, what)
                .hint(format!("its branch is `{}`: use git", self.origin.branch))
        })
    }

    /// What the checkout has of it already: what was applied last, or the beginning.
    pub fn taken(&self) -> Result<Snapshot, CommandError> {
        match self.history.snapshot(&SnapshotName::applied())? {
            Some(applied) => Ok(applied),
            None => self.base(),
        }
    }

    /// What is in it now.
    pub fn present(&self, base: &Snapshot) -> Result<Snapshot, CommandError> {
        present(&self.history, self.run, base)
    }
}

/// What is in a workspace now, by the rules of an earlier snapshot.
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

/// Notes that a worktree is gone.
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
    fn records_of_version_1_are_read_whole() {
        check::<Record>(&["v1/state/worktrees/*.json"], Layout::Compact);
    }
}
