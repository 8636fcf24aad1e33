//! A run's control group: a directory in the kernel's file system. The shim removes it at the run's end.
//!
//! The shim that made it holds a lock on the directory for as long as the shim lives. If another shim can lock it, its
//! owner is dead, and that shim removes it.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};

/// The name of every Caretaker group begins with this.
const PREFIX: &str = "caretaker-";
/// The most attempts to remove a group. Dead processes may take a moment to leave it.
const REMOVALS: u32 = 400;
const BETWEEN_REMOVALS: Duration = Duration::from_millis(5);

/// A group. Dropping it kills the processes in it, if the kernel supports that, and removes it.
#[derive(Debug)]
pub(in crate::limits) struct CgroupDirectory {
    path: PathBuf,
    /// Only holds the lock.
    _lock: std::os::fd::OwnedFd,
}

impl CgroupDirectory {
    /// Makes a group below `parent`.
    pub(in crate::limits) fn create(parent: &Path, id: &str) -> io::Result<Self> {
        let path = parent.join(format!("{PREFIX}{id}"));
        // Another shim may remove it between the two calls, which are microseconds apart.
        for _ in 0..3 {
            match std::fs::create_dir(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            if let Ok(lock) = lock(&path)
                && path.exists()
            {
                return Ok(Self { path, _lock: lock });
            }
        }
        Err(io::Error::other(format!("`{}` is held by another process", path.display())))
    }

    pub(in crate::limits) fn path(&self) -> &Path {
        &self.path
    }

    pub(in crate::limits) fn set(&self, file: &str, value: &str) -> io::Result<()> {
        set(&self.path.join(file), value)
    }

    pub(in crate::limits) fn read(&self, file: &str) -> io::Result<String> {
        std::fs::read_to_string(self.path.join(file))
    }

    /// Moves processes into the group. Skips those that are already in it, and those that are gone.
    pub(in crate::limits) fn add(&self, pids: &[u32]) -> io::Result<()> {
        let within = self.read("cgroup.procs")?;
        let within: HashSet<&str> = within.lines().collect();
        for pid in pids.iter().map(u32::to_string).filter(|pid| !within.contains(pid.as_str())) {
            match self.set("cgroup.procs", &pid) {
                Err(error) if error.raw_os_error() != Some(nix::libc::ESRCH) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Drop for CgroupDirectory {
    fn drop(&mut self) {
        for attempt in 0..REMOVALS {
            match std::fs::remove_dir(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    // The kernel killed all processes when the namespace ended. This kills any that remain.
                    if attempt == 1 {
                        self.set("cgroup.kill", "1").ok();
                    }
                    std::thread::sleep(BETWEEN_REMOVALS);
                }
                _ => return,
            }
        }
        tracing::warn!(path = %self.path.display(), "could not remove a control group; the next run will");
    }
}

/// Removes the groups below `parent` whose shims are dead, and returns their number.
pub(in crate::limits) fn sweep(parent: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(parent) else { return 0 };
    let of_the_dead = |entry: std::fs::DirEntry| {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        // Keep the lock until the directory is gone.
        is_ours && lock(&entry.path()).is_ok_and(|_lock| std::fs::remove_dir(entry.path()).is_ok())
    };
    entries.flatten().map(of_the_dead).filter(|removed| *removed).count()
}

fn lock(path: &Path) -> io::Result<std::os::fd::OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = open(path, flags, Mode::empty())?;
    flock(&directory, FlockOperation::NonBlockingLockExclusive)?;
    Ok(directory)
}

/// Writes to an existing kernel file, in one call.
pub(in crate::limits) fn set(path: &Path, value: &str) -> io::Result<()> {
    File::options().write(true).open(path)?.write_all(value.as_bytes())
}

#[cfg(test)]
#[path = "cgroup_directory_tests.rs"]
mod tests;
