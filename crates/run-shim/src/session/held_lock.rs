//! Kernel locks that say who holds them: one writer per session, one live agent per workspace.
//!
//! The lock is the truth and dies with its holder; the file's content only names the holder, for people.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use run_journal::{KernelLock, LockSight};
use run_protocol::{BytesPath, RunId};
use serde::{Deserialize, Serialize};

/// Runs after which nobody has cleaned up, that are remembered in a lock.
const MOST_UNCLEANED: usize = 32;

/// Who holds a lock, or held it last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) run: RunId,
    pub(crate) pid: u32,
    pub(crate) since_ms: u64,
    /// How often the lock has been taken: a stale holder can be told from the present one.
    #[serde(default)]
    pub(crate) generation: u64,
    /// The workspace, for locks on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<BytesPath>,
    /// Runs that held it before, and after which nobody has cleaned up yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) uncleaned: Vec<RunId>,
}

impl Holder {
    /// Those who may have left something, oldest first: this one, and those before it.
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
    /// What our note says: who we are, and how often the lock has been taken, this time included.
    note: Holder,
    /// Who held it before, and may have left something behind.
    pub(crate) previous: Option<Holder>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    #[error("it is held by another run")]
    Held(Option<Holder>),
    #[error("the lock `{}` cannot be used", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Whether to wait for a lock that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    FailAtOnce,
    Wait,
}

impl HeldLock {
    /// Takes the lock. With [`Patience::Wait`] this blocks its thread until the holder lets go.
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

    /// Lets go of it as if it had never been taken: who held it before is still the one who may have left something.
    pub(crate) fn give_back(self) -> io::Result<()> {
        match &self.previous {
            Some(previous) => self.lock.set_note(previous),
            None => self.lock.set_note(&()),
        }
    }

    /// The same, but for those before the last holder.
    fn give_back_to(mut self, uncleaned: Vec<RunId>) -> io::Result<()> {
        self.previous.iter_mut().for_each(|previous| previous.uncleaned.clone_from(&uncleaned));
        self.give_back()
    }

    /// Those who held it before and may have left something.
    pub(crate) fn uncleaned(&self) -> &[RunId] {
        &self.note.uncleaned
    }

    /// Nothing is left of those who held it before.
    pub(crate) fn note_clean(&mut self) -> io::Result<()> {
        self.note.uncleaned.clear();
        self.lock.set_note(&self.note)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How often the lock has been taken, by us the last time.
    pub(crate) fn generation(&self) -> u64 {
        self.note.generation
    }

    /// Whether the lock is still worth something. It is not once its file was deleted or replaced, for then others lock
    /// another; nor where a file system has given it to another, or another has had it since. What cannot be told counts
    /// as lost.
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
            // The lock is ours, so somebody wrote into its file who has no lock, such as a backup that was restored. The
            // generation must not fall back.
            _ => self.lock.set_note(&self.note).map(|()| true),
        }
    }

    /// Whether somebody holds the lock at `path`, and who.
    pub(crate) fn holder_of(path: &Path) -> io::Result<Option<Holder>> {
        Ok(match KernelLock::look(path)? {
            Some(LockSight::Held(holder)) => holder,
            Some(LockSight::Free(_)) | None => None,
        })
    }
}

/// Those after whom the next holder has to clean up: in a workspace alone something is left.
fn uncleaned(previous: &Option<Holder>, next: &Holder) -> Vec<RunId> {
    let previous = previous.iter().filter(|_| next.path.is_some());
    let mut runs: Vec<RunId> = previous.flat_map(Holder::may_have_left).collect();
    // The note has room for no more. Those that are left out died in a row, before they could do anything.
    runs.drain(..runs.len().saturating_sub(MOST_UNCLEANED));
    runs
}

/// The locks on workspaces: a directory with a file for each that was ever used.
#[derive(Debug)]
pub(crate) struct WorkspaceLocks<'a> {
    pub(crate) directory: &'a Path,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkspaceLockError {
    #[error("the workspace is in use")]
    Held(Option<Holder>),
    /// A sandbox on the outer of two nested workspaces could replace the mounts of the inner.
    #[error("`{}`, which lies inside or around this workspace, is in use", path.display())]
    Nested { path: PathBuf, holder: Holder },
    #[error("the workspace's lock cannot be used")]
    Io(#[source] io::Error),
}

impl WorkspaceLocks<'_> {
    /// Takes the lock of one workspace, and makes sure that no live one lies inside or around it.
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
            // Taken for a moment only, so that two nested workspaces cannot both be found free.
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

    /// The locks that nobody holds, and whose last holders have left something.
    pub(crate) fn of_the_dead(&self, has_left: impl Fn(RunId) -> bool) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.directory)? {
            let lock = entry?.path();
            if lock.extension().is_none_or(|extension| extension != "lock") {
                continue;
            }
            // The last look is the dearest.
            let left = KernelLock::note::<Holder>(&lock).ok().flatten();
            let left = left.is_some_and(|last| last.may_have_left().any(&has_left));
            if left && !KernelLock::is_held(&lock).unwrap_or(true) {
                found.push(lock);
            }
        }
        Ok(found)
    }

    /// Holds a lock for as long as it takes to clean up after those who had it, and says how many they were. The registry
    /// is held meanwhile: a run that begins just then waits for us instead of being refused. `None`: somebody has it, or
    /// something of the dead lives.
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

/// A live workspace inside or around another.
struct Relative {
    lock: PathBuf,
    path: PathBuf,
    holder: Holder,
}

/// Blocks until nobody holds the lock.
pub(crate) fn wait_until_free(lock: &Path) -> io::Result<()> {
    KernelLock::take_waiting(lock).map(drop)
}

#[cfg(test)]
#[path = "held_lock_tests.rs"]
mod tests;
