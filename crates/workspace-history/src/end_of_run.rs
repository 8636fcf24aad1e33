//! Cleans up every `.git` of the workspace after a run: removes links, special files and hard links that the run put
//! there, and adds moved or deleted refs to the audit.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use run_protocol::{BytesPath, Finding, FindingKind, RunId};

use crate::audit::Looked;
use crate::audit::git_files::{is_born_since, look_at_git};
use crate::file_tree::{FileTree, open_up};
use crate::git::Git;
use crate::history::{History, HistoryError};
use crate::repository::{
    Irregular, IrregularKind, KeptDirectory, KeptRepository, LookedThrough, Refs, RefsKept,
    Repository, directories_of, irregular_opened_up, is_gone, remove, repositories_at,
};
use crate::snapshot::Snapshot;
use crate::snapshot::saving::now_ns;
use crate::tree_path::TreePath;
use crate::walk::coverage::is_git;

/// Enough for all repositories of a workspace, unless an agent slows them down on purpose.
const LONGEST: Duration = Duration::from_secs(30);

impl History {
    /// Records the refs of the workspace's repositories before a run. `seen` is the snapshot from before the run, which
    /// lists the nested repositories.
    pub fn save_refs(&self, run: RunId, seen: Option<&Snapshot>) -> Result<(), HistoryError> {
        let gits = gits_of(seen);
        let kept = RefsKept::look(&self.git, &self.workspace, &gits, now_ns());
        self.keep_refs(run, &kept)
    }

    /// Removes links, special files and hard links that the run put into any `.git`, and adds them to the audit. Call
    /// it after the agent has ended.
    pub fn end_refs(&self, run: RunId, looked: &mut Looked) -> Result<(), HistoryError> {
        let Some(mut kept) = self.refs_kept(run)? else { return Ok(()) };
        if let Some(why) = kept.incomplete.take() {
            looked.incomplete.get_or_insert(why);
        }
        let mut gits: BTreeSet<TreePath> = looked.gits.iter().cloned().collect();
        gits.insert(TreePath::from(".git"));
        let of_before = kept.repositories.iter().filter_map(|kept| {
            let path = kept.root.0.join(".git");
            let relative = path.strip_prefix(&self.workspace).ok()?;
            TreePath::checked(relative.as_os_str().as_encoded_bytes())
        });
        gits.extend(of_before);
        let gits: Vec<TreePath> = gits.into_iter().collect();
        let mut cleaning = Cleaning {
            workspace: &self.workspace,
            kept: &kept,
            until: Instant::now() + LONGEST,
            looked,
        };
        cleaning.odd(&gits);
        cleaning.known();
        cleaning.unknown(&gits);
        for repository in &mut kept.repositories {
            match refs_of(&self.git, repository) {
                Ok(after) => repository.after = Some(after.into_iter().collect()),
                Err(why) => looked.incomplete = Some(why),
            }
            let prefix = repository.root.0.strip_prefix(&self.workspace).ok();
            let prefix = prefix.filter(|prefix| !prefix.as_os_str().is_empty());
            for (name, before, after) in repository.touched() {
                let what = match after {
                    Some(_) => FindingKind::RefMoved,
                    None => FindingKind::RefDeleted,
                };
                let path = match prefix {
                    Some(prefix) => prefix.join(".git").join(name.as_path()),
                    None => name.as_path().to_owned(),
                };
                let was = Some(before.trim_start_matches("ref: ").to_owned());
                let path = BytesPath::from(path.as_path());
                looked.found.push(Finding { what, path, target: None, was });
            }
        }
        self.keep_refs(run, &kept)
    }
}

/// Returns the `.git` paths of the workspace's own repository and of all nested repositories, except in ignored
/// directories.
fn gits_of(seen: Option<&Snapshot>) -> Vec<TreePath> {
    let within = seen.iter().flat_map(|seen| &seen.left_out);
    let within = within.filter(|path| is_git(path.name())).cloned();
    std::iter::once(TreePath::from(".git")).chain(within).collect()
}

struct Cleaning<'a> {
    workspace: &'a Path,
    kept: &'a RefsKept,
    until: Instant,
    looked: &'a mut Looked,
}

