//! Scores how likely it is that a conversation led to a commit, and says why.

use std::collections::HashSet;

use admission::words::units;
use cursor_stores::model::Confidence;

use super::evidence::{Evidence, Touch, WorkspaceMatch};
use super::git::Commit;

/// Git stores whole seconds, so a commit may be up to a second later than its time says.
const SECOND_MS: i64 = 1000;
/// Activity this long before a commit counts half.
const NEAR_MS: f64 = 10.0 * 60_000.0;
/// The weight of each kind of evidence; together 100.
const FILES_WEIGHT: f64 = 60.0;
const TIME_WEIGHT: f64 = 25.0;
const WORKSPACE_WEIGHT: f64 = 15.0;

/// The evidence that a conversation led to a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Match {
    /// From 0 to 100.
    pub(crate) score: u32,
    /// The commit's files that the conversation changed before the commit.
    pub(crate) files: Vec<String>,
    pub(crate) n_commit_files: usize,
    pub(crate) timing: Timing,
    pub(crate) workspace: WorkspaceMatch,
}

/// When a conversation was active, relative to a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timing {
    /// It changed one of the files this many milliseconds before the commit.
    ChangedBefore(u64),
    /// It was active this many milliseconds before the commit.
    ActiveBefore(u64),
    /// It began before the commit and changed after it, but its messages have no times.
    Open,
    Unknown,
}

/// Scores a conversation for a commit; `None` if it was active at another time, or in another workspace on other files.
pub(crate) fn rank(commit: &Commit, evidence: &Evidence, window_ms: u64) -> Option<Match> {
    let files = common_files(commit, evidence);
    let (timing, nearest_ms) = timing(commit, evidence, &files)?;
    let is_in_time = match timing {
        Timing::ChangedBefore(_) | Timing::ActiveBefore(_) => nearest_ms <= window_ms,
        Timing::Open => true,
        Timing::Unknown => !files.is_empty(),
    };
    let is_about_it = !files.is_empty()
        || !matches!(
            evidence.workspace_match,
            WorkspaceMatch::Different | WorkspaceMatch::Namesake
        );
    if !is_in_time || !is_about_it {
        return None;
    }
    let score = FILES_WEIGHT * files_share(commit, evidence, files.len())
        + TIME_WEIGHT * time_share(timing)
        + WORKSPACE_WEIGHT * workspace_share(evidence.workspace_match);
    Some(Match {
        // At most the sum of the weights.
        score: score.round().clamp(0.0, 100.0) as u32,
        files,
        n_commit_files: commit.files.len(),
        timing,
        workspace: evidence.workspace_match,
    })
}

/// The commit's files that the conversation changed before the commit, or at an uncertain time.
fn common_files(commit: &Commit, evidence: &Evidence) -> Vec<String> {
    let latest = commit.author_ms.max(commit.commit_ms).saturating_add(SECOND_MS);
    let is_before = |touch: &&Touch| {
        touch.at.is_none_or(|at| at.confidence != Confidence::Recorded || at.at_ms <= latest)
    };
    let touched: HashSet<&str> =
        evidence.touches.iter().filter(is_before).map(|touch| touch.path.as_str()).collect();
    commit.files.iter().filter(|file| touched.contains(file.as_str())).cloned().collect()
}

