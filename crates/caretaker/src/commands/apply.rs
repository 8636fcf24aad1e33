//! `caretaker apply`: brings what was done in a worktree into the user's checkout.

use admission::command_error::{CommandError, OrFail};
use admission::host::host_git;
use admission::host::short_id;
use admission::words::talk::{note, say};
use admission::worktrees::{GENEROUS, Worktree};
use ground::now_ms;
use run_protocol::{BytesPath, ChangeCounts, ExitCode, RunId};
use serde::Serialize;
use workspace_history::{
    Change, ChangeKind, History, MergePlan, Operation, OperationKind, Restored, Reversal, Scope,
    Snapshot, SnapshotName, TreePath, changes_to, count, merge, restore, restore_with,
};

use crate::command_helper::CommandHelper;
use crate::commands::undo::hold;
use crate::data_out::{print_json, print_view};
use crate::view::change_view;

/// Bring what was done in a run's worktree into your checkout.
///
/// Everything that differs from when the worktree was made, or from what was applied last: committed, uncommitted and
/// untracked. What you changed in the meantime stays; where both changed a file, their lines are merged. If that cannot be
/// done for one file, nothing at all is changed. Nothing is committed: the worktree's own commits are on its branch.
/// `--revert` follows the same rules.
///
/// RUN is an id, a beginning of one that is unique, a name, or `-` for the latest run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run.
    run: String,
    /// Only say what would change.
    #[arg(long)]
    dry_run: bool,
    /// Take back what the last apply changed in the checkout. What you changed since stays.
    #[arg(long)]
    revert: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// What was done, in the shape that `--json` prints.
#[derive(Debug, Serialize)]
struct ApplyReport {
    v: u32,
    kind: &'static str,
    run: RunId,
    checkout: BytesPath,
    dry_run: bool,
    changes: ChangeCounts,
    paths: Vec<ChangedPath>,
    /// Files in which both sides' lines were brought together.
    merged: Vec<BytesPath>,
    /// Where there are any, nothing was changed.
    conflicts: Vec<ConflictingPath>,
}

#[derive(Debug, Serialize)]
struct ChangedPath {
    path: BytesPath,
    change: ChangeKind,
}

#[derive(Debug, Serialize)]
struct ConflictingPath {
    path: BytesPath,
    why: String,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let run = host.find_run(&args.run)?;
    let worktree = Worktree::of(host, &run)?;
    let checkout = worktree.origin.repository.0.clone();
    if !checkout.is_dir() {
        let what = format!("the checkout `{}` is gone", checkout.display());
        return Err(CommandError::new(ExitCode::NotFound, what));
    }
    let history = host_git::history(host, &checkout)?;
    let _worktree_hold = hold(host, &worktree.path, worktree.run)?;
    let _checkout_hold = hold(host, &checkout, worktree.run)?;
    let apply = Apply { args, worktree: &worktree, checkout: &history };
    if args.revert { apply.revert() } else { apply.apply() }
}

struct Apply<'a> {
    args: &'a Args,
    worktree: &'a Worktree,
    checkout: &'a History,
}