impl Cleaning<'_> {
    /// Removes every `.git` that has become a link or a special file, and makes unreadable ones readable.
    fn odd(&mut self, gits: &[TreePath]) {
        for git in gits.iter().filter(|git| !self.kept.odd.contains(git)) {
            let path = self.workspace.join(git.as_path());
            let Ok(found) = path.symlink_metadata() else { continue };
            let kind = match found.file_type() {
                directory if directory.is_dir() => {
                    // An unreadable directory would not be recognised as a repository.
                    self.open_up(&path);
                    continue;
                }
                plain if plain.is_file() => continue,
                link if link.is_symlink() => IrregularKind::Link,
                _ => IrregularKind::Special,
            };
            let target = std::fs::read_link(&path).ok();
            let target = target.map(|target| BytesPath::from(target.as_path()));
            let irregular = Irregular { path: git.clone(), kind, target };
            self.remove(self.workspace, &irregular);
        }
    }

    /// Cleans the git directories that existed before the run. Irregular files from before the run belong to the user.
    fn known(&mut self) {
        let directories = &self.kept.directories;
        for (at, KeptDirectory { path, irregular }) in directories.iter().enumerate() {
            let until = self.share(directories.len() - at);
            self.clean(&path.0, until, |one, _| !irregular.contains(one));
        }
    }

    /// Cleans the git directories that were not checked before the run: new ones, and those in ignored directories.
    fn unknown(&mut self, gits: &[TreePath]) {
        let is_known = |directory: &PathBuf| {
            self.kept.directories.iter().any(|known| directory.starts_with(&known.path.0))
        };
        let mut directories = directories_of(&repositories_at(self.workspace, gits));
        directories.retain(|directory| !is_known(directory));
        let since_ns = self.kept.began_ns;
        let n_directories = directories.len();
        for (at, directory) in directories.into_iter().enumerate() {
            let until = self.share(n_directories - at);
            let parent = directory.parent().and_then(|parent| FileTree::open(parent).ok());
            let parent = parent.and_then(|tree| tree.directory(&TreePath::default()).ok());
            let name = directory.file_name().unwrap_or_default().as_encoded_bytes();
            let is_new = parent.is_some_and(|parent| is_born_since(&parent, name, since_ns));
            self.clean(&directory, until, |_, changed_ns| is_new || changed_ns >= since_ns);
        }
    }

    /// Returns the deadline for the next of `n_directories` directories, so that one repository cannot use up the
    /// others' time.
    fn share(&self, n_directories: usize) -> Instant {
        let now = Instant::now();
        let left = self.until.saturating_duration_since(now);
        now + left / u32::try_from(n_directories).unwrap_or(u32::MAX).max(1)
    }

    fn clean(
        &mut self,
        git_dir: &Path,
        until: Instant,
        is_of_run: impl Fn(&Irregular, i64) -> bool,
    ) {
        if is_gone(git_dir) {
            return;
        }
        self.open_up(git_dir);
        let LookedThrough { found, opened, problem } = irregular_opened_up(git_dir, until);
        let was_closed = !opened.is_empty() || self.has_found_closed(git_dir);
        for directory in opened {
            self.found_closed(&git_dir.join(directory.as_path()));
        }
        for (irregular, changed_ns) in found {
            if is_of_run(&irregular, changed_ns) {
                self.remove(git_dir, &irregular);
            }
        }
        if was_closed {
            self.look_again(git_dir);
        }
        if let Some(problem) = problem {
            self.looked.incomplete = Some(problem.to_string());
        }
    }

    /// Makes the git directory itself readable.
    fn open_up(&mut self, git_dir: &Path) {
        match open_up(git_dir) {
            Ok(true) => self.found_closed(git_dir),
            Ok(false) => {}
            Err(error) => {
                let why = format!("`{}` cannot be read: {error}", git_dir.display());
                self.looked.incomplete = Some(why);
            }
        }
    }

    /// The audit ran while these directories were unreadable, so it saw no hooks in them.
    fn look_again(&mut self, git_dir: &Path) {
        let Ok(tree) = FileTree::open(git_dir) else { return };
        let mut found = Vec::new();
        look_at_git(&tree, &TreePath::default(), self.kept.began_ns, &mut found);
        for finding in found {
            let path = self.shown(&git_dir.join(&finding.path.0));
            let finding = Finding { path, ..finding };
            if !self.looked.found.contains(&finding) {
                self.looked.found.push(finding);
            }
        }
    }

    fn closed(&self, directory: &Path) -> Finding {
        let (what, path) = (FindingKind::GitClosed, self.shown(directory));
        Finding { what, path, target: None, was: None }
    }

    fn found_closed(&mut self, directory: &Path) {
        let finding = self.closed(directory);
        self.looked.found.push(finding);
    }

    fn has_found_closed(&self, directory: &Path) -> bool {
        self.looked.found.contains(&self.closed(directory))
    }

    fn shown(&self, path: &Path) -> BytesPath {
        BytesPath::from(path.strip_prefix(self.workspace).unwrap_or(path))
    }

    fn remove(&mut self, within: &Path, irregular: &Irregular) {
        let path = within.join(irregular.path.as_path());
        if let Err(error) = remove(within, irregular) {
            let why = format!("`{}` cannot be removed: {error}", path.display());
            self.looked.incomplete = Some(why);
        }
        let what = match irregular.kind {
            IrregularKind::Link => FindingKind::GitLink,
            IrregularKind::Special => FindingKind::GitSpecial,
            IrregularKind::HardLink { .. } => FindingKind::GitHardLink,
        };
        let (path, target) = (self.shown(&path), irregular.target.clone());
        self.looked.found.push(Finding { what, path, target, was: None });
    }
}

/// Returns a repository's refs after the run. If HEAD is missing, this restores it: without HEAD, git does not
/// recognise the repository, and neither does an undo.
fn refs_of(git: &Git, kept: &KeptRepository) -> Result<Refs, String> {
    if kept.is_gone() {
        return Ok(Refs::new());
    }
    let root = kept.root.0.display();
    kept.mend().map_err(|error| format!("`{root}` is no longer a repository: {error}"))?;
    let found = Repository::at(&kept.root.0).map_err(|error| error.to_string())?;
    let found = found.ok_or_else(|| format!("`{root}` is no longer a repository"))?;
    found.refs(git).map_err(|error| format!("the branches of `{root}`: {error}"))
}
