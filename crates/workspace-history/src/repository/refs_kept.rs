//! The repositories of a workspace before and after a run: their refs and their irregular files. An undo restores refs
//! that the run moved or deleted, unless they have moved again.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use run_protocol::BytesPath;
use serde::{Deserialize, Serialize};

use super::cleaning::{Irregular, irregular_in};
use super::finding::{Repository, RepositoryError};
use super::refs::{Refs, resolve};
use crate::git::{Git, GitError};
use crate::tree_path::TreePath;

/// Enough for all repositories of a workspace, unless an agent slows them down on purpose.
const LONGEST: Duration = Duration::from_secs(20);
/// Git does not recognise a repository without these directories.
const NEEDED: [&str; 2] = ["refs", "objects"];
const PATIENCE: Duration = Duration::from_secs(60);

/// The repositories of a workspace, as recorded for one run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RefsKept {
    v: u32,
    /// When the recording began.
    #[serde(default)]
    pub(crate) began_ns: i64,
    #[serde(default)]
    pub(crate) repositories: Vec<KeptRepository>,
    /// Git directories, none inside another, each with its irregular files.
    #[serde(default)]
    pub(crate) directories: Vec<KeptDirectory>,
    /// Every `.git` that was a link or a special file.
    #[serde(default)]
    pub(crate) odd: BTreeSet<TreePath>,
    /// Why the record is incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) incomplete: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct KeptRepository {
    pub(crate) root: BytesPath,
    pub(crate) git_dir: BytesPath,
    pub(crate) common_dir: BytesPath,
    /// A sorted list, because a name may not be valid text.
    pub(crate) before: Vec<(TreePath, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<Vec<(TreePath, String)>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct KeptDirectory {
    pub(crate) path: BytesPath,
    pub(crate) irregular: BTreeSet<Irregular>,
}

/// Returns the repositories whose `.git` is at these paths, if the repository itself confirms it.
pub(crate) fn repositories_at(workspace: &Path, gits: &[TreePath]) -> Vec<Repository> {
    let root_of = |git: &TreePath| match git.parent() {
        Some(parent) if !parent.as_bytes().is_empty() => workspace.join(parent.as_path()),
        _ => workspace.to_owned(),
    };
    let found = gits.iter().filter_map(|git| Repository::at(&root_of(git)).ok().flatten());
    found.filter(|repository| repository.check_is_own().is_ok()).collect()
}

/// Returns the git directories of these repositories. None is inside another.
pub(crate) fn directories_of(repositories: &[Repository]) -> Vec<PathBuf> {
    let mut all: Vec<&Path> = repositories.iter().flat_map(Repository::directories).collect();
    // A directory sorts before everything in it.
    all.sort();
    let mut outermost: Vec<PathBuf> = Vec::new();
    for directory in all {
        if !outermost.iter().any(|outer| directory.starts_with(outer)) {
            outermost.push(directory.to_owned());
        }
    }
    outermost
}

impl RefsKept {
    /// Records the repositories whose `.git` is at these paths.
    pub(crate) fn look(git: &Git, workspace: &Path, gits: &[TreePath], began_ns: i64) -> Self {
        let mut kept = Self { v: 1, began_ns, ..Self::default() };
        let until = Instant::now() + LONGEST;
        let repositories = repositories_at(workspace, gits);
        for directory in directories_of(&repositories) {
            match irregular_in(&directory, until) {
                Ok(found) => kept.directories.push(KeptDirectory {
                    path: BytesPath::from(directory.as_path()),
                    irregular: found.into_iter().map(|(irregular, _)| irregular).collect(),
                }),
                Err(error) => kept.incomplete = Some(error.to_string()),
            }
        }
        for repository in repositories {
            match repository.refs(git) {
                Ok(before) => kept.repositories.push(KeptRepository {
                    root: BytesPath::from(repository.root.as_path()),
                    git_dir: BytesPath::from(repository.git_dir.as_path()),
                    common_dir: BytesPath::from(repository.common_dir.as_path()),
                    before: before.into_iter().collect(),
                    after: None,
                }),
                Err(error) => {
                    let root = repository.root.display();
                    kept.incomplete = Some(format!("the branches of `{root}`: {error}"));
                }
            }
        }
        let is_odd = |git: &&TreePath| {
            let found = workspace.join(git.as_path()).symlink_metadata();
            found.is_ok_and(|found| !found.is_dir() && !found.is_file())
        };
        kept.odd = gits.iter().filter(is_odd).cloned().collect();
        kept
    }
}

/// Returns true if nothing exists there. A path that cannot be checked does not count as gone.
pub(crate) fn is_gone(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

impl KeptRepository {
    pub(crate) fn is_gone(&self) -> bool {
        is_gone(&self.git_dir.0)
    }

    /// Restores HEAD and the directories that git needs to recognise the repository, if only those are missing.
    pub(crate) fn mend(&self) -> io::Result<()> {
        for needed in NEEDED {
            match std::fs::create_dir(self.common_dir.0.join(needed)) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        let head = TreePath::from("HEAD");
        let head = self.before.iter().find(|(name, _)| *name == head);
        let path = self.git_dir.0.join("HEAD");
        match head {
            Some((_, value)) if path.symlink_metadata().is_err() => {
                let mut file = std::fs::File::create_new(path)?;
                file.write_all(format!("{value}\n").as_bytes())
            }
            _ => Ok(()),
        }
    }

    /// Returns the refs that the run moved or deleted, with their values before and after.
    pub(crate) fn touched(&self) -> impl Iterator<Item = (&TreePath, &str, Option<&str>)> {
        let after = self.after.as_ref();
        let value_of = move |name: &TreePath| {
            let after = after?;
            let at = after.binary_search_by(|(other, _)| other.cmp(name));
            Some(at.ok().map(|at| after[at].1.as_str()))
        };
        self.before.iter().filter_map(move |(name, before)| {
            let after = value_of(name)?;
            (after != Some(before)).then_some((name, before.as_str(), after))
        })
    }
}

/// The state that refs should return to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefsSide {
    BeforeRun,
    AfterRun,
}

/// A ref that should change, even if it cannot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefChange {
    /// The checkout of its repository.
    pub root: PathBuf,
    pub name: TreePath,
    /// The commit, or `ref: <name>`; `None` if the ref does not exist.
    pub now: Option<String>,
    pub to: Option<String>,
}

/// The ref changes that an undo or redo needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefPlan {
    pub changes: Vec<RefChange>,
    /// Refs that have moved again. They stay.
    pub conflicts: Vec<RefChange>,
    /// Repositories that cannot be used, and why.
    pub unusable: Vec<String>,
}

