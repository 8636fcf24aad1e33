//! `caretaker diff`: what a run changed.

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
use crate::view::diff_view;

/// Longer than any comparison takes.
const PATIENCE: Duration = Duration::from_secs(600);

/// Show what a run changed in its workspace.
///
/// Of a run in a worktree, everything that `apply` would bring: what all runs there did so far, committed or not. Of any
/// other, the workspace before the run against the workspace after it, or as it is now while the run goes on; what you or
/// other runs changed later is not shown. Piped, it is a patch that `git apply` takes.
///
/// RUN is an id, a beginning of one that is unique, a name, or `-` for the latest run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run.
    run: String,
    /// Only which files, and how many lines.
    #[arg(long, conflicts_with = "json")]
    stat: bool,
    /// Print one JSON object: which files, and how many lines.
    #[arg(long)]
    json: bool,
}

/// What changed, in the shape that `--json` prints.
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
    /// Lines; `None` where it is no text, and where only git's own view of it is the same.
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

/// The workspace before a run and after it. Not the workspace of now, unless the run goes on.
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
            "the workspace was not saved when run {id} ended: this is everything that changed until {until}"
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
            CommandError::new(
                ExitCode::NotFound,
                "the contents are not kept, so they cannot be compared",
            )
        })
    }

    fn git(&self, options: &[&str]) -> Result<Vec<u8>, CommandError> {
        run_git(&mut self.command(options)?, None, PATIENCE)
            .and_then(GitAnswer::checked)
            .or_fail(|| "the changes could not be compared")
    }

    /// Byte for byte, for a program.
    fn pipe(&self) -> Result<(), CommandError> {
        let mut command = self.command(&["--patch", "--binary"])?;
        let status = command.stdin(Stdio::null()).stdout(Stdio::inherit()).status();
        status.map(drop).or_fail(|| "git cannot be started")
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

/// `added TAB removed TAB path NUL`, with `-` for the lines of what is no text.
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
    fn lines_are_counted_where_there_are_lines() {
        let counted = lines_of(b"3\t1\tsrc/a b\0-\t-\tpicture\0nonsense\0");
        assert_eq!(counted[&"src/a b".into()], Some((3, 1)));
        assert_eq!(counted[&"picture".into()], None);
        assert_eq!(counted.len(), 2);
    }
}
