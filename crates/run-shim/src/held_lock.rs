//! Kernel locks that say who holds them: one writer per session, one live agent per workspace.
//!
//! The lock is the truth and dies with its holder; the file's content only names the holder, for people.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use run_protocol::{BytesPath, RunId};
use serde::{Deserialize, Serialize};

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
}

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub(crate) struct HeldLock {
    _lock: Flock<File>,
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
        let file = open(path).map_err(failed)?;
        let how = match patience {
            Patience::FailAtOnce => FlockArg::LockExclusiveNonblock,
            Patience::Wait => FlockArg::LockExclusive,
        };
        let mut lock = match Flock::lock(file, how) {
            Ok(lock) => lock,
            Err((mut file, Errno::EWOULDBLOCK)) => {
                return Err(LockError::Held(read_holder(&mut file)));
            }
            Err((_, errno)) => return Err(failed(errno.into())),
        };
        let previous = read_holder(&mut lock);
        let generation = previous.as_ref().map_or(1, |previous| previous.generation + 1);
        write_holder(&mut lock, &Holder { generation, ..holder.clone() }).map_err(failed)?;
        Ok(Self { _lock: lock, previous })
    }

    /// Whether somebody holds the lock at `path`, and who.
    pub(crate) fn holder_of(path: &Path) -> io::Result<Option<Holder>> {
        let file = OpenOptions::new().read(true).custom_flags(nix::libc::O_NOFOLLOW).open(path)?;
        match Flock::lock(file, FlockArg::LockSharedNonblock) {
            Ok(_free) => Ok(None),
            Err((mut file, Errno::EWOULDBLOCK)) => Ok(read_holder(&mut file)),
            Err((_, errno)) => Err(errno.into()),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(nix::libc::O_NOFOLLOW)
        .open(path)
}

fn read_holder(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(4096).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn write_holder(file: &mut File, holder: &Holder) -> io::Result<()> {
    file.rewind()?;
    file.set_len(0)?;
    file.write_all(serde_json::to_string(holder)?.as_bytes())
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

    fn registry(&self) -> Result<Flock<File>, WorkspaceLockError> {
        let file = open(&self.directory.join("registry")).map_err(WorkspaceLockError::Io)?;
        Flock::lock(file, FlockArg::LockExclusive)
            .map_err(|(_, errno)| WorkspaceLockError::Io(errno.into()))
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
fn wait_until_free(lock: &Path) -> io::Result<()> {
    let file = OpenOptions::new().read(true).custom_flags(nix::libc::O_NOFOLLOW).open(lock)?;
    Flock::lock(file, FlockArg::LockShared).map(drop).map_err(|(_, errno)| errno.into())
}

#[cfg(test)]
#[path = "held_lock_tests.rs"]
mod tests;