/// The result of carrying out a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefsRestored {
    pub failed: Vec<(RefChange, String)>,
    /// Checkouts whose index stays unchanged, because it has staged changes that are in no commit.
    pub index_left: Vec<PathBuf>,
}

impl RefsKept {
    /// Plans how refs return to one side of the run. Includes only refs that the run moved or deleted and that still
    /// have their value from the other side.
    pub fn plan(&self, git: &Git, side: RefsSide) -> RefPlan {
        let mut plan = RefPlan::default();
        for kept in self.repositories.iter().filter(|kept| kept.touched().next().is_some()) {
            let root = &kept.root.0;
            let present = match present(git, root) {
                Ok(present) => present,
                Err(error) => {
                    plan.unusable.push(error);
                    continue;
                }
            };
            for (name, before, after) in kept.touched() {
                let now = present.get(name).map(String::as_str);
                let (to, verdict) = decide(side, before, after, now);
                let change = RefChange {
                    root: root.clone(),
                    name: name.clone(),
                    now: now.map(ToOwned::to_owned),
                    to: to.map(ToOwned::to_owned),
                };
                match verdict {
                    Verdict::AsItShould => {}
                    Verdict::Change => plan.changes.push(change),
                    Verdict::Conflict => plan.conflicts.push(change),
                }
            }
        }
        plan
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    AsItShould,
    Change,
    Conflict,
}

/// Returns the value that a ref should get, and whether it may change. A ref changes only from its value on the other
/// side.
fn decide<'a>(
    side: RefsSide,
    before: &'a str,
    after: Option<&'a str>,
    now: Option<&str>,
) -> (Option<&'a str>, Verdict) {
    let (from, to) = match side {
        RefsSide::BeforeRun => (after, Some(before)),
        RefsSide::AfterRun => (Some(before), after),
    };
    let verdict = match now {
        now if now == to => Verdict::AsItShould,
        now if now == from => Verdict::Change,
        _ => Verdict::Conflict,
    };
    (to, verdict)
}

