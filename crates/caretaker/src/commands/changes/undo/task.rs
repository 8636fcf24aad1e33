//! The task of one undo: undo a run, reverse the last undo, or finish an interrupted one.

use std::borrow::Cow;

use admission::command_error::{CommandError, OrFail};
use admission::host::short_id;
use admission::words::safe_text::on_one_line;
use run_journal::{JournalEntry, Position, RunDirectory};
use run_protocol::{ExitCode, RunEvent, RunId};
use workspace_history::{
    Head, History, MergePlan, Operation, OperationKind, Reversal, Snapshot, SnapshotName, TreePath,
    Undo, Unfinished, base_after_undo, repositories_made, standing,
};

use super::{Args, Place, RunEnd};
use crate::running::following::{open_journal, read_to_end};

pub(super) enum Task {
    Undo(Box<UndoTask>),
    Reverse(Box<ReverseTask>),
    Finish(Box<FinishTask>),
}

pub(super) struct UndoTask {
    goal_name: SnapshotName,
    goal: Snapshot,
    base: Base,
    end: Option<Snapshot>,
    assumed_end: Option<RunEnd>,
    redone: Vec<(Snapshot, Snapshot)>,
}

/// The state that the run's changes led to.
enum Base {
    End,
    Goal,
    Now,
    Other(Snapshot),
}

pub(super) struct ReverseTask {
    replaced: Snapshot,
    restored: Snapshot,
    since: &'static str,
}

pub(super) struct FinishTask {
    operation: Operation,
    replaced: Snapshot,
    restored: Snapshot,
}

impl UndoTask {
    fn base<'a>(&'a self, present: &'a Snapshot) -> &'a Snapshot {
        match (&self.base, &self.end) {
            (Base::End, Some(end)) => end,
            (Base::Goal, _) => &self.goal,
            (Base::Other(base), _) => base,
            (Base::Now | Base::End, _) => present,
        }
    }

    fn undo<'a>(&'a self, present: &'a Snapshot) -> Undo<'a> {
        Undo {
            base: self.base(present),
            goal: &self.goal,
            end: self.end.as_ref(),
            redone: &self.redone,
        }
    }
}

impl ReverseTask {
    fn reversal(&self) -> Reversal<'_> {
        Reversal { replaced: &self.replaced, restored: &self.restored, since: self.since }
    }
}

impl FinishTask {
    fn unfinished(&self) -> Unfinished<'_> {
        Unfinished { replaced: &self.replaced, restored: &self.restored }
    }
}

impl Task {
    /// The paths to save in the workspace.
    pub(super) fn cover(&self) -> Cow<'_, Snapshot> {
        match self {
            Self::Undo(task) => Cow::Borrowed(&task.goal),
            Self::Reverse(task) => Cow::Owned(task.reversal().cover()),
            Self::Finish(task) => Cow::Owned(task.unfinished().cover()),
        }
    }

    pub(super) fn repositories(&self) -> Vec<TreePath> {
        match self {
            Self::Undo(task) => task.undo(&task.goal).repositories(),
            Self::Reverse(task) => task.reversal().repositories(),
            Self::Finish(task) => task.unfinished().repositories(),
        }
    }

    pub(super) fn plan(
        &self,
        history: &History,
        present: &Snapshot,
    ) -> Result<MergePlan, CommandError> {
        let planned = match self {
            Self::Undo(task) => task.undo(present).plan(history, present),
            Self::Reverse(task) => task.reversal().plan(history, None, present),
            Self::Finish(task) => task.unfinished().plan(history, present),
        };
        planned.or_fail(|| "cannot compare the changes, so nothing changed")
    }

    pub(super) fn kind(&self) -> OperationKind {
        match self {
            Self::Undo(_) => OperationKind::Undo,
            Self::Reverse(_) => OperationKind::Redo,
            Self::Finish(task) => task.operation.kind,
        }
    }

    pub(super) fn goal_name(&self) -> Option<&SnapshotName> {
        match self {
            Self::Undo(task) => Some(&task.goal_name),
            Self::Reverse(_) | Self::Finish(_) => None,
        }
    }

    /// The snapshot used in place of the one from the end of the run, if that one does not exist.
    pub(super) fn assumed_end(&self) -> Option<&RunEnd> {
        match self {
            Self::Undo(task) => task.assumed_end.as_ref(),
            Self::Reverse(_) | Self::Finish(_) => None,
        }
    }

    pub(super) fn unfinished(&self) -> Option<&Operation> {
        match self {
            Self::Finish(task) => Some(&task.operation),
            Self::Undo(_) | Self::Reverse(_) => None,
        }
    }

    /// The event after which a conflicting file changed, in words for messages.
    pub(super) fn since(&self) -> &'static str {
        match self {
            Self::Undo(_) => "the run",
            Self::Reverse(task) => task.since,
            Self::Finish(_) => "the interruption",
        }
    }

    /// HEAD in the state to restore, if the run moved it; undo does not remove commits.
    pub(super) fn head_then<'a>(&'a self, present: &'a Snapshot) -> Option<&'a Head> {
        let (from, to) = match self {
            Self::Undo(task) => (task.base(present), &task.goal),
            Self::Reverse(task) => (&task.restored, &task.replaced),
            Self::Finish(task) => (&task.replaced, &task.restored),
        };
        to.head.as_ref().filter(|_| to.head != from.head && to.head != present.head)
    }
}

