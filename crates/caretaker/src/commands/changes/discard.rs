//! `caretaker discard`: removes a run's worktree and its branch.

use admission::command_error::{CommandError, OrFail};
use admission::host::host_git;
use admission::host::{Host, list_runs, short_id};
use admission::words::talk::{note, say};
use admission::worktrees::{self, Branch, Worktree};
use ground::now_ms;
use run_journal::{KernelLock, RunFilter, RunOverview, Which};
use run_protocol::{BytesPath, ChangeCounts, ExitCode};
use serde_json::json;
use workspace_history::{compare, count};

use crate::command_helper::CommandHelper;
use crate::commands::undo::hold;
use crate::data_out::{print_json, print_view};
use crate::view::changes::change_view;

/// Remove a run's worktree and its branch.
///
/// If the worktree has unapplied changes, they are listed and `--yes` is needed. The conversation stays; continue it
/// elsewhere with `caretaker sessions fork`.
///
/// RUN is a run's id, a unique prefix or suffix of it, its name, or `-` for the latest run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run.
    run: String,
    /// Discard unapplied changes too.
    #[arg(long)]
    yes: bool,
    /// Keep the branch and its commits.
    #[arg(long)]
    keep_branch: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let run = host.find_run(&args.run)?;
    let worktree = Worktree::of(host, &run)?;
    let lock = hold(host, &worktree.path, worktree.run)?;
    let unapplied = unapplied(&worktree, args)?;
    let is_done = args.yes || unapplied == ChangeCounts::default();
    if is_done {
        // The lock keeps new runs out of the queue until the worktree is gone.
        let _removal = KernelLock::take_waiting(&host.state.removal_lock())
            .or_fail(|| "cannot take the lock for removals")?;
        must_not_be_waited_for(host, &worktree)?;
        let branch = if args.keep_branch { Branch::Keep } else { Branch::Delete };
        discard_held(host, &worktree, branch)?;
    }
    drop(lock);
    if args.json {
        print_json(&json!({
            "v": 1,
            "kind": "discard",
            "run": worktree.run,
            "worktree": BytesPath::from(worktree.path.as_path()),
            "branch": worktree.origin.branch,
            "is_done": is_done,
            "unapplied": unapplied,
        }))?;
    }
    match is_done {
        true => {
            if !args.json {
                say(&format!("discarded `{}`", worktree.path.display()));
            }
            Ok(ExitCode::Success)
        }
        false if args.json => Ok(ExitCode::Conflict),
        false => {
            let id = short_id(worktree.run);
            let counts = change_view::counts(unapplied);
            let what = format!("the worktree has unapplied changes ({counts})");
            Err(CommandError::new(ExitCode::Conflict, what).hint(format!(
                "take them with `caretaker apply {id}`, or discard them: caretaker discard {id} --yes"
            )))
        }
    }
}

/// Refuses if a queued run needs this worktree, because such a run does not hold the workspace yet.
fn must_not_be_waited_for(host: &Host, worktree: &Worktree) -> Result<(), CommandError> {
    let filter = RunFilter { which: Which::All, ..RunFilter::default() };
    let runs = list_runs(&host.state, &filter)?;
    let is_there = |run: &&RunOverview| run.workspace.0.starts_with(&worktree.path);
    match runs.iter().filter(is_there).find(|run| run.state.is_unfinished()) {
        None => Ok(()),
        Some(waiting) => {
            let id = short_id(waiting.run);
            let what = format!("run {} is queued to work in this worktree", waiting.run);
            Err(CommandError::new(ExitCode::Conflict, what).hint(format!(
                "wait for it with `caretaker wait {id}`, or stop it: caretaker kill {id}"
            )))
        }
    }
}

/// A worktree that no run can use until this is dropped.
pub(crate) struct HeldWorktree<'a> {
    worktree: &'a Worktree,
    _hold: run_shim::WorkspaceHold,
}

impl<'a> HeldWorktree<'a> {
    pub(crate) fn take(host: &Host, worktree: &'a Worktree) -> Result<Self, CommandError> {
        Ok(Self { worktree, _hold: hold(host, &worktree.path, worktree.run)? })
    }

    /// Checks again, because a run may have worked in it in the meantime.
    pub(crate) fn must_be_in_the_checkout(&self) -> Result<(), CommandError> {
        let taken = self.worktree.taken()?;
        if compare(&taken, &self.worktree.present(&taken)?).is_empty() {
            return Ok(());
        }
        let what = "its worktree has unapplied changes";
        Err(CommandError::new(ExitCode::Conflict, what))
    }

    pub(crate) fn discard(self, host: &Host) -> Result<(), CommandError> {
        discard_held(host, self.worktree, Branch::Delete)
    }
}

fn discard_held(host: &Host, worktree: &Worktree, branch: Branch) -> Result<(), CommandError> {
    let git = host_git::find(host, Some(&worktree.path))?;
    worktrees::remove(&git, &worktree.path, &worktree.origin, branch)?;
    worktree.history.remove()?;
    worktrees::note_discarded(host, &worktree.path, now_ms())
        .or_fail(|| "cannot record that the worktree is gone")
}

/// Counts the changes that would be lost, and lists them unless the user gave `--yes`.
fn unapplied(worktree: &Worktree, args: &Args) -> Result<ChangeCounts, CommandError> {
    // With `--yes`, remove even a worktree whose changes cannot be compared.
    let taken = match worktree.taken() {
        Ok(taken) => taken,
        Err(error) if args.yes => {
            note(&error.message_with_causes());
            return Ok(ChangeCounts::default());
        }
        Err(error) => return Err(error),
    };
    let present = worktree.present(&taken)?;
    let changes = compare(&taken, &present);
    if !args.yes && !args.json {
        print_view(|out| change_view::print_paths(out, &changes))?;
    }
    Ok(count(&changes))
}
