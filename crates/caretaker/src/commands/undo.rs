//! `caretaker undo`: makes a workspace again what it was before a run, or when its agent marked it.

use std::io::Write;
use std::path::{Path, PathBuf};

use run_journal::{JournalEntry, Position, Progress, RunDirectory};
use run_protocol::{BytesPath, ChangeCounts, ExitCode, RunEvent, RunId};
use run_shim::hold_workspace;
use serde::Serialize;
use workspace_history::{
    Change, ChangeKind, Head, History, Operation, OperationKind, Restored, Scope, Snapshot,
    SnapshotName, TreePath, changes_to, count, repositories_made, restore,
};

use super::undo_refs::{RefReport, RefUndo};
use crate::command_error::CommandError;
use crate::data_out::print_json;
use crate::following::open_journal;
use crate::host::{Host, now_ms, overview, short_id};
use crate::host_git;
use crate::talk::{note, say};
use crate::view::change_view;
use crate::view::safe_text::on_one_line;
use crate::worktrees::GENEROUS;

/// Paths in the form for programs.
const MOST_PATHS: usize = 10_000;

/// Make the workspace again what it was before a run, or at a checkpoint that its agent made.
///
/// Content, modes, links, deleted and new files are put back exactly as they were; what there is now is saved first, and
/// `--redo` brings it back. Files that git ignored before the run are left alone. Branches that the run moved or deleted
/// are put back where they were, unless somebody moved them since; commits and branches that it made stay in the
/// repository. A repository that the run made goes. What was done in the workspace after the run is
/// undone with it. Nothing may be running there.
///
/// RUN is an id, a beginning of one that is unique, a name, or `-` for the latest run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker undo -                what would change: add --dry-run
  caretaker undo - --to parsed    only what came after the agent's checkpoint `parsed`
  caretaker undo - --redo         after all, bring it back; once more, and it is undone again")]
pub(crate) struct Args {
    /// The run.
    run: String,
    /// Go back to a checkpoint that the agent made with its tool `checkpoint`, and no further: its label, or its number.
    #[arg(long, value_name = "LABEL", conflicts_with = "redo")]
    to: Option<String>,
    /// Bring back what the last undo or redo of this run replaced.
    #[arg(long)]
    redo: bool,
    /// Only say what would change.
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// What was done, in the shape that `--json` prints.
#[derive(Debug, Serialize)]
struct UndoReport<'a> {
    v: u32,
    kind: &'static str,
    run: RunId,
    workspace: BytesPath,
    dry_run: bool,
    changes: ChangeCounts,
    paths: Vec<ChangedPath>,
    /// Directories that stay, because what is in them is not covered.
    left: Vec<BytesPath>,
    failed: Vec<FailedPath>,
    /// Branches and other refs that the run moved or deleted, and that are not as they were then.
    refs: Vec<RefReport>,
    /// Where the repository stood then and stands now, if that differs; commits are not undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    head_then: Option<&'a Head>,
    #[serde(skip_serializing_if = "Option::is_none")]
    head_now: Option<&'a Head>,
}

#[derive(Debug, Serialize)]
struct ChangedPath {
    path: BytesPath,
    change: ChangeKind,
}

#[derive(Debug, Serialize)]
struct FailedPath {
    path: BytesPath,
    why: String,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CommandError> {
    let host = Host::of_process()?;
    let run = host.find_run(&args.run)?;
    let id = run.run_id();
    let overview = overview(&run)?;
    let workspace = overview.workspace.0.clone();
    if !workspace.is_dir() {
        let what = format!("the workspace `{}` of run {id} is gone", workspace.display());
        return Err(CommandError::new(ExitCode::NotFound, what));
    }
    let history = host_git::history(&host, &workspace)?;
    let undo = Undo { host: &host, history: &history, run: id };
    let _hold = undo.hold(&workspace)?;
    let Goal { name: target_name, target, scope, kind } = match &args.to {
        _ if args.redo => undo.last_replaced()?,
        Some(label) => undo.marked(&run, label)?,
        None => undo.before()?,
    };
    undo.warn_of_later_runs(&workspace, args);
    let mut refs = match args.to {
        // What branches were in the middle of a run is not known.
        Some(_) => RefUndo::nothing(),
        None => RefUndo::plan(&history, id, args.redo).map_err(not_kept)?,
    };
    // By the rules of what is put back: what they leave out is not there to be compared, and must not look new.
    let earlier = scope.as_ref().unwrap_or(&target);
    let repositories = undo.repositories_made(earlier)?;
    let scope =
        |is_only_a_look| Scope::With { earlier, repositories: &repositories, is_only_a_look };
    if args.dry_run {
        let present = undo.save(&SnapshotName::seen(id), scope(true))?;
        let changes = changes_to(&present, &target);
        return undo.report(args, &target, &changes, &Restored::default(), &refs);
    }
    let name = history.next_replaced(id);
    let present = undo.save(&name, scope(false))?;
    let changes = changes_to(&present, &target);
    let mut outcome = Restored::default();
    if !changes.is_empty() || !refs.is_empty() {
        let operation = Operation {
            at: now_ms(),
            run: id,
            kind,
            // Where an earlier attempt died half way, what it began with is what is worth keeping.
            replaced: history
                .interrupted()
                .filter(|interrupted| {
                    let same = (interrupted.run, interrupted.kind, &interrupted.restored);
                    same == (id, kind, &target_name)
                })
                .map_or(name, |interrupted| interrupted.replaced),
            restored: target_name,
        };
        history.begin(&operation).map_err(not_kept)?;
        outcome = restore(&history, &present, &target).map_err(|error| {
            CommandError::new(ExitCode::Failed, "the workspace was not put back").because(error)
        })?;
        refs.apply(&history);
        history.end(&operation).map_err(not_kept)?;
    }
    undo.report(args, &target, &changes, &outcome, &refs)
}

/// What the workspace is to be.
struct Goal {
    name: SnapshotName,
    target: Snapshot,
    /// What it covers, where that is not by itself: what an undo replaced is known by the rules of what it restored.
    scope: Option<Snapshot>,
    kind: OperationKind,
}

struct Undo<'a> {
    host: &'a Host,
    history: &'a History,
    run: RunId,
}

