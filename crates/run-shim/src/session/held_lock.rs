//! Kernel locks that name their holder: one writer per session, one live agent per workspace.
//!
//! The kernel's lock decides, and the kernel releases it when its holder dies. The file's content only names the
//! holder, for people.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use run_journal::{KernelLock, LockSight};
use run_protocol::{BytesPath, RunId};
use serde::{Deserialize, Serialize};

/// The most runs in a lock's note that still need a clean-up.
const MOST_UNCLEANED: usize = 32;

/// The current or last holder of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) run: RunId,
    pub(crate) pid: u32,
    pub(crate) since_ms: u64,
    /// How often the lock has been taken. It distinguishes a stale holder from the current one.
    #[serde(default)]
    pub(crate) generation: u64,
    /// The workspace, for a workspace's lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<BytesPath>,
    /// Earlier holders that still need a clean-up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) uncleaned: Vec<RunId>,
}

impl Holder {
    /// The holders that may need a clean-up, oldest first: the earlier holders, then this one.
    pub(crate) fn may_have_left(&self) -> impl Iterator<Item = RunId> {
        let before = self.uncleaned.iter().copied().filter(|run| *run != self.run);
        before.chain([self.run])
    }
}

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub(crate) struct HeldLock {
    lock: KernelLock,
    path: PathBuf,
    /// The note in the file: the holder, and how often the lock has been taken, including this time.
    note: Holder,
    /// The earlier holders that may need a clean-up.
    pub(crate) previous: Option<Holder>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    #[error("another run holds it")]
    Held(Option<Holder>),
    #[error("the lock `{}` cannot be used", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Whether to wait for a held lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    FailAtOnce,
    Wait,
}

impl HeldLock {
    /// Takes the lock. With [`Patience::Wait`], blocks its thread until the holder releases it.
    pub(crate) fn acquire(
        path: &Path,
        holder: &Holder,
        patience: Patience,
    ) -> Result<Self, LockError> {
        let failed = |source| LockError::Io { path: path.to_owned(), source };
        let lock = match patience {
            Patience::FailAtOnce => KernelLock::try_take(path).map_err(failed)?,
            Patience::Wait => Some(KernelLock::take_waiting(path).map_err(failed)?),
        };
        let previous: Option<Holder> = KernelLock::note(path).map_err(failed)?;
        let Some(lock) = lock else { return Err(LockError::Held(previous)) };
        let generation = previous.as_ref().map_or(1, |previous| previous.generation + 1);
        let note = Holder { generation, uncleaned: uncleaned(&previous, holder), ..holder.clone() };
        lock.set_note(&note).map_err(failed)?;
        Ok(Self { lock, path: path.to_owned(), note, previous })
    }

    /// Releases the lock as if this run had never taken it. The note names the earlier holders again.
    pub(crate) fn give_back(self) -> io::Result<()> {
        match &self.previous {
            Some(previous) => self.lock.set_note(previous),
            None => self.lock.set_note(&()),
        }
    }

    /// Like [`Self::give_back`], but with a different list of runs that need a clean-up.
    fn give_back_to(mut self, uncleaned: Vec<RunId>) -> io::Result<()> {
        self.previous.iter_mut().for_each(|previous| previous.uncleaned.clone_from(&uncleaned));
        self.give_back()
    }

    /// The earlier holders that may need a clean-up.
    pub(crate) fn uncleaned(&self) -> &[RunId] {
        &self.note.uncleaned
    }

