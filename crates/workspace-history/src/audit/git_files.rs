//! Finds a run's changes to files that git obeys: hooks, configuration, and the files that say where those are. Relies
//! on times that only the kernel sets.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use run_protocol::{BytesPath, Finding, FindingKind};
use rustix::fs::{AtFlags, FileType, StatxFlags, statx};

use crate::audit::finding;
use crate::file_tree::{FileTree, OpenDirectory};
use crate::snapshot::changes::{Change, ChangeKind};
use crate::tree_path::TreePath;

/// Repositories of submodules may have submodules. Real ones are not nested deeper than this.
const DEEPEST: usize = 6;
const MOST_TEXT: u64 = 8 * 1024;

/// Checks the workspace's repository, even if its git directory is elsewhere.
pub(crate) fn look_at_workspace(tree: &FileTree, since_ns: i64, found: &mut Vec<Finding>) {
    let git = TreePath::from(".git");
    if tree.directory(&git).is_ok() {
        look_at_git(tree, &git, since_ns, found);
        return;
    }
    // In a linked worktree, `.git` is a file that names a directory, and that directory names the repository.
    let Some(own) = named_in(tree, b".git", "gitdir: ") else { return };
    let Ok(own_tree) = FileTree::open(&own) else { return };
    let common = named_in(&own_tree, b"commondir", "");
    for directory in [Some(own), common].into_iter().flatten() {
        let Ok(tree) = FileTree::open(&directory) else { continue };
        let mut outside = Vec::new();
        look_at_git(&tree, &TreePath::default(), since_ns, &mut outside);
        found.extend(outside.into_iter().map(|finding| Finding {
            path: BytesPath::from(directory.join(&finding.path.0).as_path()),
            ..finding
        }));
    }
}

/// Returns the path in one of git's small files.
fn named_in(tree: &FileTree, name: &[u8], start: &str) -> Option<PathBuf> {
    let text = tree.directory(&TreePath::default()).ok()?.small_text(name, MOST_TEXT)?;
    let named = tree.path().join(text.strip_prefix(start)?.trim_end_matches(['\n', '\r']));
    // `commondir` usually contains `../..`.
    std::fs::canonicalize(named).ok()
}

pub(crate) fn look_at_git(
    tree: &FileTree,
    git_dir: &TreePath,
    since_ns: i64,
    found: &mut Vec<Finding>,
) {
    look_at_level(tree, git_dir, since_ns, found, DEEPEST);
}

/// Looks for hooks in a git directory that the run made. A new repository always has a configuration, so that does not
/// count as a finding.
pub(crate) fn look_at_new(
    tree: &FileTree,
    git_dir: &TreePath,
    since_ns: i64,
    found: &mut Vec<Finding>,
) {
    let mut within = Vec::new();
    look_at_git(tree, git_dir, since_ns, &mut within);
    found.extend(within.into_iter().filter(|finding| finding.what == FindingKind::Hook));
}

fn look_at_level(
    tree: &FileTree,
    git_dir: &TreePath,
    since_ns: i64,
    found: &mut Vec<Finding>,
    depth: usize,
) {
    let Ok(directory) = tree.directory(git_dir) else { return };
    let is_new = |directory: &OpenDirectory, name: &[u8]| {
        directory.look(name).is_ok_and(|found| found.stamp.changed_ns >= since_ns)
    };
    for name in [b"config".as_slice(), b"config.worktree", b"commondir"] {
        if is_new(&directory, name) {
            found.push(finding(FindingKind::GitConfig, &git_dir.join(name)));
        }
    }
    let info = git_dir.join(b"info");
    if tree.directory(&info).is_ok_and(|info| is_new(&info, b"attributes")) {
        found.push(finding(FindingKind::GitConfig, &info.join(b"attributes")));
    }
    let hooks = git_dir.join(b"hooks");
    if let Ok(directory) = tree.directory(&hooks) {
        for name in directory.names().unwrap_or_default() {
            if is_new(&directory, &name) && !name.ends_with(b".sample") {
                found.push(finding(FindingKind::Hook, &hooks.join(&name)));
            }
        }
    }
    let within = [git_dir.join(b"modules"), git_dir.join(b"worktrees")];
    for outer in within.iter().filter(|_| depth > 0) {
        look_for_git_dirs(tree, outer, since_ns, found, depth - 1);
    }
}

/// The name of a submodule may contain slashes.
fn look_for_git_dirs(
    tree: &FileTree,
    outer: &TreePath,
    since_ns: i64,
    found: &mut Vec<Finding>,
    depth: usize,
) {
    let Ok(directory) = tree.directory(outer) else { return };
    for name in directory.names().unwrap_or_default() {
        let is_directory =
            directory.look(&name).is_ok_and(|found| found.file_type == FileType::Directory);
        let path = outer.join(&name);
        let has_head = || tree.directory(&path).is_ok_and(|inner| inner.look(b"HEAD").is_ok());
        match is_directory {
            true if has_head() => look_at_level(tree, &path, since_ns, found, depth),
            true if depth > 0 => look_for_git_dirs(tree, &path, since_ns, found, depth - 1),
            _ => {}
        }
    }
}

/// Finds directories that became bare repositories: git uses those without any `.git`.
pub(crate) fn look_for_bare(tree: &FileTree, changes: &[Change<'_>], found: &mut Vec<Finding>) {
    let of_git = [&b"HEAD"[..], b"objects", b"refs"];
    let is_made = |change: &&Change<'_>| {
        matches!(change.kind, ChangeKind::Added | ChangeKind::Kind)
            && of_git.contains(&change.path.name())
    };
    for change in changes.iter().filter(is_made) {
        let at = change.path.parent().unwrap_or_default();
        let Ok(directory) = tree.directory(&at) else { continue };
        if of_git.iter().all(|name| directory.look(name).is_ok()) {
            // The workspace itself has an empty path.
            let shown = if at.as_bytes().is_empty() { &TreePath::from("HEAD") } else { &at };
            found.push(finding(FindingKind::Repository, shown));
        }
    }
}

/// Returns true if the file was created after that time. Commits change the times of a repository's directory, but not
/// its creation time. If the file system keeps no creation time, any change counts.
pub(crate) fn is_born_since(directory: &OpenDirectory, name: &[u8], since_ns: i64) -> bool {
    let flags = StatxFlags::BTIME | StatxFlags::CTIME;
    let name = Path::new(OsStr::from_bytes(name));
    let Ok(found) = statx(directory.fd(), name, AtFlags::SYMLINK_NOFOLLOW, flags) else {
        return false;
    };
    let has_birth = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
    let time = if has_birth { found.stx_btime } else { found.stx_ctime };
    let seconds = time.tv_sec.saturating_mul(1_000_000_000);
    seconds.saturating_add(i64::from(time.tv_nsec)) >= since_ns
}
