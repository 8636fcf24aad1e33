//! Takes a snapshot: walks the workspace, reads new contents, and saves everything.

use std::cell::{Cell, LazyCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::file_tree::{FileTree, OpenDirectory};
use crate::git::GitError;
use crate::git::import::{Content, Import, Mark, ReadThrough};
use crate::history::{History, HistoryError, SnapshotName};
use crate::snapshot::{Entry, EntryKind, Snapshot, Stamp};
use crate::tree_path::TreePath;
use crate::walk::coverage::Coverage;
use crate::walk::{Bounds, Locked, Walk, WalkError, Walked};

/// File system clocks tick slowly: a file that changed shortly before it was read may have changed again with the same
/// time.
const TOO_FRESH_NS: i64 = 1_000_000_000;

/// The limits of a snapshot.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub most_files: usize,
    /// Bytes that the store does not have yet.
    pub most_new_bytes: u64,
    pub within: Duration,
}

/// The files that a snapshot should cover.
#[derive(Debug, Clone, Copy)]
pub enum Scope<'a> {
    /// Everything that git does not ignore now.
    AsGitWould,
    /// Everything that this snapshot covered or would have covered. A restore follows, so this makes unreadable files
    /// readable.
    As(&'a Snapshot),
    /// Like [`Self::As`], but read-only.
    LookAs(&'a Snapshot),
    /// Like one of these two, and also everything in these repositories, each named by its `.git`. For repositories
    /// that a run made, see [`crate::repositories_made`].
    With { earlier: &'a Snapshot, repositories: &'a [TreePath], is_only_a_look: bool },
}

#[derive(Debug)]
pub struct Saved {
    pub snapshot: Snapshot,
    /// Ignored directories, and ignored files that an audit wants to see.
    pub passed_over: Vec<TreePath>,
    /// The number of files whose content was read. The contents of the others were known.
    pub files_read: u64,
    pub bytes_read: u64,
    pub took: Duration,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    #[error("`{}` cannot be entered", path.display())]
    Workspace { path: PathBuf, source: io::Error },
    #[error("it has more than {0} files")]
    TooManyFiles(usize),
    #[error("it has {found} new bytes, but at most {most} are allowed")]
    TooLarge { found: u64, most: u64 },
    #[error("saving it took longer than {} s", .0.as_secs_f32())]
    TooSlow(Duration),
    #[error("`{path}` cannot be read")]
    Read { path: TreePath, source: io::Error },
    #[error("the contents cannot be saved")]
    Keep(#[source] io::Error),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    History(#[from] HistoryError),
}

struct Unread {
    path: TreePath,
    size: u64,
}

impl History {
    /// Takes a snapshot of the workspace. `skip` names our own directories in it, which exist only during a run.
    pub fn save(
        &self,
        name: &SnapshotName,
        scope: Scope<'_>,
        skip: &[TreePath],
        limits: Limits,
    ) -> Result<Saved, SaveError> {
        let _lock = self.open_for_writing()?;
        let latest = self.latest();
        match self.save_knowing(name, scope, skip, limits, latest.as_ref()) {
            // The store has lost contents that the last snapshot names, so this reads everything again.
            Err(SaveError::Git(GitError::Refused(_))) if latest.is_some() => {
                self.save_knowing(name, scope, skip, limits, None)
            }
            saved => saved,
        }
    }

    fn save_knowing(
        &self,
        name: &SnapshotName,
        scope: Scope<'_>,
        skip: &[TreePath],
        limits: Limits,
        known: Option<&Snapshot>,
    ) -> Result<Saved, SaveError> {
        let began = Instant::now();
        let deadline = began + limits.within;
        let began_ns = now_ns();
        let tree = FileTree::open(&self.workspace)
            .map_err(|source| SaveError::Workspace { path: self.workspace.clone(), source })?;
        let head = self.git.head(&self.workspace);
        // The walk needs git's answer. Without it, some tracked files would be missing.
        let unanswered = Cell::new(None);
        let coverage = match scope {
            Scope::AsGitWould => Coverage::AsGitWould {
                tracked: LazyCell::new(Box::new(|| {
                    let tracked = self.git.tracked(&self.workspace);
                    tracked.unwrap_or_else(|error| {
                        unanswered.set(Some(error));
                        BTreeSet::new()
                    })
                })),
                everywhere: self.git.ignored_everywhere(),
            },
            Scope::As(earlier) | Scope::LookAs(earlier) => {
                Coverage::As { earlier, repositories: &[] }
            }
            Scope::With { earlier, repositories, .. } => Coverage::As { earlier, repositories },
        };
        let locked = match scope {
            Scope::As(_) | Scope::With { is_only_a_look: false, .. } => Locked::OpenUp,
            Scope::AsGitWould | Scope::LookAs(_) | Scope::With { .. } => Locked::LeaveOut,
        };
        let bounds = Bounds { most_entries: limits.most_files, deadline };
        let walk = Walk { tree: &tree, coverage: &coverage, skip, bounds, locked };
        let Walked { entries, rules, rules_above, left_out, has_git, passed_over } =
            walk.run().map_err(|error| walk_error(error, limits))?;
        if let Some(error) = unanswered.take() {
            return Err(SaveError::Git(error));
        }
        let mut snapshot = Snapshot {
            commit: None,
            began_ns,
            head,
            has_git,
            rules,
            rules_above,
            entries,
            left_out,
        };

        let unread = learn(&mut snapshot.entries, known);
        let bytes: u64 = unread.iter().map(|file| file.size).sum();
        if bytes > limits.most_new_bytes {
            return Err(SaveError::TooLarge { found: bytes, most: limits.most_new_bytes });
        }
        if let Some(known) = known
            && unread.is_empty()
            && known.commit.is_some()
            && snapshot.has_same_entries_as(known)
        {
            snapshot.commit.clone_from(&known.commit);
        } else {
            let is_whole = self.import(name, &tree, &mut snapshot, &unread, deadline, locked)?;
            if !is_whole {
                self.keep(&SnapshotName::unfinished(), &snapshot).map_err(SaveError::Keep)?;
                return Err(SaveError::TooSlow(limits.within));
            }
        }
        self.keep(name, &snapshot).map_err(SaveError::Keep)?;
        let files_read = unread.len() as u64;
        let took = began.elapsed();
        Ok(Saved { snapshot, passed_over, files_read, bytes_read: bytes, took })
    }

    /// Records the workspace without contents. This is enough to find changes later, but not to restore them.
    pub fn look(
        &self,
        name: &SnapshotName,
        skip: &[TreePath],
        limits: Limits,
    ) -> Result<Saved, SaveError> {
        let began = Instant::now();
        let began_ns = now_ns();
        let _lock = self.open_for_writing()?;
        let tree = FileTree::open(&self.workspace)
            .map_err(|source| SaveError::Workspace { path: self.workspace.clone(), source })?;
        let tracked = LazyCell::new(Box::new(BTreeSet::new) as _);
        let coverage = Coverage::AsGitWould { tracked, everywhere: self.git.ignored_everywhere() };
        let deadline = began + limits.within;
        let bounds = Bounds { most_entries: limits.most_files, deadline };
        let locked = Locked::LeaveOut;
        let walk = Walk { tree: &tree, coverage: &coverage, skip, bounds, locked };
        let Walked { mut entries, rules, rules_above, left_out, has_git, passed_over } =
            walk.run().map_err(|error| walk_error(error, limits))?;
        for entry in entries.values_mut() {
            if let EntryKind::File { id, .. } = &mut entry.kind {
                let Stamp { modified_ns, changed_ns, inode, .. } = entry.stamp;
                *id = format!("seen-{modified_ns}-{changed_ns}-{inode}");
            }
        }
        let (commit, head) = (None, None);
        let snapshot =
            Snapshot { commit, began_ns, head, has_git, rules, rules_above, entries, left_out };
        self.keep(name, &snapshot).map_err(SaveError::Keep)?;
        let took = began.elapsed();
        Ok(Saved { snapshot, passed_over, files_read: 0, bytes_read: 0, took })
    }

    /// Reads the contents and makes the commit. Returns true if there was enough time. If not, it keeps the contents
    /// that it has read, so that the next attempt has less to do.
    fn import(
        &self,
        name: &SnapshotName,
        tree: &FileTree,
        snapshot: &mut Snapshot,
        unread: &[Unread],
        deadline: Instant,
        locked: Locked,
    ) -> Result<bool, SaveError> {
        let mut import = Import::start(&self.git, &self.store())?;
        let mut marks: BTreeMap<TreePath, Mark> = BTreeMap::new();
        let mut is_whole = true;
        // Files are sorted, so the next one is usually in the same directory.
        let mut at: Option<(TreePath, OpenDirectory)> = None;
        for file in unread {
            let path = &file.path;
            if Instant::now() > deadline {
                is_whole = false;
                break;
            }
            match read_file(parent_of(tree, path, &mut at), file, &mut import, locked) {
                Ok(Some((mark, through))) => {
                    marks.insert(path.clone(), mark);
                    if through == ReadThrough::InFlux
                        && let Some(entry) = snapshot.entries.get_mut(path)
                    {
                        entry.stamp = Stamp::default();
                    }
                }
                // The file is already gone, or unreadable.
                Ok(None) => {
                    snapshot.entries.remove(path);
                    snapshot.left_out.push(path.clone());
                }
                Err(Problem::Read(source)) => {
                    import.abandon();
                    return Err(SaveError::Read { path: path.clone(), source });
                }
                Err(Problem::Import(_)) => {
                    // Git's own message says more than "broken pipe".
                    import.finish()?;
                    return Err(SaveError::Git(GitError::Refused("it stopped reading".to_owned())));
                }
            }
        }
        if !is_whole {
            let has_content = |path: &TreePath, entry: &Entry| match &entry.kind {
                EntryKind::File { id, .. } => !id.is_empty() || marks.contains_key(path),
                _ => true,
            };
            snapshot.entries.retain(|path, entry| has_content(path, entry));
        }
        let committed = self.commit(name, snapshot, &marks, &mut import);
        let imported = import.finish()?;
        let commit = committed.map_err(SaveError::Keep)?;
        for (path, mark) in &marks {
            if let (Some(entry), Some(new)) = (snapshot.entries.get_mut(path), imported.id(*mark))
                && let EntryKind::File { id, .. } = &mut entry.kind
            {
                new.clone_into(id);
            }
        }
        snapshot.commit = imported.id(commit).map(ToOwned::to_owned);
        snapshot.left_out.sort();
        Ok(is_whole)
    }

    fn commit(
        &self,
        name: &SnapshotName,
        snapshot: &Snapshot,
        marks: &BTreeMap<TreePath, Mark>,
        import: &mut Import,
    ) -> io::Result<Mark> {
        let mut targets: BTreeMap<&TreePath, Mark> = BTreeMap::new();
        for (path, entry) in &snapshot.entries {
            if let EntryKind::Symlink { target } = &entry.kind {
                use std::os::unix::ffi::OsStrExt;
                targets.insert(path, import.bytes(target.as_os_str().as_bytes())?);
            }
        }
        let files = snapshot.entries.iter().filter_map(|(path, entry)| match &entry.kind {
            EntryKind::File { id, .. } => {
                let mode = if entry.mode & 0o100 == 0 { "100644" } else { "100755" };
                let content = match marks.get(path) {
                    Some(mark) => Content::Marked(*mark),
                    None => Content::Known(id),
                };
                Some((path, mode, content))
            }
            EntryKind::Symlink { .. } => {
                targets.get(path).map(|mark| (path, "120000", Content::Marked(*mark)))
            }
            _ => None,
        });
        let message = format!("{name} of {}\n", self.workspace.display());
        let seconds = u64::try_from(snapshot.began_ns / 1_000_000_000).unwrap_or_default();
        import.commit(&name.reference(), &message, seconds, files)
    }
}

/// Opens the directory of a path, once for all files in it.
fn parent_of<'a>(
    tree: &FileTree,
    path: &TreePath,
    at: &'a mut Option<(TreePath, OpenDirectory)>,
) -> io::Result<&'a OpenDirectory> {
    let parent = path.parent().unwrap_or_default();
    if at.as_ref().is_none_or(|(open, _)| *open != parent) {
        *at = Some((parent.clone(), tree.directory(&parent)?));
    }
    at.as_ref().map(|(_, directory)| directory).ok_or_else(|| io::ErrorKind::NotFound.into())
}

