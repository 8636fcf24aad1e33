//! Decides whether a run is still needed, and why.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use admission::budgets;
use admission::command_error::{CommandError, OrFail};
use admission::config::Config;
use admission::continuation::last_of_each_session;
use admission::host::Host;
use admission::resumption::{Question, WhenHeld};
use admission::worktrees::Worktree;
use ground::now_ms;
use run_journal::{OpenRunError, RunDirectory, RunOverview, RunState, StateRoot};
use run_protocol::{ChangeCounts, RunId, RunOutcome, RunSpec};
use uuid::Uuid;
use workspace_history::{compare, count};

use super::pins;
use super::plan::{Candidate, Need};

/// Every run with its need. This does not check worktrees: [`worktree`] does so, only for runs that would be removed.
pub(crate) fn candidates(
    host: &Host,
    config: &Config,
    runs: &[RunOverview],
) -> Result<Vec<Candidate>, CommandError> {
    let pinned = pins::all(&host.state).or_fail(|| "cannot read the pins")?;
    let followers = followers(host, runs);
    let cut_off: BTreeSet<RunId> = last_of_each_session(runs.to_vec())
        .into_iter()
        .filter(|run| is_cut_off(&run.state) && can_go_on(host, run))
        .map(|run| run.run)
        .collect();
    let day_began = budgets::day(now_ms()).0;
    let has_day_budget = config.budgets.day.budget().is_set();
    let candidates = runs.iter().map(|run| {
        // A group's record keeps the spending of removed runs. A day has no such record, because its spending does not
        // matter on the next day.
        let is_budgeted = has_day_budget && run.last_event_ms >= day_began;
        let is_live =
            RunDirectory::open(&host.state, run.run).is_ok_and(|directory| directory.is_live());
        let need = if run.state.is_unfinished() || is_live {
            Some(Need::Unfinished)
        } else if pinned.contains(&run.run) {
            Some(Need::Pinned)
        } else if let Some(follower) = followers.get(&run.run) {
            Some(Need::Follower { follower: *follower })
        } else if cut_off.contains(&run.run) {
            Some(Need::Session)
        } else {
            is_budgeted.then_some(Need::Budget)
        };
        Candidate {
            run: run.run,
            session: run.session.clone(),
            at_ms: run.last_event_ms,
            bytes: size_of(&host.state.run_dir(&run.run)),
            need,
        }
    });
    Ok(candidates.collect())
}

fn is_cut_off(state: &RunState) -> bool {
    state.is_interrupted()
        || matches!(state, RunState::Ended { outcome: RunOutcome::Suspended, .. })
}

/// True if the run's session can be resumed, now or later. Other sessions do not need their runs.
fn can_go_on(host: &Host, run: &RunOverview) -> bool {
    let Ok(session) = Uuid::parse_str(&run.session) else { return false };
    let question = Question { host, session, workspace: None, when_held: WhenHeld::Refuse };
    match question.decide() {
        Ok(Err(refusal)) => !refusal.reason.is_final(),
        // If this is unknown, the run stays.
        Ok(Ok(_)) | Err(_) => true,
    }
}

/// The need that arose since `known` was listed. The caller holds the removal lock, so no need can arise between this
/// check and the removal.
pub(crate) fn came_since(
    host: &Host,
    known: &[RunOverview],
    run: RunId,
    worktree: Option<&Worktree>,
) -> std::io::Result<Option<Need>> {
    if pins::all(&host.state)?.contains(&run) {
        return Ok(Some(Need::Pinned));
    }
    for newcomer in newcomers(&host.state, known)? {
        let RunSpec { run: by, workspace, queue, .. } = newcomer;
        if queue.iter().any(|terms| terms.after.contains(&run) || terms.after_ok.contains(&run)) {
            return Ok(Some(Need::Follower { follower: by }));
        }
        if worktree.is_some_and(|worktree| Path::new(&workspace).starts_with(&worktree.path)) {
            return Ok(Some(Need::Worktree { why: format!("run {by} uses its worktree") }));
        }
    }
    Ok(None)
}

/// The runs that are not in `known`. Fails if one cannot be read, because it may need any of the others.
pub(super) fn newcomers(state: &StateRoot, known: &[RunOverview]) -> std::io::Result<Vec<RunSpec>> {
    let known: BTreeSet<RunId> = known.iter().map(|run| run.run).collect();
    let mut newcomers = Vec::new();
    let entries = match fs::read_dir(state.runs()) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(newcomers),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name();
        let run = name.to_str().and_then(|name| name.parse::<RunId>().ok());
        let Some(run) = run.filter(|run| !known.contains(run)) else { continue };
        match RunDirectory::open(state, run).map(|directory| directory.spec()) {
            Ok(Ok(spec)) => newcomers.push(spec),
            // Caretaker did not create this directory. Run lists skip it too.
            Err(OpenRunError::NotOurs { .. }) => {}
            // The shim refused the run and removed it.
            _ if !state.run_dir(&run).exists() => {}
            Ok(Err(error)) => return Err(std::io::Error::other(error)),
            Err(error) => return Err(std::io::Error::other(error)),
        }
    }
    Ok(newcomers)
}

/// Runs that other runs are waiting for, each with one of the waiting runs.
fn followers(host: &Host, runs: &[RunOverview]) -> BTreeMap<RunId, RunId> {
    let mut followers = BTreeMap::new();
    for run in runs.iter().filter(|run| run.state.is_unfinished()) {
        let spec = RunDirectory::open(&host.state, run.run).ok().and_then(|it| it.spec().ok());
        let Some(terms) = spec.and_then(|spec| spec.queue) else { continue };
        followers.extend(terms.after.iter().chain(&terms.after_ok).map(|it| (*it, run.run)));
    }
    followers
}

/// The state of a run's worktree.
pub(crate) enum WorktreeSight {
    /// The run has none, it is gone, or other runs use it too.
    None,
    /// The checkout has all its changes.
    Taken(Box<Worktree>),
    Needed(Need),
}

/// Checks the worktree of a run that would be removed. `others`: the workspaces of runs that stay.
pub(crate) fn worktree(host: &Host, run: &RunOverview, others: &BTreeSet<&Path>) -> WorktreeSight {
    let is_used = || others.iter().any(|other| other.starts_with(&run.workspace.0));
    if run.worktree.is_none() || !run.workspace.0.is_dir() || is_used() {
        return WorktreeSight::None;
    }
    let needed = |why: String| WorktreeSight::Needed(Need::Worktree { why });
    let directory = match RunDirectory::open(&host.state, run.run) {
        Ok(directory) => directory,
        Err(error) => return needed(error.to_string()),
    };
    let unapplied = Worktree::of(host, &directory).and_then(|worktree| {
        let taken = worktree.taken()?;
        let present = worktree.present(&taken)?;
        Ok((count(&compare(&taken, &present)), worktree))
    });
    match unapplied {
        Ok((changes, worktree)) if changes == ChangeCounts::default() => {
            WorktreeSight::Taken(Box::new(worktree))
        }
        Ok(_) => needed("its worktree has unapplied changes: `apply` or `discard` it".to_owned()),
        Err(error) => needed(format!("cannot check its worktree: {}", error.message_with_causes())),
    }
}

/// The size of the readable files in a directory. Does not follow links.
fn size_of(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut total = 0;
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            total += metadata.blocks() * 512;
            if metadata.is_dir() {
                open.push(entry.path());
            }
        }
    }
    total
}
