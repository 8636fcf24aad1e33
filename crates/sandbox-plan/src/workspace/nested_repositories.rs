//! Searches a workspace for repositories inside it.
//!
//! Git on the host obeys their configuration and hooks too. It reads those of submodules even for a command in the
//! workspace.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, FileType};

use crate::host_path::Directory;

/// The limits of a search. A launch waits for the search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    most_entries: usize,
    longest: Duration,
    most_found: usize,
}

/// The limits for profiles that warn if the search is incomplete.
pub(crate) const ORDINARY: Effort =
    Effort { most_entries: 150_000, longest: Duration::from_millis(400), most_found: 64 };
/// The limits for profiles that refuse to run if the search is incomplete.
pub(crate) const THOROUGH: Effort =
    Effort { most_entries: 2_000_000, longest: Duration::from_secs(10), most_found: 512 };

/// Large directories that seldom have a repository. The search visits them last.
const HEAVY: [&str; 6] = ["node_modules", "target", ".venv", "venv", ".tox", "__pycache__"];

/// A repository inside the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Nested {
    pub(crate) kind: NestedKind,
    /// The path of `.git`, or of a bare repository, relative to the workspace.
    pub(crate) path: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NestedKind {
    /// `.git` is a directory.
    Directory,
    /// `.git` is a file that names a directory.
    File,
    /// `.git` is a symlink. Bubblewrap cannot mount over a symlink.
    Link,
    /// The directory itself looks like a repository to git.
    Bare,
}

#[derive(Debug, Default)]
pub(crate) struct Search {
    /// The repositories, nearest to the root of the workspace first.
    pub(crate) found: Vec<Nested>,
    /// The number of entries after which the search stopped early.
    pub(crate) cut_after: Option<usize>,
}

/// Searches below a directory. Ignores the directory's own repository, and does not enter the paths in `skip`.
pub(crate) fn search(directory: &Directory, skip: &[&Path], effort: Effort) -> Search {
    let Effort { most_entries, longest, most_found } = effort;
    let until = Instant::now() + longest;
    let mut search = Search::default();
    let mut n_entries = 0;
    let mut pending = VecDeque::from([PathBuf::new()]);
    let mut heavy = VecDeque::new();
    while let Some(at) = pending.pop_front().or_else(|| heavy.pop_front()) {
        let is_over = n_entries > most_entries || search.found.len() >= most_found;
        if is_over || Instant::now() >= until {
            search.cut_after = Some(n_entries);
            break;
        }
        // Skip an unreadable directory: the user's git cannot read it either.
        let Some(entries) = entries(directory, &at) else { continue };
        n_entries += entries.len();
        let is_root = at.as_os_str().is_empty();
        let has = |name: &str| entries.iter().any(|entry| entry.name == Path::new(name));
        if !is_root && has("HEAD") && has("objects") && has("refs") {
            search.found.push(Nested { kind: NestedKind::Bare, path: at });
            continue;
        }
        for Entry { name, kind } in entries {
            let path = at.join(&name);
            if skip.contains(&path.as_path()) {
                continue;
            }
            let is_git = name.as_os_str().eq_ignore_ascii_case(".git");
            let kind = match kind {
                FileType::Directory if is_git && !is_root => NestedKind::Directory,
                FileType::RegularFile if is_git && !is_root => NestedKind::File,
                FileType::Symlink if is_git && !is_root => NestedKind::Link,
                FileType::Directory if !is_git => {
                    let is_heavy = HEAVY.iter().any(|heavy| name == Path::new(heavy));
                    if is_heavy {
                        heavy.push_back(path)
                    } else {
                        pending.push_back(path)
                    }
                    continue;
                }
                _ => continue,
            };
            search.found.push(Nested { kind, path });
        }
    }
    search
}

struct Entry {
    name: PathBuf,
    kind: FileType,
}

fn entries(root: &Directory, at: &Path) -> Option<Vec<Entry>> {
    use std::os::unix::ffi::OsStrExt;
    let opened = root.open_to_list(at).ok()?;
    let mut entries = Vec::new();
    for entry in Dir::read_from(&opened).ok()? {
        let Ok(entry) = entry else { break };
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let stat = rustix::fs::statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW).ok();
                stat.map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
            }
            known => known,
        };
        let name = PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes()));
        entries.push(Entry { name, kind });
    }
    Some(entries)
}

#[cfg(test)]
#[path = "nested_repositories_tests.rs"]
mod tests;
