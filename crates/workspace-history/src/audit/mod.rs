//! Compares a workspace before and after a run, and lists everything that a careful user wants to know.

pub(crate) mod git_files;
pub(crate) mod known_names;

use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::Instant;

use run_protocol::{Audit, BytesPath, ChangeCounts, Finding, FindingKind};
use rustix::fs::FileType;

use crate::audit::known_names::known_name;
use crate::file_tree::{FileTree, OpenDirectory};
use crate::snapshot::changes::{Change, ChangeKind, compare, count};
use crate::snapshot::{Entry, EntryKind, Snapshot};
use crate::tree_path::TreePath;
use crate::walk::coverage::is_git;
use git_files::is_born_since;

const OF_PACKAGES: [&[u8]; 5] = [b"node_modules", b"site-packages", b".venv", b"venv", b"target"];

/// The audit lists this many findings and only counts the rest.
const MOST_FINDINGS: usize = 60;
/// The agent chooses these names, and an event must stay short.
const MOST_BYTES: usize = 16 * 1024;
/// A long list of scripts must not hide the other findings.
const MOST_OF_A_KIND: usize = 20;

/// All findings, before [`Self::audit`] cuts them to the size of an event.
#[derive(Debug, Default)]
pub struct Looked {
    changes: Option<ChangeCounts>,
    pub(crate) found: Vec<Finding>,
    /// Every `.git` in the workspace, including those in ignored directories.
    pub(crate) gits: Vec<TreePath>,
    pub(crate) incomplete: Option<String>,
}

impl Looked {
    /// Records why the audit is incomplete, unless an earlier step already did.
    #[must_use]
    pub fn or_incomplete(mut self, why: String) -> Self {
        self.incomplete.get_or_insert(why);
        self
    }

    pub fn audit(self) -> Audit {
        Audit { changes: self.changes, ..shorten(self.found, self.incomplete) }
    }
}

/// Compares two snapshots, and searches the ignored directories for findings that are never harmless.
pub fn look_over(
    workspace: &Path,
    before: &Snapshot,
    after: &Snapshot,
    passed_over: &[TreePath],
    deadline: Instant,
) -> Looked {
    let mut found = Vec::new();
    let changes = compare(before, after);
    for change in &changes {
        look_at(workspace, change, &mut found);
    }
    let made = repositories_made(before, after);
    found.extend(made.iter().map(|path| finding(FindingKind::Repository, path)));
    let mut incomplete = None;
    let gits = after.left_out.iter().filter(|path| is_git(path.name()));
    let mut gits: Vec<TreePath> = gits.cloned().collect();
    match FileTree::open(workspace) {
        Ok(tree) => {
            let since_ns = before.began_ns;
            git_files::look_at_workspace(&tree, since_ns, &mut found);
            for path in &gits {
                match made.contains(path) {
                    true => git_files::look_at_new(&tree, path, since_ns, &mut found),
                    false => git_files::look_at_git(&tree, path, since_ns, &mut found),
                }
            }
            git_files::look_for_bare(&tree, &changes, &mut found);
            let mut look = PassedOver { tree: &tree, since_ns, deadline, gits: &mut gits };
            for path in passed_over {
                if let Err(problem) = look.look_through(path, &mut found) {
                    incomplete = Some(format!("`{path}`: {problem}"));
                    break;
                }
            }
        }
        Err(error) => incomplete = Some(error.to_string()),
    }
    Looked { changes: Some(count(&changes)), found, gits, incomplete }
}

/// Returns the repositories that only the later snapshot has, each as its `.git` path. Ignored directories do not
/// count.
pub fn repositories_made(before: &Snapshot, after: &Snapshot) -> Vec<TreePath> {
    let is_new = |path: &&TreePath| is_git(path.name()) && !before.left_out.contains(path);
    let own = (after.has_git && !before.has_git).then(|| TreePath::from(".git"));
    after.left_out.iter().filter(is_new).cloned().chain(own).collect()
}

fn shorten(mut found: Vec<Finding>, incomplete: Option<String>) -> Audit {
    found.sort_by(|one, other| (one.what, &one.path).cmp(&(other.what, &other.path)));
    found.dedup();
    let mut audited = Audit { incomplete, ..Audit::default() };
    let mut bytes = 0;
    for finding in found {
        let of_this_kind =
            audited.findings.iter().filter(|listed| listed.what == finding.what).count();
        let length = |path: &BytesPath| path.0.as_os_str().len();
        bytes += length(&finding.path) + finding.target.as_ref().map_or(0, length);
        if of_this_kind < MOST_OF_A_KIND
            && audited.findings.len() < MOST_FINDINGS
            && bytes < MOST_BYTES
        {
            audited.findings.push(finding);
        } else {
            audited.more += 1;
        }
    }
    audited
}

pub(crate) fn finding(what: FindingKind, path: &TreePath) -> Finding {
    Finding { what, path: BytesPath::from(path.as_path()), target: None, was: None }
}