impl Undo<'_> {
    fn hold(&self, workspace: &Path) -> Result<run_shim::WorkspaceHold, CommandError> {
        hold(self.host, workspace, self.run)
    }

    /// A snapshot that has contents.
    fn kept(&self, name: &SnapshotName) -> Result<Option<Snapshot>, CommandError> {
        let found = self.history.snapshot(name).map_err(not_kept)?;
        Ok(found.filter(|snapshot| snapshot.commit.is_some()))
    }

    fn before(&self) -> Result<Goal, CommandError> {
        let name = SnapshotName::before(self.run);
        let target = self.kept(&name)?.ok_or_else(|| {
            let what = format!("the workspace was not saved before run {}", self.run);
            CommandError::new(ExitCode::NotFound, what)
                .because("it was made without a checkpoint, or is older than what is kept")
        })?;
        Ok(Goal { name, target, scope: None, kind: OperationKind::Undo })
    }

    /// Repositories that the run made since then. One that came later is the user's, as far as we know, and stays.
    fn repositories_made(&self, since: &Snapshot) -> Result<Vec<TreePath>, CommandError> {
        let after = self.history.snapshot(&SnapshotName::after(self.run)).map_err(not_kept)?;
        Ok(after.map(|after| repositories_made(since, &after)).unwrap_or_default())
    }

    /// The checkpoint of that label, the latest if there are several; or of that number.
    fn marked(&self, run: &RunDirectory, label: &str) -> Result<Goal, CommandError> {
        let marks = marks_of(run)?;
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
                    "its agent made none; without --to, all that the run did is undone".to_owned()
                }
                all => format!("it has {}", all.join(", ")),
            };
            return Err(CommandError::new(ExitCode::NotFound, what).hint(hint));
        };
        let name = SnapshotName::marked(self.run, *number);
        let target = self.kept(&name)?.ok_or_else(|| {
            let what = format!("checkpoint `{label}` of run {} is not kept any more", self.run);
            CommandError::new(ExitCode::NotFound, what)
        })?;
        Ok(Goal { name, target, scope: None, kind: OperationKind::Undo })
    }

    fn last_replaced(&self) -> Result<Goal, CommandError> {
        let mut operations = self.history.operations();
        operations.retain(|operation| operation.run == self.run);
        let undone = operations.iter().rfind(|operation| operation.kind == OperationKind::Undo);
        let scope = match undone {
            Some(undone) => self.history.snapshot(&undone.restored).map_err(not_kept)?,
            None => None,
        };
        let Some(last) = operations.pop() else {
            let what = format!("run {} was not undone, so there is nothing to redo", self.run);
            return Err(CommandError::new(ExitCode::NotFound, what));
        };
        match self.history.snapshot(&last.replaced).map_err(not_kept)? {
            Some(target) => {
                Ok(Goal { name: last.replaced, target, scope, kind: OperationKind::Redo })
            }
            None => {
                Err(CommandError::new(ExitCode::NotFound, "what was replaced is not kept any more"))
            }
        }
    }

    fn save(&self, name: &SnapshotName, scope: Scope<'_>) -> Result<Snapshot, CommandError> {
        let saved = self.history.save(name, scope, &[], GENEROUS).map_err(|error| {
            CommandError::new(
                ExitCode::Failed,
                "what there is now could not be saved, so nothing was changed",
            )
            .because(error)
        })?;
        Ok(saved.snapshot)
    }

    /// Says which runs came after, since they go too.
    fn warn_of_later_runs(&self, workspace: &Path, args: &Args) {
        if args.redo {
            return;
        }
        let later = later_runs(self.host, self.run, workspace);
        if !later.is_empty() {
            let list: Vec<String> = later.into_iter().map(short_id).collect();
            note(&format!("what later runs did in this workspace goes too: {}", list.join(", ")));
        }
    }

    fn report(
        &self,
        args: &Args,
        target: &Snapshot,
        changes: &[Change<'_>],
        outcome: &Restored,
        refs: &RefUndo,
    ) -> Result<ExitCode, CommandError> {
        let now = self.history.git().head(self.history.workspace());
        let heads = (target.head.as_ref(), now.as_ref());
        let (head_then, head_now) = match heads {
            (then, now) if then == now => (None, None),
            heads => heads,
        };
        if args.json {
            let paths = changes.iter().take(MOST_PATHS);
            print_json(&UndoReport {
                v: 1,
                kind: if args.redo { "redo" } else { "undo" },
                run: self.run,
                workspace: BytesPath::from(self.history.workspace()),
                dry_run: args.dry_run,
                changes: count(changes),
                paths: paths
                    .map(|change| ChangedPath { path: change.bytes_path(), change: change.kind })
                    .collect(),
                left: outcome.left.iter().map(|path| BytesPath::from(path.as_path())).collect(),
                failed: outcome
                    .failed
                    .iter()
                    .map(|(path, why)| FailedPath {
                        path: BytesPath::from(path.as_path()),
                        why: why.clone(),
                    })
                    .collect(),
                refs: refs.report(),
                head_then,
                head_now,
            })?;
        } else {
            let mut out = anstream::stdout().lock();
            change_view::print_paths(&mut out, changes)
                .and_then(|()| out.flush())
                .map_err(CommandError::writing)?;
            refs.talk(args.dry_run);
            let is_nothing = changes.is_empty() && refs.is_empty();
            self.talk(args, changes, outcome, is_nothing, head_then, head_now);
        }
        if outcome.failed.is_empty() && !refs.has_failed() {
            Ok(ExitCode::Success)
        } else {
            Ok(ExitCode::Failed)
        }
    }

    fn talk(
        &self,
        args: &Args,
        changes: &[Change<'_>],
        outcome: &Restored,
        is_nothing: bool,
        then: Option<&Head>,
        now: Option<&Head>,
    ) {
        for path in &outcome.left {
            note(&format!("`{path}` stays: something in it is not covered"));
        }
        for (path, why) in &outcome.failed {
            note(&format!("`{path}` is not as it was: {why}"));
        }
        if let (Some(then), Some(now)) = (then, now)
            && !args.redo
        {
            let (then, now) = (abbreviated(&then.commit), abbreviated(&now.commit));
            let when = if args.to.is_some() { "then" } else { "before the run" };
            note(&format!("commits stay: HEAD was {then} {when} and is {now} now"));
        }
        let id = short_id(self.run);
        let counts = change_view::counts(count(changes));
        say(&match (is_nothing, args.dry_run, args.redo) {
            (true, ..) => "nothing to do: the workspace is as it was".to_owned(),
            (false, true, _) => format!("would change: {counts}"),
            (false, false, false) => {
                format!("undone: {counts}\n  bring it back   caretaker undo {id} --redo")
            }
            (false, false, true) => {
                format!("brought back: {counts}\n  undo it again   caretaker undo {id}")
            }
        });
    }
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
    let cannot =
        |error| CommandError::new(ExitCode::Failed, "the journal cannot be read").because(error);
    while reader.next_batch(&mut on_entry).map_err(cannot)? == Progress::Advanced {}
    Ok(marks)
}

fn abbreviated(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}

/// Keeps runs out of a workspace for as long as it is held.
pub(crate) fn hold(
    host: &Host,
    workspace: &Path,
    run: RunId,
) -> Result<run_shim::WorkspaceHold, CommandError> {
    hold_workspace(&host.state, &host.places.sockets, workspace, run).map_err(|busy| {
        let code = if busy.is_held() { ExitCode::Conflict } else { ExitCode::Failed };
        let error = CommandError::new(code, busy.to_string());
        match busy.holder() {
            Some(run) => {
                let id = short_id(run);
                error.hint(format!(
                    "wait for it with `caretaker wait {id}`, or stop it: caretaker kill {id}"
                ))
            }
            None => error,
        }
    })
}

/// Runs in the same workspace that were begun after this one, the oldest first.
fn later_runs(host: &Host, run: RunId, workspace: &Path) -> Vec<RunId> {
    let Ok(entries) = std::fs::read_dir(host.state.runs()) else { return Vec::new() };
    let mut later: Vec<RunId> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<RunId>().ok())
        .filter(|other| *other > run)
        .filter(|other| {
            run_journal::RunDirectory::open(&host.state, *other)
                .ok()
                .and_then(|directory| directory.spec().ok())
                .is_some_and(|spec| PathBuf::from(spec.workspace) == workspace)
        })
        .collect();
    later.sort();
    later
}

pub(crate) fn not_kept(error: workspace_history::HistoryError) -> CommandError {
    CommandError::new(ExitCode::Failed, "what is kept of the workspace cannot be used")
        .because(error)
}