impl Apply<'_> {
    fn apply(&self) -> Result<ExitCode, CommandError> {
        let run = self.worktree.run;
        let base = self.worktree.taken()?;
        let theirs = self.worktree.present(&base)?;
        // Whatever one of them has is looked at in the checkout, even where it is ignored there.
        let mut cover = theirs.clone();
        for (path, entry) in &base.entries {
            cover.entries.entry(path.clone()).or_insert_with(|| entry.clone());
        }
        let name = self.checkout.next_replaced(run);
        let ours = self.save(&name, Scope::LookAs(&cover))?;
        let merged = merge(&self.worktree.history, self.checkout, &base, &theirs, &ours);
        let merged = merged?;
        if !merged.conflicts.is_empty() {
            return self.refuse("apply", &merged);
        }
        let changes = changes_to(&ours, &merged.target);
        if !self.args.dry_run && !changes.is_empty() {
            let operation = self.operation(OperationKind::Apply, name, &merged)?;
            self.checkout.begin(&operation)?;
            let outcome =
                restore_with(self.checkout, &self.worktree.history, &ours, &merged.target);
            let outcome = outcome.map_err(not_changed)?;
            if !outcome.failed.is_empty() {
                return self.take_back(&ours, &outcome);
            }
            self.checkout.end(&operation)?;
        }
        if !self.args.dry_run {
            let history = &self.worktree.history;
            history.also_known_as(&SnapshotName::applied(), &theirs)?;
        }
        self.report("apply", &changes, &merged.merged)?;
        if !self.args.json {
            self.talk(&changes, &merged.merged);
        }
        Ok(ExitCode::Success)
    }

    /// Writes down what the checkout is about to become, so that only that is taken back by a revert.
    fn operation(
        &self,
        kind: OperationKind,
        replaced: SnapshotName,
        plan: &MergePlan,
    ) -> Result<Operation, CommandError> {
        let restored = replaced.restored();
        let kept = self.checkout.keep_result(&restored, &plan.target, &plan.merged);
        kept?;
        let (at, run, goal) = (now_ms(), self.worktree.run, None);
        Ok(Operation { at, run, kind, replaced, restored, goal })
    }

    fn save(&self, name: &SnapshotName, scope: Scope<'_>) -> Result<Snapshot, CommandError> {
        let saved = self
            .checkout
            .save(name, scope, &[], GENEROUS)
            .or_fail(|| "the checkout could not be saved, so nothing was changed")?;
        Ok(saved.snapshot)
    }

    /// Nothing was changed.
    fn refuse(&self, kind: &'static str, plan: &MergePlan) -> Result<ExitCode, CommandError> {
        let conflicts = &plan.conflicts;
        if self.args.json {
            print_json(&ApplyReport {
                conflicts: conflicts
                    .iter()
                    .map(|conflict| ConflictingPath {
                        path: BytesPath::from(conflict.path.as_path()),
                        why: conflict.why.clone(),
                    })
                    .collect(),
                ..self.empty_report(kind)
            })?;
            return Ok(ExitCode::Conflict);
        }
        for conflict in conflicts {
            note(&format!("`{}`: {}", conflict.path, conflict.why));
        }
        if self.args.revert {
            let what =
                "the checkout changed after the apply in the same places, so nothing was reverted";
            let hint = "make those files what they were right after the apply, or take your changes back by hand";
            return Err(CommandError::new(ExitCode::Conflict, what).hint(hint));
        }
        let what = "the checkout and the worktree stand against each other, so nothing was changed";
        let branch = &self.worktree.origin.branch;
        Err(CommandError::new(ExitCode::Conflict, what).hint(format!(
            "commit what you have and merge the branch by hand: git merge {branch} \
             (what is not committed in the worktree is in `{}`)",
            self.worktree.path.display()
        )))
    }

    /// Half a change is none.
    fn take_back(&self, ours: &Snapshot, outcome: &Restored) -> Result<ExitCode, CommandError> {
        let name = self.checkout.next_replaced(self.worktree.run);
        let half = self.save(&name, Scope::As(ours))?;
        restore(self.checkout, &half, ours).map_err(not_changed)?;
        let reasons = outcome.failed.iter().map(|(path, why)| format!("`{path}`: {why}"));
        let reasons = reasons.collect::<Vec<_>>().join("; ");
        let what = "the changes could not be written, and the checkout is as it was";
        Err(CommandError::new(ExitCode::Failed, what).because(reasons))
    }

    fn revert(&self) -> Result<ExitCode, CommandError> {
        let run = self.worktree.run;
        let operations = self.checkout.operations();
        let last = operations.into_iter().rfind(|operation| {
            operation.run == run
                && matches!(operation.kind, OperationKind::Apply | OperationKind::Revert)
        });
        let last = last.filter(|last| last.kind == OperationKind::Apply).ok_or_else(|| {
            let what = format!("nothing of run {run} is applied, so there is nothing to revert");
            CommandError::new(ExitCode::NotFound, what)
        })?;
        let snapshot = |name: &SnapshotName| {
            let found = self.checkout.snapshot(name)?;
            found.ok_or_else(|| {
                let what = "what the apply changed is not kept, so it cannot be reverted";
                CommandError::new(ExitCode::NotFound, what)
                    .because("it is older than what is kept, or an older version did it")
            })
        };
        let (replaced, restored) = (snapshot(&last.replaced)?, snapshot(&last.restored)?);
        let reversal = Reversal { replaced: &replaced, restored: &restored, since: "the apply" };
        let name = self.checkout.next_replaced(run);
        let present = self.save(&name, Scope::LookAs(&reversal.cover()))?;
        let plan = reversal.plan(self.checkout, Some(&self.worktree.history), &present);
        let plan = plan?;
        if !plan.conflicts.is_empty() {
            return self.refuse("revert", &plan);
        }
        let changes = changes_to(&present, &plan.target);
        if !self.args.dry_run {
            let operation = self.operation(OperationKind::Revert, name, &plan)?;
            self.checkout.begin(&operation)?;
            let outcome = restore(self.checkout, &present, &plan.target).map_err(not_changed)?;
            self.checkout.end(&operation)?;
            for (path, why) in &outcome.failed {
                note(&format!("`{path}` is not as it was: {why}"));
            }
            // All of it is to be applied again then.
            let base = self.worktree.base()?;
            let history = &self.worktree.history;
            history.also_known_as(&SnapshotName::applied(), &base)?;
        }
        self.report("revert", &changes, &plan.merged)?;
        if !self.args.json {
            for path in &plan.merged {
                note(&format!(
                    "`{path}` changed after the apply too, and the lines were merged: look at it"
                ));
            }
            let counts = change_view::counts(count(&changes));
            let word = if self.args.dry_run { "would revert" } else { "reverted" };
            say(&format!("{word}: {counts}"));
        }
        Ok(ExitCode::Success)
    }

    fn empty_report(&self, kind: &'static str) -> ApplyReport {
        ApplyReport {
            v: 1,
            kind,
            run: self.worktree.run,
            checkout: BytesPath::from(self.checkout.workspace()),
            dry_run: self.args.dry_run,
            changes: ChangeCounts::default(),
            paths: Vec::new(),
            merged: Vec::new(),
            conflicts: Vec::new(),
        }
    }

    fn report(
        &self,
        kind: &'static str,
        changes: &[Change<'_>],
        merged: &[TreePath],
    ) -> Result<(), CommandError> {
        if self.args.json {
            let paths = changes
                .iter()
                .map(|change| ChangedPath { path: change.bytes_path(), change: change.kind });
            return print_json(&ApplyReport {
                changes: count(changes),
                paths: paths.collect(),
                merged: merged.iter().map(|path| BytesPath::from(path.as_path())).collect(),
                ..self.empty_report(kind)
            });
        }
        print_view(|out| change_view::print_paths(out, changes))
    }

    fn talk(&self, changes: &[Change<'_>], merged: &[TreePath]) {
        for path in merged {
            note(&format!("`{path}` was changed in both, and the lines were merged: look at it"));
        }
        let id = short_id(self.worktree.run);
        let counts = change_view::counts(count(changes));
        let checkout = self.checkout.workspace().display();
        say(&match (changes.is_empty(), self.args.dry_run) {
            (true, _) => format!("nothing to do: `{checkout}` has it all"),
            (false, true) => format!("would change in `{checkout}`: {counts}"),
            (false, false) => format!(
                "applied to `{checkout}`: {counts}\n  take it back      caretaker apply {id} --revert\n  \
                 drop the worktree caretaker discard {id}"
            ),
        });
    }
}

fn not_changed(error: workspace_history::RestoreError) -> CommandError {
    CommandError::new(ExitCode::Failed, "the checkout could not be changed").because(error)
}
