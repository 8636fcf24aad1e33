//! `caretaker undo`: undoes a run's changes, or those after a checkpoint.

mod end_of_run;
mod refs;
mod report;
mod task;

use std::path::Path;

use admission::command_error::{CommandError, OrFail};
use admission::host::host_git;
use admission::host::{Host, overview};
use admission::worktrees::GENEROUS;
use ground::now_ms;
use run_journal::RunDirectory;
use run_protocol::{ExitCode, RunId};
use run_shim::hold_workspace;
use workspace_history::{
    Change, History, MergePlan, Operation, Restored, Scope, Snapshot, SnapshotName, changes_to,
    restore,
};

use crate::command_helper::CommandHelper;

pub(crate) use end_of_run::RunEnd;
use refs::RefUndo;
use report::Report;
use task::Task;
pub(crate) use task::saved_before;

/// Undo a run's changes in its workspace, or only those after a checkpoint that its agent made.
///
/// Contents, modes, links, deleted and new files go back to their state before the run. Later changes, yours or those
/// of other runs, stay: if both touched a file, their lines are merged. If a file cannot be merged, it is a conflict:
/// `undo` lists it, changes nothing, and exits with 4. With `--yes` it undoes the rest and leaves conflicting files
/// alone.
///
/// Files that git ignored before the run stay untouched. Branches that the run moved or deleted go back, unless they
/// have moved again since. Commits and branches that the run made stay. A repository that the run made is removed,
/// unless it changed after the run. The current state is saved first, and `--redo` brings it back. No run may be live
/// in the workspace.
///
/// If the workspace was not saved when the run ended (for instance because its supervisor was killed), Caretaker cannot
/// tell the run's changes from later ones. Then `undo` needs `--yes`, and undoes everything that changed until the next
/// run began, or until now.
///
/// RUN is a run's id, a unique prefix or suffix of it, its name, or `-` for the latest run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker undo - --dry-run      what would change, and which files conflict
  caretaker undo - --yes          leave conflicting files alone, and undo the rest
  caretaker undo - --to parsed    only what the run did after the agent's checkpoint `parsed`
  caretaker undo - --redo         bring it back; a second `--redo` undoes it again")]
pub(crate) struct Args {
    /// The run.
    run: String,
    /// Go back only to a checkpoint that the agent made with its tool `checkpoint`: its label or its number.
    #[arg(long, value_name = "LABEL", conflicts_with = "redo")]
    to: Option<String>,
    /// Reverse the last undo of this run; a second `--redo` undoes it again. Later changes stay.
    #[arg(long)]
    redo: bool,
    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Leave conflicting files alone and undo the rest.
    #[arg(long)]
    yes: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let run = host.find_run(&args.run)?;
    let id = run.run_id();
    let overview = overview(&run)?;
    let workspace = overview.workspace.0.clone();
    if !workspace.is_dir() {
        let what = format!("the workspace `{}` of run {id} is gone", workspace.display());
        return Err(CommandError::new(ExitCode::NotFound, what));
    }
    let history = host_git::history(host, &workspace)?;
    let place = Place { host, history: &history, run: id, directory: &run };
    let _hold = hold(host, &workspace, id)?;
    let task = place.task(args)?;
    let present = place.save(&task, args.dry_run)?;
    let plan = task.plan(&history, &present)?;
    let changes = changes_to(&present, &plan.target);
    let is_a_guess = task.assumed_end().is_some() && !changes.is_empty();
    let is_refused = (is_a_guess || !plan.conflicts.is_empty()) && !args.yes;
    let refs = match args.to {
        // Caretaker does not know the positions of branches in the middle of a run.
        Some(_) => RefUndo::nothing(),
        None => RefUndo::plan(&history, id, args.redo)?,
    };
    let has_work = !changes.is_empty() || task.unfinished().is_some() || !refs.is_empty();
    let mut report = Report::new(args, &place, &task, &present, &plan, &changes, refs);
    if args.dry_run {
        report.is_refused = is_refused;
    } else if is_refused || !has_work {
        report.is_refused = is_refused;
        // `save` may have made directories readable: restore their modes.
        restore(&history, &present, &present).map_err(not_put_back)?;
    } else {
        report.outcome =
            Some(place.carry_out(&task, &present, &plan, &changes, &mut report.refs)?);
    }
    report.print()
}

/// A run in its workspace.
struct Place<'a> {
    host: &'a Host,
    history: &'a History,
    run: RunId,
    directory: &'a RunDirectory,
}

impl Place<'_> {
    /// Saves the current workspace.
    fn save(&self, task: &Task, is_only_a_look: bool) -> Result<Snapshot, CommandError> {
        // Use the ignore rules of the state to restore, so that files that it ignores do not look new.
        let earlier = task.cover();
        let repositories = task.repositories();
        let scope = Scope::With { earlier: &earlier, repositories: &repositories, is_only_a_look };
        let name = SnapshotName::seen(self.run);
        let saved = self
            .history
            .save(&name, scope, &[], GENEROUS)
            .or_fail(|| "cannot save the current workspace, so nothing changed")?;
        Ok(saved.snapshot)
    }

    /// Carries out the plan. First records the state that the workspace is about to get, so that the next attempt can
    /// finish if this process dies.
    fn carry_out(
        &self,
        task: &Task,
        present: &Snapshot,
        plan: &MergePlan,
        changes: &[Change<'_>],
        refs: &mut RefUndo,
    ) -> Result<Restored, CommandError> {
        let operation = match task.unfinished() {
            Some(operation) => operation.clone(),
            None => {
                let replaced = self.history.next_replaced(self.run);
                let seen = SnapshotName::seen(self.run);
                self.history.rename_latest(&seen, &replaced)?;
                let restored = replaced.restored();
                let kept = self.history.keep_result(&restored, &plan.target, &plan.merged);
                kept?;
                let (kind, goal) = (task.kind(), task.goal_name().cloned());
                Operation { at: now_ms(), run: self.run, kind, replaced, restored, goal }
            }
        };
        self.history.begin(&operation)?;
        let outcome = restore(self.history, present, &plan.target).map_err(not_put_back)?;
        let is_nothing = refs.is_empty() && outcome.has_changed_nothing(changes);
        refs.apply(self.history);
        match is_nothing && task.unfinished().is_none() {
            true => self.history.forget_begun()?,
            false => self.history.end(&operation)?,
        }
        Ok(outcome)
    }
}

fn not_put_back(error: workspace_history::RestoreError) -> CommandError {
    CommandError::new(ExitCode::Failed, "cannot restore the workspace").because(error)
}

/// Keeps runs out of a workspace until the result is dropped.
pub(crate) fn hold(
    host: &Host,
    workspace: &Path,
    run: RunId,
) -> Result<run_shim::WorkspaceHold, CommandError> {
    Ok(hold_workspace(&host.state, &host.places.sockets, workspace, run)?)
}