    /// Records that the clean-up after earlier holders is done.
    pub(crate) fn note_clean(&mut self) -> io::Result<()> {
        self.note.uncleaned.clear();
        self.lock.set_note(&self.note)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How many times runs have taken the lock, including this time.
    pub(crate) fn generation(&self) -> u64 {
        self.note.generation
    }

    /// Returns whether the lock still protects anything. It does not if its file was deleted or replaced, because other
    /// runs then lock another file. Nor does it if another run has taken it since. If in doubt, the lock counts as
    /// lost.
    pub(crate) fn is_current(&self) -> bool {
        self.check_current().unwrap_or(false)
    }

    fn check_current(&self) -> io::Result<bool> {
        if !self.lock.is_at(&self.path)? || !self.lock.is_still_held()? {
            return Ok(false);
        }
        match self.lock.own_note::<Holder>()? {
            Some(note) if note == self.note => Ok(true),
            Some(note) if note.generation >= self.note.generation => Ok(false),
            // This run has the lock, so a process without the lock wrote into its file, for example from a backup. The
            // generation must not go back.
            _ => self.lock.set_note(&self.note).map(|()| true),
        }
    }

    /// Returns the holder of the lock at `path`, if it is held.
    pub(crate) fn holder_of(path: &Path) -> io::Result<Option<Holder>> {
        Ok(match KernelLock::look(path)? {
            Some(LockSight::Held(holder)) => holder,
            Some(LockSight::Free(_)) | None => None,
        })
    }
}

/// Returns the holders after which the next holder must clean up. Only runs in a workspace need that.
fn uncleaned(previous: &Option<Holder>, next: &Holder) -> Vec<RunId> {
    let previous = previous.iter().filter(|_| next.path.is_some());
    let mut runs: Vec<RunId> = previous.flat_map(Holder::may_have_left).collect();
    // The note has room for a limited number of runs. So many can only pile up if each died before it could do
    // anything, so drop the oldest.
    runs.drain(..runs.len().saturating_sub(MOST_UNCLEANED));
    runs
}

/// The locks of workspaces: a directory with a file for each workspace.
#[derive(Debug)]
pub(crate) struct WorkspaceLocks<'a> {
    pub(crate) directory: &'a Path,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkspaceLockError {
    #[error("the workspace is in use")]
    Held(Option<Holder>),
    /// If two workspaces are nested, a sandbox on the outer one could replace the mounts of the inner one.
    #[error("`{}`, which is inside or around this workspace, is in use", path.display())]
    Nested { path: PathBuf, holder: Holder },
    #[error("the workspace's lock cannot be used")]
    Io(#[source] io::Error),
}

impl WorkspaceLocks<'_> {
    /// Takes the lock of one workspace, if no workspace in use is inside or around it.
    pub(crate) fn acquire(
        &self,
        workspace: &Path,
        holder: &Holder,
        patience: Patience,
    ) -> Result<HeldLock, WorkspaceLockError> {
        let metadata = fs::metadata(workspace).map_err(WorkspaceLockError::Io)?;
        let own = self.directory.join(format!("{}-{}.lock", metadata.dev(), metadata.ino()));
        let holder = Holder { path: Some(BytesPath::from(workspace)), ..holder.clone() };
        loop {
            // A short lock, so that two runs cannot find two nested workspaces free at the same time.
            let registry = self.registry()?;
            if let Some(Relative { lock, path, holder: nested }) =
                self.live_relative(workspace, &own)?
            {
                match patience {
                    Patience::FailAtOnce => {
                        return Err(WorkspaceLockError::Nested { path, holder: nested });
                    }
                    Patience::Wait => {
                        drop(registry);
                        wait_until_free(&lock).map_err(WorkspaceLockError::Io)?;
                        continue;
                    }
                }
            }
            match HeldLock::acquire(&own, &holder, Patience::FailAtOnce) {
                Ok(lock) => return Ok(lock),
                Err(LockError::Io { source, .. }) => return Err(WorkspaceLockError::Io(source)),
                Err(LockError::Held(by)) if patience == Patience::FailAtOnce => {
                    return Err(WorkspaceLockError::Held(by));
                }
                Err(LockError::Held(_)) => {
                    drop(registry);
                    wait_until_free(&own).map_err(WorkspaceLockError::Io)?;
                }
            }
        }
    }

    /// The free locks whose last holders need a clean-up.
    pub(crate) fn of_the_dead(&self, has_left: impl Fn(RunId) -> bool) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.directory)? {
            let lock = entry?.path();
            if lock.extension().is_none_or(|extension| extension != "lock") {
                continue;
            }
            // The most expensive check is last.
            let left = KernelLock::note::<Holder>(&lock).ok().flatten();
            let left = left.is_some_and(|last| last.may_have_left().any(&has_left));
            if left && !KernelLock::is_held(&lock).unwrap_or(true) {
                found.push(lock);
            }
        }
        Ok(found)
    }

    /// Takes a lock for the clean-up after its earlier holders, and returns their number. Holds the registry meanwhile,
    /// so that a starting run waits instead of being refused. `None` if another run has the lock, or a process of a
    /// dead run is still alive.
    pub(crate) fn clean<E>(
        &self,
        lock: &Path,
        clean_up: impl FnOnce(&mut HeldLock) -> Result<(), E>,
    ) -> Option<usize> {
        let _registry = self.registry().ok()?;
        let last: Holder = KernelLock::note(lock).ok().flatten()?;
        let mut lock = HeldLock::acquire(lock, &last, Patience::FailAtOnce).ok()?;
        let n_dead = lock.uncleaned().len();
        let cleaned = clean_up(&mut lock).ok().map(|()| n_dead);
        lock.give_back_to(if cleaned.is_some() { Vec::new() } else { last.uncleaned }).ok();
        cleaned
    }

    fn registry(&self) -> Result<KernelLock, WorkspaceLockError> {
        KernelLock::take_waiting(&self.directory.join("registry")).map_err(WorkspaceLockError::Io)
    }

    fn live_relative(
        &self,
        workspace: &Path,
        own: &Path,
    ) -> Result<Option<Relative>, WorkspaceLockError> {
        for entry in fs::read_dir(self.directory).map_err(WorkspaceLockError::Io)? {
            let lock = entry.map_err(WorkspaceLockError::Io)?.path();
            if lock == own || lock.extension().is_none_or(|extension| extension != "lock") {
                continue;
            }
            let Ok(Some(holder)) = HeldLock::holder_of(&lock) else { continue };
            let Some(path) = holder.path.clone() else { continue };
            if path.0.starts_with(workspace) || workspace.starts_with(&path.0) {
                return Ok(Some(Relative { lock, path: path.0, holder }));
            }
        }
        Ok(None)
    }
}

/// A workspace in use inside or around another.
struct Relative {
    lock: PathBuf,
    path: PathBuf,
    holder: Holder,
}

/// Blocks until the lock is free.
pub(crate) fn wait_until_free(lock: &Path) -> io::Result<()> {
    KernelLock::take_waiting(lock).map(drop)
}

#[cfg(test)]
#[path = "held_lock_tests.rs"]
mod tests;