fn present(git: &Git, root: &Path) -> Result<Refs, String> {
    let repository = usable(root).map_err(|error| error.to_string())?;
    repository.refs(git).map_err(|error| format!("the branches of `{}`: {error}", root.display()))
}

fn usable(root: &Path) -> Result<Repository, RepositoryError> {
    let nothing = || RepositoryError::NamesNothing(root.join(".git"));
    let repository = Repository::at(root)?.ok_or_else(nothing)?;
    repository.check_is_own()?;
    repository.check()?;
    Ok(repository)
}

impl RefPlan {
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    pub fn apply(&self, git: &Git) -> RefsRestored {
        let mut outcome = RefsRestored::default();
        let mut by_root: BTreeMap<&Path, Vec<&RefChange>> = BTreeMap::new();
        for change in &self.changes {
            by_root.entry(&change.root).or_default().push(change);
        }
        for (root, mut changes) in by_root {
            // Deletions come first, because they make room for new refs. HEAD comes last.
            changes
                .sort_by_key(|change| (change.name == TreePath::from("HEAD"), change.to.is_some()));
            if let Err(why) = apply_in(git, root, &changes, &mut outcome) {
                outcome.failed.extend(changes.into_iter().map(|one| (one.clone(), why.clone())));
            }
        }
        outcome
    }
}

fn apply_in(
    git: &Git,
    root: &Path,
    changes: &[&RefChange],
    outcome: &mut RefsRestored,
) -> Result<(), String> {
    let in_words = |error: &dyn std::error::Error| error.to_string();
    let repository = usable(root).map_err(|error| in_words(&error))?;
    let refs = repository.refs(git).map_err(|error| in_words(&error))?;
    let missing = missing_commits(git, &repository, changes).map_err(|error| in_words(&error))?;
    for change in changes {
        let is_gone = change.to.as_ref().is_some_and(|to| missing.contains(to));
        let written = match is_gone {
            true => Err("its commit is gone".to_owned()),
            false => repository
                .set_ref(git, &change.name, change.to.as_deref())
                .map_err(|error| in_words(&error)),
        };
        if let Err(why) = written {
            outcome.failed.push(((*change).clone(), why));
        }
    }
    let after = repository.refs(git).map_err(|error| in_words(&error))?;
    let head = TreePath::from("HEAD");
    if let (Some(from), Some(to)) = (resolve(&refs, &head), resolve(&after, &head))
        && from != to
        && !bring_index(git, &repository, from, to).unwrap_or(false)
    {
        outcome.index_left.push(root.to_owned());
    }
    Ok(())
}

/// Returns the wanted commits that the repository no longer has.
fn missing_commits(
    git: &Git,
    repository: &Repository,
    changes: &[&RefChange],
) -> Result<BTreeSet<String>, GitError> {
    let wanted = changes.iter().filter_map(|change| change.to.as_deref());
    let wanted: String =
        wanted.filter(|to| !to.starts_with("ref: ")).map(|to| format!("{to}\n")).collect();
    let (words, wanted) = (["cat-file", "--batch-check"], wanted.into_bytes());
    let answer = git.run_in(&repository.root, words, Some(wanted), PATIENCE)?.checked()?;
    let answer = String::from_utf8_lossy(&answer);
    let missing = answer.lines().filter_map(|line| line.strip_suffix(" missing"));
    Ok(missing.map(ToOwned::to_owned).collect())
}

/// Moves the index from one commit to another, but only if it matches the first commit: staged changes must not be
/// lost.
fn bring_index(git: &Git, repository: &Repository, from: &str, to: &str) -> Result<bool, GitError> {
    let words = ["diff-index", "--cached", "--quiet", "--no-ext-diff", from, "--"];
    if !git.run_in(&repository.root, words, None, PATIENCE)?.status.success() {
        return Ok(false);
    }
    git.run_in(&repository.root, ["read-tree", to], None, PATIENCE)?.checked()?;
    Ok(true)
}

impl RefsKept {
    pub(crate) fn read(path: &Path) -> io::Result<Option<Self>> {
        match std::fs::read(path) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
#[path = "repository_tests.rs"]
mod tests;
