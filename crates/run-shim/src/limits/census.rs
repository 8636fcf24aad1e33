//! Measures the size of a few directories, without following links.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};

/// The greatest depth. The census does not count deeper directories, and is incomplete if there are any.
const DEEPEST: usize = 200;
/// The unit of `st_blocks`.
const BLOCK: u64 = 512;

/// The result of a walk.
#[derive(Debug, Default)]
pub(super) struct Census {
    /// The bytes that the files take on disk.
    pub(super) bytes: u64,
    /// The number of files that have exactly the largest size.
    pub(super) full_files: u64,
    /// True if the walk saw everything.
    pub(super) is_complete: bool,
    /// The disks, each with a directory on it.
    pub(super) disks: BTreeMap<u64, OwnedFd>,
}

/// Walks the directories. Returns `None` if `is_stopped` ended the walk.
pub(super) fn census(
    roots: &[PathBuf],
    full_size: u64,
    is_stopped: &dyn Fn() -> bool,
) -> Option<Census> {
    let mut walk = Walk {
        found: Census { is_complete: true, ..Census::default() },
        linked: HashSet::new(),
        full_size,
    };
    for root in roots {
        match open_directory(rustix::fs::CWD, root) {
            Ok(directory) => walk.tree(directory, is_stopped)?,
            // The directory may appear later.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => walk.found.is_complete = false,
        }
    }
    Some(walk.found)
}

/// Returns the directories that are not inside another one in the list.
pub(super) fn outermost(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    paths.dedup();
    let is_inside = |path: &Path, others: &[PathBuf]| {
        others.iter().any(|other| other != path && path.starts_with(other))
    };
    paths.iter().filter(|path| !is_inside(path, &paths)).cloned().collect()
}

struct Walk {
    found: Census,
    /// Files with several names. Each counts once.
    linked: HashSet<(u64, u64)>,
    full_size: u64,
}

impl Walk {
    fn tree(&mut self, root: OwnedFd, is_stopped: &dyn Fn() -> bool) -> Option<()> {
        let mut open = Vec::new();
        self.enter(root, &mut open);
        while let Some(directory) = open.last_mut() {
            let Some(entry) = directory.next() else {
                open.pop();
                if is_stopped() {
                    return None;
                }
                continue;
            };
            let Ok(entry) = entry else {
                self.found.is_complete = false;
                continue;
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let Ok(here) = directory.fd() else { continue };
            // A file that was removed meanwhile takes no space.
            let Ok(stat) = statat(here, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let kind = FileType::from_raw_mode(stat.st_mode);
            self.count(&stat, kind);
            if kind != FileType::Directory {
                continue;
            }
            match open_directory(here, name) {
                Ok(below) if open.len() < DEEPEST => self.enter(below, &mut open),
                Ok(_) => self.found.is_complete = false,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => self.found.is_complete = false,
            }
        }
        Some(())
    }

    #[expect(clippy::useless_conversion, reason = "the fields differ in width between machines")]
    fn count(&mut self, stat: &rustix::fs::Stat, kind: FileType) {
        let (device, inode) = (u64::from(stat.st_dev), u64::from(stat.st_ino));
        let is_file = kind == FileType::RegularFile;
        if is_file && stat.st_nlink > 1 && !self.linked.insert((device, inode)) {
            return;
        }
        let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
        self.found.bytes = self.found.bytes.saturating_add(blocks.saturating_mul(BLOCK));
        if is_file && self.full_size > 0 && u64::try_from(stat.st_size) == Ok(self.full_size) {
            self.found.full_files += 1;
        }
    }

    fn enter(&mut self, directory: OwnedFd, open: &mut Vec<Dir>) {
        if let Ok(stat) = rustix::fs::fstat(&directory)
            && let Ok(copy) = directory.try_clone()
        {
            self.found.disks.entry(stat.st_dev).or_insert(copy);
        }
        match Dir::new(directory) {
            Ok(directory) => open.push(directory),
            Err(_) => self.found.is_complete = false,
        }
    }
}

fn open_directory(at: impl std::os::fd::AsFd, path: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, path, flags, Mode::empty())?)
}

#[cfg(test)]
#[path = "census_tests.rs"]
mod tests;
