//! `caretaker gc`: removes old runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use admission::command_error::CommandError;
use admission::config::Config;
use admission::config::retention::{Age, Keep, MaxSize, RetentionConfig};
use admission::host::{Host, kept_agents, list_runs, short_id};
use admission::words::talk::{note, say};
use admission::words::units;
use admission::worktrees::Worktree;
use ground::now_ms;
use run_journal::{KernelLock, RunDirectory, RunFilter, RunOverview};
use run_protocol::{BytesPath, ExitCode, RunId};
use run_shim::{StoredCache, stored_caches};
use serde::Serialize;
use uuid::Uuid;

use crate::command_helper::CommandHelper;
use crate::commands::discard::HeldWorktree;
use crate::data_out::{print_json, print_table};
use crate::retention::minted;
use crate::retention::needs::{WorktreeSight, came_since, candidates, worktree};
use crate::retention::plan::{Candidate, Criteria, Need, Plan, plan};
use crate::retention::removal::{finish_earlier, remove};
use crate::view::words;

/// Remove old runs: their records, and worktrees without unapplied changes.
///
/// A run is removed if one of the rules says so. `[retention]` in the configuration supplies the rules that no flag
/// gives. Without `--yes`, nothing is removed. Live, queued and pinned runs stay. So does any run that something
/// still needs: a session waiting to be resumed, a worktree with unapplied changes, another run that is waiting for it,
/// or today's budget. Conversations always stay, and so do the counts of a group: how its runs ended and what they
/// used. A repository's private dependency caches are removed if the repository is gone or if no run has used them for
/// `--older-than`. Versions of the agent that Caretaker kept for its runs are removed if no run needs them any more.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker gc --older-than 30d             dry run
  caretaker gc --older-than 30d --yes       delete
  caretaker gc --keep 500 --max-size 10GiB")]
pub(crate) struct Args {
    /// Remove runs whose last event is older: `30d`, `2w`, `12h`; `none` for no limit.
    #[arg(long, value_name = "AGE")]
    older_than: Option<Age>,
    /// Keep only the latest COUNT runs; `none` for no limit.
    #[arg(long, value_name = "COUNT")]
    keep: Option<Keep>,
    /// Remove the oldest runs until all together fit into SIZE: `10GiB`; `none` for no limit.
    #[arg(long, value_name = "SIZE")]
    max_size: Option<MaxSize>,
    /// Delete; without this flag it is a dry run.
    #[arg(long)]
    yes: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    v: u32,
    /// True if the runs are gone; false for a dry run.
    is_done: bool,
    runs: Vec<Gone>,
    bytes: u64,
    /// Unused session ids from `sessions new`.
    minted: Vec<Uuid>,
    /// Dependency caches of repositories.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    caches: Vec<GoneCache>,
    /// Kept versions of the agent that no run needs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    agents: Vec<BytesPath>,
    /// Runs that a rule would remove, but that are still needed.
    kept: Vec<Kept>,
    /// Runs that could not be removed.
    failed: Vec<Failed>,
}

#[derive(Debug, Serialize)]
struct Gone {
    run: RunId,
    name: Option<String>,
    last_event_ms: u64,
    bytes: u64,
    /// Its worktree, which is removed too.
    worktree: Option<String>,
}

#[derive(Debug, Serialize)]
struct GoneCache {
    repository: Option<BytesPath>,
    directory: BytesPath,
    last_use_ms: u64,
}

#[derive(Debug, Serialize)]
struct Kept {
    run: RunId,
    #[serde(flatten)]
    need: Need,
    why: String,
}