enum Problem {
    Read(io::Error),
    Import(#[expect(dead_code, reason = "git's own message is reported instead")] io::Error),
}

fn read_file(
    directory: io::Result<&OpenDirectory>,
    Unread { path, size }: &Unread,
    import: &mut Import,
    locked: Locked,
) -> Result<Option<(Mark, ReadThrough)>, Problem> {
    let opened = directory.and_then(|directory| match directory.open_file(path.name()) {
        Err(error)
            if locked == Locked::OpenUp && error.kind() == io::ErrorKind::PermissionDenied =>
        {
            let mode = directory.look(path.name())?.mode;
            directory.set_mode(path.name(), mode | 0o400)?;
            let opened = directory.open_file(path.name());
            directory.set_mode(path.name(), mode)?;
            opened
        }
        opened => opened,
    });
    let file = match opened {
        Ok(file) => file,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(Problem::Read(error)),
    };
    import.file(file, *size).map(Some).map_err(Problem::Import)
}

/// Takes the ids of unchanged files from `known`, and returns the other files.
fn learn(entries: &mut BTreeMap<TreePath, Entry>, known: Option<&Snapshot>) -> Vec<Unread> {
    let known = known.filter(|known| known.commit.is_some());
    let mut unread = Vec::new();
    for (path, entry) in entries {
        let EntryKind::File { size, id } = &mut entry.kind else { continue };
        let known_id = known.and_then(|known| {
            let Entry { kind: EntryKind::File { size: then, id }, stamp, .. } =
                known.entries.get(path)?
            else {
                return None;
            };
            let is_settled = stamp.changed_ns.saturating_add(TOO_FRESH_NS) < known.began_ns;
            (is_settled && *stamp == entry.stamp && then == size && !id.is_empty()).then_some(id)
        });
        match known_id {
            Some(known_id) => known_id.clone_into(id),
            None => unread.push(Unread { path: path.clone(), size: *size }),
        }
    }
    unread
}

fn walk_error(error: WalkError, limits: Limits) -> SaveError {
    match error {
        WalkError::TooMany(most) => SaveError::TooManyFiles(most),
        WalkError::TooSlow => SaveError::TooSlow(limits.within),
        WalkError::Read { path, source } => SaveError::Read { path, source },
    }
}

pub(crate) fn now_ns() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[path = "saving_tests.rs"]
mod tests;
