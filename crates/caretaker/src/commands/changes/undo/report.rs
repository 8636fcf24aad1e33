//! The report of an undo, as text and as JSON.

use admission::command_error::CommandError;
use admission::host::short_id;
use admission::words::talk::{note, say};
use admission::words::units::counted;
use run_protocol::{BytesPath, ChangeCounts, ExitCode, RunId};
use serde::Serialize;
use workspace_history::{
    Change, Head, MergePlan, OperationKind, Restored, Snapshot, TreePath, count,
};

use super::refs::{RefReport, RefUndo};
use super::task::Task;
use super::{Args, Place, RunEnd};
use crate::data_out::{print_json, print_view};
use crate::view::changes::change_view::{self, ChangedPath, PathAndReason};

/// The JSON report has at most this many paths.
const MOST_PATHS: usize = 10_000;
/// The report shows at most this many conflicts and merged files, and counts the rest.
const MOST_NOTES: usize = 200;

/// The result, as `--json` prints it.
#[derive(Debug, Serialize)]
struct UndoReport<'a> {
    v: u32,
    kind: &'static str,
    run: RunId,
    workspace: BytesPath,
    dry_run: bool,
    /// True if the changes were made. Otherwise this is the plan; with conflicts it needs `--yes`.
    done: bool,
    changes: ChangeCounts,
    paths: Vec<ChangedPath>,
    /// Files that both sides changed, and whose lines were merged.
    merged: Vec<BytesPath>,
    /// Files that stay as they are, even with `--yes`.
    conflicts: Vec<PathAndReason<'a>>,
    /// Directories that stay, because they contain files that undo does not cover.
    left: Vec<BytesPath>,
    failed: Vec<PathAndReason<'a>>,
    /// Branches and other refs that the run moved or deleted.
    refs: Vec<RefReport>,
    /// The snapshot used in place of the one from the end of the run, if that one does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<&'static str>,
    /// HEAD in the restored state and now, if the run moved it; undo does not remove commits.
    #[serde(skip_serializing_if = "Option::is_none")]
    head_then: Option<&'a Head>,
    #[serde(skip_serializing_if = "Option::is_none")]
    head_now: Option<&'a Head>,
}

pub(super) struct Report<'a> {
    args: &'a Args,
    place: &'a Place<'a>,
    task: &'a Task,
    present: &'a Snapshot,
    plan: &'a MergePlan,
    changes: &'a [Change<'a>],
    pub(super) refs: RefUndo,
    /// `None`: nothing changed.
    pub(super) outcome: Option<Restored>,
    /// True if the user must first confirm with `--yes`.
    pub(super) is_refused: bool,
}

