//! Repositories within a workspace: git on the host obeys their configuration and hooks too, those of submodules even
//! when it is asked about the workspace.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, FileType};

use crate::host_path::Directory;

/// What a search may cost: a launch waits for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    most_entries: usize,
    longest: Duration,
    most_found: usize,
}

/// Where it is said that not everything was looked at.
pub(crate) const ORDINARY: Patience =
    Patience { most_entries: 150_000, longest: Duration::from_millis(400), most_found: 64 };
/// Where nothing runs then.
pub(crate) const THOROUGH: Patience =
    Patience { most_entries: 2_000_000, longest: Duration::from_secs(10), most_found: 512 };

/// Full of what others made, and seldom with a repository: looked through last.
const HEAVY: [&str; 6] = ["node_modules", "target", ".venv", "venv", ".tox", "__pycache__"];

/// A repository in a directory, by what is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Nested {
    pub(crate) kind: NestedKind,
    /// Of `.git`, or of the repository where it is bare; relative to the workspace.
    pub(crate) path: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NestedKind {
    /// `.git` is a directory.
    Directory,
    /// `.git` is a file that names one.
    File,
    /// `.git` is a symlink, which nothing can be mounted over.
    Link,
    /// The directory itself looks like a repository to git.
    Bare,
}

#[derive(Debug, Default)]
pub(crate) struct Search {
    /// Those near the root of the workspace first.
    pub(crate) found: Vec<Nested>,
    /// How many entries were looked at when the search was cut; what is beyond was not.
    pub(crate) cut_after: Option<usize>,
}

/// Looks for repositories below a workspace, that of the workspace itself excepted. `skip` is not entered.
pub(crate) fn search(directory: &Directory, skip: &[&Path], patience: Patience) -> Search {
    let Patience { most_entries, longest, most_found } = patience;
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
        // What cannot be read by us is not git's to read either.
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