/// Uses the commit's author time or commit time, whichever is nearer. The second value is the shortest
/// time between the conversation and the commit.
fn timing(commit: &Commit, evidence: &Evidence, files: &[String]) -> Option<(Timing, u64)> {
    let moments = [commit.author_ms, commit.commit_ms];
    let nearest = |times: &mut dyn Iterator<Item = i64>| -> Option<u64> {
        times.flat_map(|at| moments.map(|moment| before(at, moment))).flatten().min()
    };
    let Some((first, last)) = evidence.span else { return Some((Timing::Unknown, 0)) };
    let files: HashSet<&str> = files.iter().map(String::as_str).collect();
    let changes = evidence.touches.iter().filter(|touch| files.contains(touch.path.as_str()));
    let changed = nearest(&mut changes.filter_map(|touch| Some(touch.at?.at_ms)));
    // Without message times, only the beginning and the end are known. The commit may be between them.
    let ends = [first, last];
    let activity =
        if evidence.activity.is_empty() { ends.as_slice() } else { evidence.activity.as_slice() };
    let active = nearest(&mut activity.iter().copied());
    let is_open = evidence.activity.is_empty()
        && moments.iter().any(|moment| first <= *moment && *moment <= last);
    match (changed, active) {
        (Some(changed), active) => {
            Some((Timing::ChangedBefore(changed), active.unwrap_or(changed).min(changed)))
        }
        (None, _) if is_open => Some((Timing::Open, 0)),
        (None, Some(active)) => Some((Timing::ActiveBefore(active), active)),
        // It began after the commit.
        (None, None) => None,
    }
}

/// The time from `at` to the moment of a commit; `None` if `at` is later.
fn before(at: i64, moment: i64) -> Option<u64> {
    let distance = moment.saturating_add(SECOND_MS).checked_sub(at)?;
    u64::try_from(distance).ok().map(|ms| ms.saturating_sub(SECOND_MS.unsigned_abs()))
}

/// Weighs the share of the commit's files heavily, and the share of the conversation's files lightly.
fn files_share(commit: &Commit, evidence: &Evidence, n_common: usize) -> f64 {
    let mut touched: Vec<&str> = evidence.touches.iter().map(|touch| touch.path.as_str()).collect();
    touched.sort_unstable();
    touched.dedup();
    let share = |n_all: usize| if n_all == 0 { 0.0 } else { n_common as f64 / n_all as f64 };
    0.8 * share(commit.files.len()) + 0.2 * share(touched.len()).min(1.0)
}

fn time_share(timing: Timing) -> f64 {
    match timing {
        Timing::ChangedBefore(ms) | Timing::ActiveBefore(ms) => NEAR_MS / (NEAR_MS + ms as f64),
        Timing::Open => 0.5,
        Timing::Unknown => 0.0,
    }
}

fn workspace_share(workspace_match: WorkspaceMatch) -> f64 {
    match workspace_match {
        WorkspaceMatch::Same | WorkspaceMatch::Inside => 1.0,
        WorkspaceMatch::Around => 0.6,
        WorkspaceMatch::Namesake => 0.4,
        WorkspaceMatch::Unknown => 0.2,
        WorkspaceMatch::Different => 0.0,
    }
}

impl Match {
    /// `changed 3 of its 4 files, the last one 2 min before it, in the same workspace`.
    pub(crate) fn reason(&self) -> String {
        let n_files = self.files.len();
        let files = match (n_files, self.n_commit_files) {
            (_, 0) => "the commit changes no files".to_owned(),
            (0, 1) => "did not change its file".to_owned(),
            (0, n) => format!("changed none of its {} files", units::grouped(n as u64)),
            (1, 1) => "changed its only file".to_owned(),
            (n, all) if n == all => {
                format!("changed all of its {} files", units::grouped(all as u64))
            }
            (n, all) => format!("changed {n} of its {} files", units::grouped(all as u64)),
        };
        let when = match self.timing {
            Timing::ChangedBefore(ms) => format!("the last change {} before it", units::age(ms)),
            Timing::ActiveBefore(ms) => format!("active {} before it", units::age(ms)),
            Timing::Open => "open at the time".to_owned(),
            Timing::Unknown => "at an unknown time".to_owned(),
        };
        let place = match self.workspace {
            WorkspaceMatch::Same => "in the same workspace",
            WorkspaceMatch::Inside => "in a directory of the repository",
            WorkspaceMatch::Around => "in a directory that contains the repository",
            WorkspaceMatch::Namesake => "in another workspace with the same name",
            WorkspaceMatch::Unknown => "in an unknown workspace",
            WorkspaceMatch::Different => "in another workspace",
        };
        format!("{files}, {when}, {place}")
    }
}

#[cfg(test)]
#[path = "ranking_tests.rs"]
mod tests;