impl Place<'_> {
    pub(super) fn task(&self, args: &Args) -> Result<Task, CommandError> {
        if let Some(task) = self.interrupted(args)? {
            return Ok(Task::Finish(Box::new(task)));
        }
        if args.redo {
            return self.last_operation().map(|task| Task::Reverse(Box::new(task)));
        }
        let (goal_name, goal) = match &args.to {
            Some(label) => self.marked(label)?,
            None => self.before()?,
        };
        self.undo_to(goal_name, goal).map(|task| Task::Undo(Box::new(task)))
    }

    /// An interrupted undo. It must finish before any other undo.
    fn interrupted(&self, args: &Args) -> Result<Option<FinishTask>, CommandError> {
        let Some(operation) = self.history.interrupted() else { return Ok(None) };
        // Older versions did not record the goal, and only `apply` can finish an apply.
        if operation.restored != operation.replaced.restored()
            || !matches!(operation.kind, OperationKind::Undo | OperationKind::Redo)
        {
            return Ok(None);
        }
        let snapshot = |name| self.history.snapshot(name);
        let states = (snapshot(&operation.replaced)?, snapshot(&operation.restored)?);
        let (Some(replaced), Some(restored)) = states else { return Ok(None) };
        let is_redo = operation.kind == OperationKind::Redo;
        if operation.run == self.run && is_redo == args.redo {
            return Ok(Some(FinishTask { operation, replaced, restored }));
        }
        let (word, flag) = if is_redo { ("a redo", " --redo") } else { ("an undo", "") };
        let what = format!("{word} of run {} was interrupted in this workspace", operation.run);
        let hint = format!("finish it first: caretaker undo {}{flag}", short_id(operation.run));
        Err(CommandError::new(ExitCode::Conflict, what).hint(hint))
    }

    /// A snapshot whose contents still exist.
    fn kept(&self, name: &SnapshotName) -> Result<Option<Snapshot>, CommandError> {
        let found = self.history.snapshot(name)?;
        Ok(found.filter(|snapshot| snapshot.commit.is_some()))
    }

    fn undo_to(&self, goal_name: SnapshotName, goal: Snapshot) -> Result<UndoTask, CommandError> {
        let end = self.kept(&SnapshotName::after(self.run))?;
        let operations = self.history.operations();
        let standing = standing(&operations, self.run);
        let is_undone = standing.is_some_and(|undo| *undo.goal() == goal_name);
        let mut assumed_end = None;
        let base = match (&end, standing) {
            // An earlier undo had the same goal: only its conflicts are left.
            (Some(_), _) if is_undone => Base::End,
            (None, _) if is_undone => Base::Goal,
            (end, Some(undo)) => Base::Other(self.base_after(undo, end.as_ref())?),
            (Some(_), None) => Base::End,
            (None, None) => {
                let found = RunEnd::find(self.host, self.history, self.run)?;
                let base = found.snapshot().cloned().map_or(Base::Now, Base::Other);
                assumed_end = Some(found);
                base
            }
        };
        let redone = match &end {
            Some(end) if !repositories_made(&goal, end).is_empty() => self.redone(&operations)?,
            _ => Vec::new(),
        };
        Ok(UndoTask { goal_name, goal, base, end, assumed_end, redone })
    }

    /// The part of the run's changes that an earlier undo, to another goal, left in place.
    fn base_after(
        &self,
        undo: &Operation,
        end: Option<&Snapshot>,
    ) -> Result<Snapshot, CommandError> {
        let snapshot = |name: &SnapshotName| {
            let found = self.history.snapshot(name)?;
            found.ok_or_else(|| no_longer_kept(name))
        };
        let goal = snapshot(undo.goal())?;
        Ok(match end {
            Some(end) => {
                let (replaced, restored) = (snapshot(&undo.replaced)?, snapshot(&undo.restored)?);
                base_after_undo(end, &goal, &replaced, &restored)
            }
            None => goal,
        })
    }

    fn redone(&self, operations: &[Operation]) -> Result<Vec<(Snapshot, Snapshot)>, CommandError> {
        let redos = operations
            .iter()
            .filter(|operation| operation.run == self.run && operation.kind == OperationKind::Redo);
        let mut found = Vec::new();
        for redo in redos {
            let snapshot = |name| self.history.snapshot(name);
            found.extend(snapshot(&redo.replaced)?.zip(snapshot(&redo.restored)?));
        }
        Ok(found)
    }

    fn before(&self) -> Result<(SnapshotName, Snapshot), CommandError> {
        Ok((SnapshotName::before(self.run), saved_before(self.history, self.run)?))
    }

    /// The checkpoint with this label (the latest if there are several) or this number.
    fn marked(&self, label: &str) -> Result<(SnapshotName, Snapshot), CommandError> {
        let marks = marks_of(self.directory)?;
        let number = |number: &u32| Some(*number) == label.parse().ok();
        let found = marks.iter().rfind(|mark| mark.label == label);
        let found = found.or_else(|| marks.iter().find(|mark| number(&mark.number)));
        let Some(Mark { number, .. }) = found else {
            let what = format!("run {} has no checkpoint `{label}`", self.run);
            let all: Vec<String> = marks
                .iter()
                .map(|Mark { number, label }| format!("{number} `{}`", on_one_line(label)))
                .collect();
            let hint = match all.as_slice() {
                [] => {
                    "its agent made no checkpoints; leave out --to to undo the whole run".to_owned()
                }
                all => format!("it has {}", all.join(", ")),
            };
            return Err(CommandError::new(ExitCode::NotFound, what).hint(hint));
        };
        let name = SnapshotName::marked(self.run, *number);
        let goal = self.kept(&name)?.ok_or_else(|| {
            let what = format!("checkpoint `{label}` of run {} no longer exists", self.run);
            CommandError::new(ExitCode::NotFound, what)
        })?;
        Ok((name, goal))
    }

    /// The reversal of the last undo or redo of this run.
    fn last_operation(&self) -> Result<ReverseTask, CommandError> {
        let mut operations = self.history.operations();
        operations.retain(|operation| {
            operation.run == self.run
                && matches!(operation.kind, OperationKind::Undo | OperationKind::Redo)
        });
        let Some(last) = operations.pop() else {
            let what = format!("run {} was not undone, so there is nothing to redo", self.run);
            return Err(CommandError::new(ExitCode::NotFound, what));
        };
        let snapshot = |name: &SnapshotName| {
            let found = self.history.snapshot(name)?;
            found.ok_or_else(|| no_longer_kept(name))
        };
        let since = if last.kind == OperationKind::Undo { "the undo" } else { "the redo" };
        let (replaced, restored) = (snapshot(&last.replaced)?, snapshot(&last.restored)?);
        Ok(ReverseTask { replaced, restored, since })
    }
}