fn look_at(workspace: &Path, change: &Change<'_>, found: &mut Vec<Finding>) {
    let Some(to) = change.to else { return };
    let mode_before = change.from.filter(|from| is_file(from)).map_or(0, |from| from.mode);
    let is_new_kind = matches!(change.kind, ChangeKind::Added | ChangeKind::Kind);
    match &to.kind {
        EntryKind::File { .. } => {
            if to.mode & 0o6000 & !mode_before != 0 {
                found.push(finding(FindingKind::SetId, change.path));
            }
            if to.mode & 0o111 != 0 && mode_before & 0o111 == 0 {
                found.push(finding(FindingKind::Executable, change.path));
            }
        }
        EntryKind::Symlink { target } => {
            if leaves(workspace, change.path, target) {
                let target = Some(BytesPath::from(target.as_path()));
                found.push(Finding { target, ..finding(FindingKind::LinkOut, change.path) });
            }
        }
        EntryKind::Fifo if is_new_kind => found.push(finding(FindingKind::Fifo, change.path)),
        EntryKind::Socket if is_new_kind => found.push(finding(FindingKind::Socket, change.path)),
        EntryKind::Device if is_new_kind => found.push(finding(FindingKind::Device, change.path)),
        EntryKind::Directory | EntryKind::Fifo | EntryKind::Socket | EntryKind::Device => {}
    }
    if !to.is_directory()
        && let Some(what) = known_name(change.path)
    {
        found.push(finding(what, change.path));
    }
}

fn is_file(entry: &Entry) -> bool {
    matches!(entry.kind, EntryKind::File { .. })
}

/// Returns true if a link leads out of the workspace. Only reads the link's text, and follows nothing.
fn leaves(workspace: &Path, link: &TreePath, target: &Path) -> bool {
    let from = link.parent().unwrap_or_default();
    let mut at: PathBuf = workspace.join(from.as_path());
    for component in target.components() {
        match component {
            Component::RootDir => at = PathBuf::from("/"),
            Component::ParentDir => {
                at.pop();
                // A link that leaves the workspace and comes back by name depends on what surrounds the workspace.
                if !at.starts_with(workspace) && target.is_relative() {
                    return true;
                }
            }
            Component::Normal(name) => at.push(name),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    !at.starts_with(workspace)
}

/// Searches ignored directories for new files that are never harmless, for files that other programs obey, and for
/// repositories.
struct PassedOver<'a> {
    tree: &'a FileTree,
    since_ns: i64,
    deadline: Instant,
    /// Every `.git` that the search finds.
    gits: &'a mut Vec<TreePath>,
}

impl PassedOver<'_> {
    /// Checks a path and everything below it.
    fn look_through(&mut self, path: &TreePath, found: &mut Vec<Finding>) -> io::Result<()> {
        let parent = path.parent().unwrap_or_default();
        if let Ok(directory) = self.tree.directory(&parent)
            && self.look_at(&directory, path, found) != Some(FileType::Directory)
        {
            return Ok(());
        }
        let mut pending = vec![path.clone()];
        while let Some(at) = pending.pop() {
            if Instant::now() > self.deadline {
                return Err(io::Error::other("there was no time to look at all of it"));
            }
            // If this process cannot enter it, the user's other programs cannot either.
            let Ok(directory) = self.tree.directory(&at) else { continue };
            let names = directory.names()?;
            let of_git = [&b"HEAD"[..], b"objects", b"refs"];
            let is_bare = of_git.iter().all(|of_git| names.iter().any(|name| name == of_git));
            if is_bare && of_git.iter().any(|name| is_born_since(&directory, name, self.since_ns)) {
                found.push(finding(FindingKind::Repository, &at));
            }
            for name in names {
                let path = at.join(&name);
                if self.look_at(&directory, &path, found) == Some(FileType::Directory) {
                    pending.push(path);
                }
            }
        }
        Ok(())
    }

    /// Checks one name. Returns its type if the caller has to look further.
    fn look_at(
        &mut self,
        directory: &OpenDirectory,
        path: &TreePath,
        found: &mut Vec<Finding>,
    ) -> Option<FileType> {
        let name = path.name();
        let seen = directory.look(name).ok()?;
        if is_git(name) {
            self.gits.push(path.clone());
            if is_born_since(directory, name, self.since_ns) {
                found.push(finding(FindingKind::Repository, path));
                git_files::look_at_new(self.tree, path, self.since_ns, found);
            } else {
                git_files::look_at_git(self.tree, path, self.since_ns, found);
            }
            return None;
        }
        if seen.file_type == FileType::Directory {
            return Some(FileType::Directory);
        }
        if seen.stamp.changed_ns < self.since_ns {
            return None;
        }
        match seen.file_type {
            FileType::RegularFile if seen.mode & 0o6000 != 0 => {
                found.push(finding(FindingKind::SetId, path));
            }
            FileType::RegularFile => {}
            FileType::Symlink => {
                let target = directory.read_link(name).ok()?;
                if leaves(self.tree.path(), path, &target) {
                    let target = Some(BytesPath::from(target.as_path()));
                    found.push(Finding { target, ..finding(FindingKind::LinkOut, path) });
                }
            }
            FileType::Fifo => found.push(finding(FindingKind::Fifo, path)),
            FileType::Socket => found.push(finding(FindingKind::Socket, path)),
            _ => found.push(finding(FindingKind::Device, path)),
        }
        // Packages contain such names, and no program obeys them there.
        if !path.names().any(|name| OF_PACKAGES.contains(&name))
            && let Some(what) = known_name(path)
        {
            found.push(finding(what, path));
        }
        None
    }
}

#[cfg(test)]
#[path = "audit_tests.rs"]
mod tests;
