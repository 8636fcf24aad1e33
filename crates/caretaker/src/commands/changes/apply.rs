//! `caretaker apply`: brings a worktree's changes into the user's checkout.

use admission::command_error::{CommandError, OrFail};
use admission::host::host_git;
use admission::host::short_id;
use admission::words::talk::{note, say};
use admission::worktrees::{GENEROUS, Worktree};
use ground::now_ms;
use run_protocol::{BytesPath, ExitCode};
use serde_json::{Value, json};
use workspace_history::{
    Change, Conflict, History, MergePlan, Operation, OperationKind, Restored, Reversal, Scope,
    Snapshot, SnapshotName, TreePath, changes_to, count, merge, restore, restore_with,
};

use crate::command_helper::CommandHelper;
use crate::commands::undo::hold;
use crate::data_out::{print_json, print_view};
use crate::view::changes::change_view::{self, ChangedPath, PathAndReason};

/// Bring the changes in a run's worktree into your checkout.
///
/// Takes everything that changed since the worktree was made, or since the last apply: committed, uncommitted and
/// untracked. Your own changes stay. If both sides changed a file, it merges their lines. If it cannot merge a file, it
/// changes nothing. It commits nothing: the worktree's commits stay on its branch. `--revert` follows the same rules.
///
/// RUN is a run's id, a unique prefix or suffix of it, its name, or `-` for the latest run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run.
    run: String,
    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Undo what the last apply changed in the checkout. Your later changes stay.
    #[arg(long)]
    revert: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
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
        // Save every path that either side has, even if the checkout ignores it.
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

    /// Records the state that the checkout is about to get, so that a revert undoes only this apply.
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
            .or_fail(|| "cannot save the checkout, so nothing changed")?;
        Ok(saved.snapshot)
    }

    /// Reports the conflicts. Nothing has changed.
    fn refuse(&self, kind: &str, plan: &MergePlan) -> Result<ExitCode, CommandError> {
        let conflicts = &plan.conflicts;
        if self.args.json {
            print_json(&self.for_programs(kind, &[], &[], conflicts))?;
            return Ok(ExitCode::Conflict);
        }
        for conflict in conflicts {
            note(&format!("`{}`: {}", conflict.path, conflict.why));
        }
        if self.args.revert {
            let what =
                "the checkout changed in the same places after the apply, so nothing was reverted";
            let hint = "restore those files to their state after the apply, or revert by hand";
            return Err(CommandError::new(ExitCode::Conflict, what).hint(hint));
        }
        let what = "the checkout and the worktree conflict, so nothing changed";
        let branch = &self.worktree.origin.branch;
        Err(CommandError::new(ExitCode::Conflict, what).hint(format!(
            "commit your changes and merge the branch by hand: git merge {branch} \
            (uncommitted changes of the worktree are in `{}`)",
            self.worktree.path.display()
        )))
    }

    /// Undoes a half-written change.
    fn take_back(&self, ours: &Snapshot, outcome: &Restored) -> Result<ExitCode, CommandError> {
        let name = self.checkout.next_replaced(self.worktree.run);
        let half = self.save(&name, Scope::As(ours))?;
        restore(self.checkout, &half, ours).map_err(not_changed)?;
        let reasons = outcome.failed.iter().map(|(path, why)| format!("`{path}`: {why}"));
        let reasons = reasons.collect::<Vec<_>>().join("; ");
        let what = "cannot write the changes; the checkout is unchanged";
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
            let what = format!("run {run} has not been applied, so there is nothing to revert");
            CommandError::new(ExitCode::NotFound, what)
        })?;
        let snapshot = |name: &SnapshotName| {
            let found = self.checkout.snapshot(name)?;
            found.ok_or_else(|| {
                let what = "the snapshots of the apply are gone, so it cannot be reverted";
                CommandError::new(ExitCode::NotFound, what).because(
                    "Caretaker keeps only the latest snapshots, or an older version did the apply",
                )
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
                note(&format!("cannot restore `{path}`: {why}"));
            }
            // The next apply brings all changes again.
            let base = self.worktree.base()?;
            let history = &self.worktree.history;
            history.also_known_as(&SnapshotName::applied(), &base)?;
        }
        self.report("revert", &changes, &plan.merged)?;
        if !self.args.json {
            for path in &plan.merged {
                note(&format!(
                    "`{path}` changed after the apply too; merged its lines, check the result"
                ));
            }
            let counts = change_view::counts(count(&changes));
            let word = if self.args.dry_run { "would revert" } else { "reverted" };
            say(&format!("{word}: {counts}"));
        }
        Ok(ExitCode::Success)
    }

    /// The result, as `--json` prints it. With conflicts, nothing changed.
    fn for_programs(
        &self,
        kind: &str,
        changes: &[Change<'_>],
        merged: &[TreePath],
        conflicts: &[Conflict],
    ) -> Value {
        let conflicts = conflicts.iter().map(|it| PathAndReason::new(&it.path, &it.why));
        json!({
            "v": 1,
            "kind": kind,
            "run": self.worktree.run,
            "checkout": BytesPath::from(self.checkout.workspace()),
            "dry_run": self.args.dry_run,
            "changes": count(changes),
            "paths": changes.iter().map(ChangedPath::from).collect::<Vec<_>>(),
            "merged": merged.iter().map(|path| path.as_path().into()).collect::<Vec<BytesPath>>(),
            "conflicts": conflicts.collect::<Vec<_>>(),
        })
    }

    fn report(
        &self,
        kind: &str,
        changes: &[Change<'_>],
        merged: &[TreePath],
    ) -> Result<ExitCode, CommandError> {
        match self.args.json {
            true => print_json(&self.for_programs(kind, changes, merged, &[])),
            false => print_view(|out| change_view::print_paths(out, changes)),
        }
    }

    fn talk(&self, changes: &[Change<'_>], merged: &[TreePath]) {
        for path in merged {
            note(&format!("`{path}` changed on both sides; merged its lines, check the result"));
        }
        let id = short_id(self.worktree.run);
        let counts = change_view::counts(count(changes));
        let checkout = self.checkout.workspace().display();
        say(&match (changes.is_empty(), self.args.dry_run) {
            (true, _) => format!("already up to date: `{checkout}`"),
            (false, true) => format!("would change in `{checkout}`: {counts}"),
            (false, false) => format!(
                "applied to `{checkout}`: {counts}\n  take it back      caretaker apply {id} --revert\n  \
                 drop the worktree caretaker discard {id}"
            ),
        });
    }
}

fn not_changed(error: workspace_history::RestoreError) -> CommandError {
    CommandError::new(ExitCode::Failed, "cannot change the checkout").because(error)
}