/// The workspace as it was before a run.
pub(crate) fn saved_before(history: &History, run: RunId) -> Result<Snapshot, CommandError> {
    let saved = history.snapshot(&SnapshotName::before(run))?;
    saved.filter(|snapshot| snapshot.commit.is_some()).ok_or_else(|| {
        let what = format!("the workspace was not saved before run {run}");
        CommandError::new(ExitCode::NotFound, what)
            .because("it ran with --no-checkpoint, or Caretaker no longer keeps the snapshot")
    })
}

fn no_longer_kept(name: &SnapshotName) -> CommandError {
    CommandError::new(ExitCode::NotFound, format!("the snapshot `{name}` no longer exists"))
}

/// A checkpoint that an agent made.
struct Mark {
    number: u32,
    label: String,
}

fn marks_of(run: &RunDirectory) -> Result<Vec<Mark>, CommandError> {
    let mut reader = open_journal(run, Position::Start)?;
    let mut marks = Vec::new();
    let mut on_entry = |entry: JournalEntry<'_>| {
        if let JournalEntry::Run {
            event: RunEvent::WorkspaceMarked { label, number, .. }, ..
        } = entry
        {
            marks.push(Mark { number, label });
        }
    };
    read_to_end(&mut reader, &mut on_entry)?;
    Ok(marks)
}
