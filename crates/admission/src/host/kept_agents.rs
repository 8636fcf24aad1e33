//! Caretaker's own copies of installed agents, so that an update of the agent takes no file away from a run.
//!
//! ```text
//!   agents/<key>/   the files of one installed version: hard links if the file system allows them, else copies
//! ```
//!
//! A mount of the installed directory would not be enough: a file that is removed on the host disappears inside too.
//! The key is a hash of everything that tells two versions apart, so that an update in place gets a new directory. A run
//! needs the directory that its spec names until it has ended.
//!
//! `removal.lock` is shared while a run gets its directory, and exclusive while a directory that no run needs is
//! removed.

use std::collections::BTreeSet;
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use ground::make_private_dir;
use nix::unistd::{AccessFlags, access};
use run_journal::{KernelLock, RunDirectory, RunFilter, StateRoot, Which, list_runs};
use run_protocol::{AgentProgram, BytesPath};
use sha2::{Digest, Sha256};

#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    #[error("the files of the agent in `{}` cannot be kept", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("the agent in `{}` was updated at this moment", .0.display())]
    Changed(PathBuf),
}

/// A run's kept agent. While this exists, nothing removes it.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) directory: Option<PathBuf>,
    /// True if no run had this version before.
    pub(crate) is_new: bool,
    _removal: Option<KernelLock>,
}

/// Keeps the agent's installed directory, if it has one that an update could change.
pub(crate) fn keep(state: &StateRoot, agent: &AgentProgram) -> Result<Kept, KeepError> {
    let failed = |path: &Path, source| KeepError::Io { path: path.to_owned(), source };
    let installed = agent.installed_directory().filter(|path| can_be_updated(path));
    if agent.kept.is_none() && installed.is_none() {
        return Ok(Kept { directory: None, is_new: false, _removal: None });
    }
    let lock = state.removal_lock();
    make_private_dir(state.path()).map_err(|source| failed(state.path(), source))?;
    let removal = KernelLock::share_waiting(&lock).map_err(|source| failed(&lock, source))?;
    let kept = |directory, is_new| Kept { directory, is_new, _removal: Some(removal) };
    // A child has its parent's version, even if the installed one has changed since.
    if let Some(known) = agent.kept.as_ref().filter(|kept| kept.0.is_dir()) {
        return Ok(kept(Some(known.0.clone()), false));
    }
    let Some(installed) = installed else {
        return Ok(kept(None, false));
    };
    let io_failed = |source| failed(installed, source);
    let entries = Entry::all_in(installed).map_err(io_failed)?;
    let key = key(installed, &entries);
    let directory = state.agents().join(&key);
    if directory.is_dir() {
        return Ok(kept(Some(directory), false));
    }
    make_private_dir(state.agents()).map_err(io_failed)?;
    let draft = tempfile::Builder::new().prefix(".new-").tempdir_in(state.agents());
    let draft = draft.map_err(io_failed)?;
    for entry in &entries {
        entry.repeat(installed, draft.path()).map_err(io_failed)?;
    }
    let now = Entry::all_in(installed).map_err(io_failed)?;
    if self::key(installed, &now) != key {
        return Err(KeepError::Changed(installed.to_owned()));
    }
    let draft = draft.keep();
    match fs::rename(&draft, &directory) {
        // Another process has just kept the same version.
        Err(_) if directory.is_dir() => fs::remove_dir_all(&draft).map_err(io_failed)?,
        renamed => renamed.map_err(io_failed)?,
    }
    Ok(kept(Some(directory), true))
}

/// Returns false if only an administrator can change the files. An update by the user then cannot remove them.
fn can_be_updated(installed: &Path) -> bool {
    let is_writable = |path: &Path| access(path, AccessFlags::W_OK).is_ok();
    is_writable(installed) || installed.parent().is_some_and(is_writable)
}

/// The kept agents that no run needs. Empty if that is uncertain.
pub fn unneeded(state: &StateRoot) -> Vec<PathBuf> {
    let entries = fs::read_dir(state.agents()).into_iter().flatten().flatten();
    let directories: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    if directories.is_empty() {
        return directories;
    }
    let Some(needed) = needed(state) else { return Vec::new() };
    directories.into_iter().filter(|path| !needed.contains(path)).collect()
}

fn needed(state: &StateRoot) -> Option<BTreeSet<PathBuf>> {
    let filter = RunFilter { which: Which::Unfinished, ..RunFilter::default() };
    let mut needed = BTreeSet::new();
    for run in list_runs(state, &filter).ok()? {
        let spec = RunDirectory::open(state, run.run).ok()?.spec().ok()?;
        needed.extend(spec.agent.kept.map(|BytesPath(path)| path));
    }
    Some(needed)
}

/// Removes the kept agents that no run needs, and returns them. If a run is being created at this moment, the next call
/// does the work.
pub fn remove_unneeded(state: &StateRoot) -> io::Result<Vec<PathBuf>> {
    if fs::read_dir(state.agents()).is_err() {
        return Ok(Vec::new());
    }
    let Some(_removal) = KernelLock::try_take(&state.removal_lock())? else {
        return Ok(Vec::new());
    };
    let unneeded = unneeded(state);
    for directory in &unneeded {
        fs::remove_dir_all(directory)?;
    }
    Ok(unneeded)
}

/// A file, link or directory of an installed agent.
struct Entry {
    /// Relative to the installed directory.
    path: PathBuf,
    found: Metadata,
}

impl Entry {
    /// Everything in a directory, parents before their contents.
    fn all_in(installed: &Path) -> io::Result<Vec<Self>> {
        let mut entries = Vec::new();
        let mut open = vec![PathBuf::new()];
        while let Some(relative) = open.pop() {
            let listed = fs::read_dir(installed.join(&relative))?;
            let mut listed = listed.collect::<io::Result<Vec<DirEntry>>>()?;
            listed.sort_by_key(DirEntry::file_name);
            for entry in listed {
                let (path, found) = (relative.join(entry.file_name()), entry.metadata()?);
                if found.is_dir() {
                    open.push(path.clone());
                }
                entries.push(Self { path, found });
            }
        }
        Ok(entries)
    }

    /// Makes the same entry in another directory. Leaves out FIFOs, sockets and devices.
    fn repeat(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (from.join(&self.path), to.join(&self.path));
        if self.found.is_dir() {
            fs::create_dir(to)
        } else if self.found.is_symlink() {
            symlink(fs::read_link(from)?, to)
        } else if self.found.is_file() {
            // A copy takes room, but a link needs the same file system, and usually the same owner.
            fs::hard_link(&from, &to).or_else(|_| fs::copy(&from, &to).map(drop))
        } else {
            Ok(())
        }
    }
}

/// Everything that tells two versions apart, without reading the files.
fn key(installed: &Path, entries: &[Entry]) -> String {
    let mut hash = Sha256::new();
    let mut add = |part: &[u8]| {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    };
    add(installed.as_os_str().as_bytes());
    for Entry { path, found } in entries {
        add(path.as_os_str().as_bytes());
        add(&found.mode().to_le_bytes());
        // A directory's size and time say nothing about its files.
        if !found.is_dir() {
            for number in [found.dev(), found.ino(), found.size()] {
                add(&number.to_le_bytes());
            }
            for number in [found.mtime(), found.mtime_nsec()] {
                add(&number.to_le_bytes());
            }
        }
    }
    hex::encode(&hash.finalize()[..16])
}

#[cfg(test)]
#[path = "kept_agents_tests.rs"]
mod tests;