#[derive(Debug, Serialize)]
struct Failed {
    run: RunId,
    why: String,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    host.clean_up_after_the_dead();
    let config = helper.config()?;
    let criteria = args.criteria(config.retention)?;
    if args.yes {
        finish_earlier(&host.state);
    }
    let runs = list_runs(&host.state, &RunFilter::default())?;
    let (plan, found, worktrees) = decide(host, config, &runs, criteria)?;
    let overview = |run: RunId| runs.iter().find(|it| it.run == run);
    let bytes = |run: RunId| found.iter().find(|it| it.run == run).map_or(0, |it| it.bytes);
    let mut report = Report {
        v: 1,
        is_done: args.yes,
        runs: Vec::new(),
        bytes: 0,
        minted: criteria
            .older_than_ms
            .map_or_else(Vec::new, |age| minted::unused(&host.state, &runs, age, now_ms())),
        caches: caches(host, criteria.older_than_ms, args.yes),
        agents: agents(host, args.yes),
        kept: plan
            .stay
            .into_iter()
            .map(|(run, need)| Kept { run, why: need.words(), need })
            .collect(),
        failed: Vec::new(),
    };
    let mut held = BTreeMap::new();
    for run in &plan.go {
        let Some(overview) = overview(*run) else { continue };
        let worktree = worktrees.iter().find(|worktree| worktree.run == *run);
        if args.yes {
            let removed = match held.get(&overview.session) {
                Some(of) => Ok(Removed::No(Need::Successor { of: *of })),
                None => take_away(host, &runs, *run, worktree),
            };
            match removed {
                Ok(Removed::Yes) => {}
                Ok(Removed::No(need)) => {
                    held.entry(overview.session.clone()).or_insert(*run);
                    report.kept.push(Kept { run: *run, why: need.words(), need });
                    continue;
                }
                Err(why) => {
                    held.entry(overview.session.clone()).or_insert(*run);
                    report.failed.push(Failed { run: *run, why });
                    continue;
                }
            }
        }
        report.bytes += bytes(*run);
        report.runs.push(Gone {
            run: *run,
            name: overview.name.clone(),
            last_event_ms: overview.last_event_ms,
            bytes: bytes(*run),
            worktree: worktree.map(|worktree| worktree.path.display().to_string()),
        });
    }
    if args.yes {
        report.minted.retain(|session| minted::forget(&host.state, &runs, session));
    }
    if args.json {
        print_json(&report)?;
    } else {
        show(&report, &runs)?;
    }
    Ok(if report.failed.is_empty() { ExitCode::Success } else { ExitCode::Failed })
}

impl Args {
    fn criteria(&self, config: RetentionConfig) -> Result<Criteria, CommandError> {
        let keep = self.keep.unwrap_or(config.keep).0;
        let criteria = Criteria {
            older_than_ms: self.older_than.unwrap_or(config.older_than).0,
            keep: keep.map(|keep| usize::try_from(keep).unwrap_or(usize::MAX)),
            max_bytes: self.max_size.unwrap_or(config.max_size).0,
        };
        if criteria == Criteria::default() {
            return Err(CommandError::new(ExitCode::Usage, "no retention rule given").hint(
            "give --older-than 30d, --keep 500 or --max-size 10GiB, or set `[retention]` in the configuration",
            ));
        }
        Ok(criteria)
    }
}

/// The dependency caches that no run needs. Removes them if `is_done`, and leaves those of live runs.
fn caches(host: &Host, older_than_ms: Option<u64>, is_done: bool) -> Vec<GoneCache> {
    let now = now_ms();
    let is_unused = |cache: &StoredCache| {
        let is_old = older_than_ms.is_some_and(|age| now.saturating_sub(cache.used_ms) > age);
        is_old || cache.repository.as_ref().is_none_or(|path| !path.exists())
    };
    let unused = stored_caches(&host.state).into_iter().filter(is_unused);
    let gone = unused.filter(|cache| match is_done.then(|| cache.remove()) {
        Some(Err(error)) => {
            note(&format!("cannot remove the cache {}: {error}", cache.directory.display()));
            false
        }
        Some(Ok(is_gone)) => is_gone,
        None => true,
    });
    gone.map(|cache| GoneCache {
        repository: cache.repository.map(BytesPath::from),
        directory: cache.directory.into(),
        last_use_ms: cache.used_ms,
    })
    .collect()
}

/// The kept versions of the agent that no run needs. Removes them if `is_done`.
fn agents(host: &Host, is_done: bool) -> Vec<BytesPath> {
    let unneeded = match is_done {
        true => kept_agents::remove_unneeded(&host.state),
        false => Ok(kept_agents::unneeded(&host.state)),
    };
    let unneeded = unneeded.unwrap_or_else(|error| {
        note(&format!("cannot remove the kept versions of the agent: {error}"));
        Vec::new()
    });
    unneeded.into_iter().map(BytesPath::from).collect()
}

/// Decides which runs and which of their worktrees to remove. It compares only worktrees that would be removed, so it
/// may take two rounds.
fn decide(
    host: &Host,
    config: &Config,
    runs: &[RunOverview],
    criteria: Criteria,
) -> Result<(Plan, Vec<Candidate>, Vec<Worktree>), CommandError> {
    let mut found = candidates(host, config, runs)?;
    let now = now_ms();
    loop {
        let decided = plan(&found, criteria, now);
        let going: BTreeSet<RunId> = decided.go.iter().copied().collect();
        let others: BTreeSet<&Path> = runs
            .iter()
            .filter(|run| !going.contains(&run.run))
            .map(|run| &*run.workspace.0)
            .collect();
        let mut worktrees: Vec<Worktree> = Vec::new();
        let mut has_changed = false;
        for run in runs.iter().filter(|run| going.contains(&run.run)) {
            if worktrees.iter().any(|worktree| worktree.path == run.workspace.0) {
                continue;
            }
            match worktree(host, run, &others) {
                WorktreeSight::None => {}
                WorktreeSight::Taken(worktree) => worktrees.push(*worktree),
                WorktreeSight::Needed(need) => {
                    for candidate in found.iter_mut().filter(|it| it.run == run.run) {
                        candidate.need = Some(need.clone());
                        has_changed = true;
                    }
                }
            }
        }
        if !has_changed {
            return Ok((decided, found, worktrees));
        }
    }
}