impl<'a> Report<'a> {
    pub(super) fn new(
        args: &'a Args,
        place: &'a Place<'a>,
        task: &'a Task,
        present: &'a Snapshot,
        plan: &'a MergePlan,
        changes: &'a [Change<'a>],
        refs: RefUndo,
    ) -> Self {
        let (outcome, is_refused) = (None, false);
        Self { args, place, task, present, plan, changes, refs, outcome, is_refused }
    }

    pub(super) fn print(&self) -> Result<ExitCode, CommandError> {
        if self.args.json {
            print_json(&self.for_programs())?;
        } else {
            print_view(|out| change_view::print_paths(out, self.changes))?;
            self.note_all();
            if self.is_refused {
                return Err(self.refusal());
            }
            self.conclude();
        }
        let has_failed = self.refs.has_failed()
            || self.outcome.as_ref().is_some_and(|outcome| !outcome.failed.is_empty());
        Ok(match (self.is_refused, has_failed) {
            (true, _) => ExitCode::Conflict,
            (false, true) => ExitCode::Failed,
            (false, false) => ExitCode::Success,
        })
    }

    fn for_programs(&self) -> UndoReport<'_> {
        let bytes = |paths: &[TreePath]| {
            paths.iter().map(|path| BytesPath::from(path.as_path())).collect::<Vec<_>>()
        };
        let paths = self.changes.iter().take(MOST_PATHS);
        let (head_then, head_now) = self.heads();
        let (left, failed) = match &self.outcome {
            Some(outcome) => (outcome.left.as_slice(), outcome.failed.as_slice()),
            None => (&[][..], &[][..]),
        };
        let conflicts = self.plan.conflicts.iter().take(MOST_PATHS);
        UndoReport {
            v: 1,
            kind: if self.is_redo() { "redo" } else { "undo" },
            run: self.place.run,
            workspace: BytesPath::from(self.place.history.workspace()),
            dry_run: self.args.dry_run,
            done: self.outcome.is_some(),
            changes: count(self.changes),
            paths: paths.map(ChangedPath::from).collect(),
            merged: bytes(&self.plan.merged),
            conflicts: conflicts
                .map(|conflict| PathAndReason::new(&conflict.path, &conflict.why))
                .collect(),
            left: bytes(left),
            failed: failed.iter().map(|(path, why)| PathAndReason::new(path, why)).collect(),
            refs: self.refs.report(),
            end: self.task.assumed_end().map(RunEnd::name),
            head_then,
            head_now,
        }
    }

    fn is_redo(&self) -> bool {
        self.task.kind() == OperationKind::Redo
    }

    fn heads(&self) -> (Option<&'a Head>, Option<&'a Head>) {
        let then = self.task.head_then(self.present);
        (then, then.and(self.present.head.as_ref()))
    }

    fn note_all(&self) {
        let since = self.task.since();
        if self.task.unfinished().is_some() {
            note("finishing an earlier attempt that was interrupted");
        }
        note_some(&self.plan.conflicts, |conflict| {
            format!("conflict: `{}`: {}", conflict.path, conflict.why)
        });
        note_some(&self.plan.merged, |path| {
            format!("`{path}` changed after {since} too; merged its lines, check the result")
        });
        if let Some(end) = self.task.assumed_end().filter(|_| !self.is_refused) {
            let run = short_id(self.place.run);
            let until = end.until();
            note(&format!(
                "the workspace was not saved when run {run} ended; treating everything that changed until {until} as its work"
            ));
        }
        if let Some(outcome) = &self.outcome {
            for path in &outcome.left {
                note(&format!("`{path}` stays: it holds files that undo does not cover"));
            }
            for (path, why) in &outcome.failed {
                note(&format!("cannot restore `{path}`: {why}"));
            }
        }
        self.refs.talk(self.outcome.is_none());
        if let (Some(then), Some(now)) = self.heads()
            && !self.is_redo()
        {
            let (then, now) = (abbreviated(&then.commit), abbreviated(&now.commit));
            let when = if self.args.to.is_some() { "then" } else { "before the run" };
            note(&format!("commits stay: HEAD was {then} {when} and is {now} now"));
        }
    }

    /// Why nothing changed, and what the user can do.
    fn refusal(&self) -> CommandError {
        let id = short_id(self.place.run);
        let was = if self.args.dry_run { "would be" } else { "was" };
        let flags = match (&self.args.to, self.args.redo) {
            (Some(label), _) => format!(" --to {label}"),
            (None, true) => " --redo".to_owned(),
            (None, false) => String::new(),
        };
        if let Some(end) = self.task.assumed_end() {
            let until = end.until();
            let what = format!(
                "the workspace was not saved when run {id} ended, so Caretaker cannot tell its changes from later ones; \
                nothing {was} undone"
            );
            return CommandError::new(ExitCode::Conflict, what)
                .because("its supervisor was killed, or the workspace was too large to be saved in time")
                .hint(format!(
                    "to undo everything that changed until {until}, listed above: caretaker undo {id}{flags} --yes"
                ));
        }
        let n_conflicts = counted(self.plan.conflicts.len() as u64, "path", "paths");
        let (undone, undo) =
            if self.is_redo() { ("brought back", "bring back") } else { ("undone", "undo") };
        let what = format!(
            "{n_conflicts} changed after {} and cannot be merged, so nothing {was} {undone}",
            self.task.since()
        );
        CommandError::new(ExitCode::Conflict, what)
            .hint(format!("{undo} the rest and leave them alone: caretaker undo {id}{flags} --yes"))
    }

    fn conclude(&self) {
        let id = short_id(self.place.run);
        let counts = change_view::counts(count(self.changes));
        let is_redo = self.is_redo();
        let stayed = |outcome: &Restored| outcome.has_changed_nothing(self.changes);
        let is_nothing = (self.changes.is_empty() || self.outcome.as_ref().is_some_and(stayed))
            && self.refs.is_empty();
        say(&match (is_nothing, &self.outcome) {
            (true, _) if !self.plan.conflicts.is_empty() => {
                "nothing to do except the conflicts".to_owned()
            }
            (true, _) if is_redo => "nothing to redo".to_owned(),
            (true, _) => "nothing to undo".to_owned(),
            (false, None) => format!("would change: {counts}"),
            (false, Some(_)) if self.task.since() == "the redo" => {
                format!("undone again: {counts}\n  bring it back   caretaker undo {id} --redo")
            }
            (false, Some(_)) if is_redo => {
                format!("brought back: {counts}\n  undo it again   caretaker undo {id}")
            }
            (false, Some(_)) => {
                format!("undone: {counts}\n  bring it back   caretaker undo {id} --redo")
            }
        });
    }
}

fn note_some<T>(all: &[T], say: impl Fn(&T) -> String) {
    for one in all.iter().take(MOST_NOTES) {
        note(&say(one));
    }
    let more = all.len().saturating_sub(MOST_NOTES);
    if more > 0 {
        note(&format!("… and {more} more"));
    }
}

fn abbreviated(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}
