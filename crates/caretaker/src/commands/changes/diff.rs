//! `caretaker diff`: shows what a run changed.

use std::io::IsTerminal;
use std::process::Stdio;
use std::time::Duration;

use admission::command_error::{CommandError, OrFail};
use admission::host::host_git;
use admission::host::{Host, overview, short_id};
use admission::words::talk::{note, say};
use admission::worktrees::{Worktree, present};
use run_journal::RunOverview;
use run_protocol::{BytesPath, ChangeCounts, ExitCode, RunId};
use serde::Serialize;
use workspace_history::{
    ChangeKind, GitAnswer, History, Snapshot, TreePath, compare, count, run_git,
};

use crate::command_helper::CommandHelper;
use crate::commands::undo::{RunEnd, saved_before};
use crate::data_out::{print_json, print_view};
use crate::view::changes::diff_view;

/// Longer than any comparison should take.
const PATIENCE: Duration = Duration::from_secs(600);

/// Show what a run changed in its workspace.
///
/// For a run in a worktree: everything that `apply` would bring, from all runs there, committed or not. For any other
/// run: the workspace before the run against the workspace after it, or against the current one if the run is live.
/// Later changes, yours or those of other runs, are not shown. Piped, the output is a patch for `git apply`.
///
/// RUN is a run's id, a unique prefix or suffix of it, its name, or `-` for the latest run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run.
    run: String,
    /// Only list files and count lines.
    #[arg(long, conflicts_with = "json")]
    stat: bool,
    /// Print one JSON object: files and line counts.
    #[arg(long)]
    json: bool,
}

/// The changes, as `--json` prints them.
#[derive(Debug, Serialize)]
struct DiffReport {
    v: u32,
    kind: &'static str,
    run: RunId,
    workspace: BytesPath,
    changes: ChangeCounts,
    files: Vec<ChangedFile>,
}

#[derive(Debug, Serialize)]
struct ChangedFile {
    path: BytesPath,
    change: ChangeKind,
    /// Line counts; `None` if the file is not text, or if git sees no change in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    added: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    removed: Option<u64>,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let run = host.find_run(&args.run)?;
    let overview = overview(&run)?;
    let (history, from, to) = if overview.worktree.is_some() {
        let worktree = Worktree::of(host, &run)?;
        let base = worktree.base()?;
        let present = worktree.present(&base)?;
        (worktree.history, base, present)
    } else {
        let history = host_git::history(host, &overview.workspace.0)?;
        let (before, after) = sides(host, &history, &overview)?;
        (history, before, after)
    };
    let comparison = Comparison { history: &history, from: &from, to: &to };
    if args.json {
        print_json(&comparison.report(overview.run)?)?;
    } else if args.stat {
        let text = comparison.git(&["--stat=100"])?;
        print_view(|out| diff_view::print_plain(out, &text))?;
    } else if std::io::stdout().is_terminal() {
        let text = comparison.git(&["--patch", "--binary"])?;
        print_view(|out| diff_view::print_patch(out, &text))?;
    } else {
        comparison.pipe()?;
    }
    if from.has_same_entries_as(&to) {
        say("no changes");
    }
    Ok(ExitCode::Success)
}

/// The workspace before and after a run. For a live run, the second is the current workspace.
fn sides(
    host: &Host,
    history: &History,
    overview: &RunOverview,
) -> Result<(Snapshot, Snapshot), CommandError> {
    let run = overview.run;
    let before = saved_before(history, run)?;
    let end = RunEnd::find(host, history, run)?;
    if !matches!(end, RunEnd::Saved(_)) && !overview.state.is_unfinished() {
        let (id, until) = (short_id(run), end.until());
        note(&format!(
            "the workspace was not saved when run {id} ended; showing everything that changed until {until}"
        ));
    }
    let after = match end {
        RunEnd::Saved(after) => after,
        RunEnd::NextRun(_, next) if !overview.state.is_unfinished() => next,
        RunEnd::NextRun(..) | RunEnd::Now => present(history, run, &before)?,
    };
    Ok((before, after))
}

struct Comparison<'a> {
    history: &'a History,
    from: &'a Snapshot,
    to: &'a Snapshot,
}

impl Comparison<'_> {
    fn command(&self, options: &[&str]) -> Result<std::process::Command, CommandError> {
        self.history.diff_command(self.from, self.to, options).ok_or_else(|| {
            CommandError::new(ExitCode::NotFound, "cannot compare: the saved contents are gone")
        })
    }

    fn git(&self, options: &[&str]) -> Result<Vec<u8>, CommandError> {
        run_git(&mut self.command(options)?, None, PATIENCE)
            .and_then(GitAnswer::checked)
            .or_fail(|| "cannot compare the changes")
    }

    /// Writes the patch byte for byte, for a program.
    fn pipe(&self) -> Result<(), CommandError> {
        let mut command = self.command(&["--patch", "--binary"])?;
        let status = command.stdin(Stdio::null()).stdout(Stdio::inherit()).status();
        status.map(drop).or_fail(|| "cannot start git")
    }

    fn report(&self, run: RunId) -> Result<DiffReport, CommandError> {
        let numbers = lines_of(&self.git(&["--numstat", "-z", "--no-renames"])?);
        let changes = compare(self.from, self.to);
        let files = changes.iter().filter(|change| !change.is_of_directory()).map(|change| {
            let lines = numbers.get(change.path).copied().unwrap_or_default();
            ChangedFile {
                path: change.bytes_path(),
                change: change.kind,
                added: lines.map(|lines| lines.0),
                removed: lines.map(|lines| lines.1),
            }
        });
        Ok(DiffReport {
            v: 1,
            kind: "diff",
            run,
            workspace: BytesPath::from(self.history.workspace()),
            changes: count(&changes),
            files: files.collect(),
        })
    }
}

/// `added TAB removed TAB path NUL`, with `-` instead of numbers for a file that is not text.
fn lines_of(numstat: &[u8]) -> std::collections::BTreeMap<TreePath, Option<(u64, u64)>> {
    let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse::<u64>().ok();
    let entry = |line: &[u8]| {
        let mut fields = line.splitn(3, |byte| *byte == b'\t');
        let (added, removed) = (fields.next()?, fields.next()?);
        let path = TreePath::checked(fields.next()?)?;
        Some((path, number(added).zip(number(removed))))
    };
    numstat.split(|byte| *byte == 0).filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_files_have_line_counts() {
        let counted = lines_of(b"3\t1\tsrc/a b\0-\t-\tpicture\0nonsense\0");
        assert_eq!(counted[&"src/a b".into()], Some((3, 1)));
        assert_eq!(counted[&"picture".into()], None);
        assert_eq!(counted.len(), 2);
    }
}