/// Whether a run was removed. `No` has the need that arose after the plan was made.
enum Removed {
    Yes,
    No(Need),
}

/// Removes a run, unless a need for it has arisen since `known` was listed. The worktree goes first: without its run,
/// no command could name it any more.
///
/// While this process holds the removal lock, no process can create or pin a run. Comparing a worktree may take a long
/// time, so that happens without the lock.
fn take_away(
    host: &Host,
    known: &[RunOverview],
    run: RunId,
    worktree: Option<&Worktree>,
) -> Result<Removed, String> {
    let look = || {
        let lock = KernelLock::take_waiting(&host.state.removal_lock());
        let lock = lock.map_err(|error| format!("cannot take the lock for removals: {error}"))?;
        let need = came_since(host, known, run, worktree).map_err(|error| error.to_string())?;
        Ok::<_, String>((lock, need))
    };
    let said = |error: CommandError| error.message_with_causes();
    let mut held = None;
    if let Some(worktree) = worktree {
        let (lock, need) = look()?;
        if let Some(need) = need {
            return Ok(Removed::No(need));
        }
        held = Some(HeldWorktree::take(host, worktree).map_err(said)?);
        drop(lock);
    }
    if let Some(held) = &held {
        held.must_be_in_the_checkout().map_err(said)?;
    }
    let (lock, need) = look()?;
    if let Some(need) = need {
        return Ok(Removed::No(need));
    }
    if let Some(held) = held {
        held.discard(host).map_err(said)?;
    }
    let directory = RunDirectory::open(&host.state, run).map_err(|error| error.to_string())?;
    let removed = remove(&host.state, &directory, lock);
    removed.map(|()| Removed::Yes).map_err(|error| match std::error::Error::source(&error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    })
}

fn show(report: &Report, runs: &[RunOverview]) -> Result<(), CommandError> {
    let now = now_ms();
    if !report.runs.is_empty() {
        let rows = report.runs.iter().map(|gone| {
            let run = runs.iter().find(|run| run.run == gone.run);
            [
                short_id(gone.run),
                gone.name.clone().unwrap_or_default(),
                run.map(|run| words::state(&run.state)).unwrap_or_default(),
                units::age(now.saturating_sub(gone.last_event_ms)),
                units::bytes(gone.bytes),
                run.map(|run| run.prompt_start.clone()).unwrap_or_default(),
            ]
        });
        let header = ["RUN", "NAME", "STATE", "AGE", "SIZE", "ABOUT"];
        print_table(&header, rows)?;
    }
    for Kept { run, why, .. } in &report.kept {
        note(&format!("run {} stays: {why}", short_id(*run)));
    }
    for Failed { run, why } in &report.failed {
        note(&format!("cannot remove run {}: {why}", short_id(*run)));
    }
    for session in &report.minted {
        note(&match report.is_done {
            true => format!("deleted unused session id {session}"),
            false => format!("unused session id {session} would be deleted"),
        });
    }
    for GoneCache { repository, directory, .. } in &report.caches {
        let of = repository.as_ref().unwrap_or(directory).0.display();
        note(&match report.is_done {
            true => format!("deleted the dependency caches of {of}"),
            false => format!("the dependency caches of {of} would be deleted"),
        });
    }
    for BytesPath(directory) in &report.agents {
        let directory = directory.display();
        note(&match report.is_done {
            true => format!("deleted a version of the agent that no run needs: {directory}"),
            false => {
                format!("a version of the agent that no run needs would be deleted: {directory}")
            }
        });
    }
    let has_others =
        !report.minted.is_empty() || !report.caches.is_empty() || !report.agents.is_empty();
    let what = units::counted(report.runs.len() as u64, "run", "runs");
    let size = units::bytes(report.bytes);
    say(&match (report.is_done, report.runs.is_empty()) {
        (true, true) if has_others => return Ok(()),
        (false, true) if has_others => "dry run; pass --yes to delete".to_owned(),
        (_, true) => "nothing to delete".to_owned(),
        (true, false) => format!("{what} deleted, {size}"),
        (false, false) => format!("{what}, {size}: dry run; pass --yes to delete"),
    });
    Ok(())
}
