//! Restores branches for `caretaker undo`: those that the run moved or deleted, unless they have moved again since.

use admission::words::safe_text::on_one_line;
use admission::words::talk::note;
use run_protocol::{BytesPath, RunId};
use serde::Serialize;
use workspace_history::{
    History, HistoryError, OperationKind, RefChange, RefPlan, RefsRestored, RefsSide,
};

/// The plan for branches in an undo or a redo, and its outcome.
pub(super) struct RefUndo {
    plan: RefPlan,
    outcome: RefsRestored,
    /// True if the branches go back to their positions before the run.
    is_back: bool,
}

/// A ref, as `--json` prints it.
#[derive(Debug, Serialize)]
pub(super) struct RefReport {
    repository: BytesPath,
    name: BytesPath,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    /// Why the ref stayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<String>,
}

impl RefUndo {
    /// Plans the changes to the branches of a run's workspace.
    pub(super) fn plan(history: &History, run: RunId, is_redo: bool) -> Result<Self, HistoryError> {
        let side = if is_redo && is_undone(history, run) {
            RefsSide::AfterRun
        } else {
            RefsSide::BeforeRun
        };
        let kept = history.refs_kept(run)?;
        let plan = kept.map(|kept| kept.plan(history.git(), side)).unwrap_or_default();
        let is_back = side == RefsSide::BeforeRun;
        Ok(Self { plan, outcome: RefsRestored::default(), is_back })
    }

    /// Leaves all branches alone.
    pub(super) fn nothing() -> Self {
        let (plan, outcome) = (RefPlan::default(), RefsRestored::default());
        Self { plan, outcome, is_back: true }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.plan.is_empty()
    }

    pub(super) fn apply(&mut self, history: &History) {
        self.outcome = self.plan.apply(history.git());
    }

    pub(super) fn has_failed(&self) -> bool {
        !self.outcome.failed.is_empty()
    }

    /// Says what happens to each branch.
    pub(super) fn talk(&self, is_dry: bool) {
        for change in &self.plan.changes {
            let failed = self.outcome.failed.iter().find(|(failed, _)| failed == change);
            let name = shown(change);
            let to = change.to.as_deref().map(short);
            note(&match (failed, to) {
                (Some((_, why)), _) => format!("cannot restore {name}: {why}"),
                (None, Some(to)) if is_dry => format!("{name} would go back to {to}"),
                (None, Some(to)) => match &change.now {
                    Some(now) => format!("{name} is back at {to}; it was at {}", short(now)),
                    None => format!("{name} is back at {to}"),
                },
                (None, None) if is_dry => format!("{name} would be deleted again"),
                (None, None) => format!("{name} is deleted again"),
            });
        }
        for change in &self.plan.conflicts {
            let when = if self.is_back { "since" } else { "since it was undone" };
            note(&format!("{} stays: it has moved again {when}", shown(change)));
        }
        for why in &self.plan.unusable {
            note(&format!("branches stay: {}", on_one_line(why)));
        }
        for root in &self.outcome.index_left {
            let root = root.display();
            note(&format!("the index of `{root}` stays: it has staged changes"));
        }
    }

    pub(super) fn report(&self) -> Vec<RefReport> {
        let of = |change: &RefChange, left: Option<String>| RefReport {
            repository: BytesPath::from(change.root.as_path()),
            name: BytesPath::from(change.name.as_path()),
            from: change.now.clone(),
            to: change.to.clone(),
            left,
        };
        let changes = self.plan.changes.iter().map(|change| {
            let failed = self.outcome.failed.iter().find(|(failed, _)| failed == change);
            of(change, failed.map(|(_, why)| why.clone()))
        });
        let conflicts = self.plan.conflicts.iter();
        let conflicts =
            conflicts.map(|change| of(change, Some("it has moved again since".to_owned())));
        changes.chain(conflicts).collect()
    }
}

/// True if the run is undone now.
fn is_undone(history: &History, run: RunId) -> bool {
    let operations = history.operations();
    operations.iter().filter(|operation| operation.run == run).fold(
        false,
        |is_undone, operation| match operation.kind {
            OperationKind::Undo => true,
            OperationKind::Redo => !is_undone,
            _ => is_undone,
        },
    )
}

/// `main`; the full name for a ref that is not a branch.
fn shown(change: &RefChange) -> String {
    let name = change.name.to_string();
    let name = name.strip_prefix("refs/heads/").unwrap_or(&name);
    format!("`{}`", on_one_line(name))
}

fn short(value: &str) -> String {
    let value = value.trim_start_matches("ref: refs/heads/");
    let is_commit = value.len() >= 40 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    on_one_line(if is_commit { &value[..12] } else { value }).into()
}
