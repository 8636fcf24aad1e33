//! A control group of one run: a directory that the kernel fills, and that goes with the run.
//!
//! Whoever made it holds a lock on the directory for as long as it lives, so that nobody needs to ask whose it was:
//! a directory of ours that can be locked belongs to a supervisor that is dead, and is swept away by the next one.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};

/// Begins the name of every group of ours.
const PREFIX: &str = "caretaker-";
/// Processes that are dead already may take a moment to leave their group.
const REMOVALS: u32 = 400;
const BETWEEN_REMOVALS: Duration = Duration::from_millis(5);

/// A group of our own. Dropping it removes it, and before that whatever is still in it where the kernel can do that.
#[derive(Debug)]
pub(in crate::limits) struct CgroupDirectory {
    path: PathBuf,
    /// Held, never read.
    _lock: std::os::fd::OwnedFd,
}

impl CgroupDirectory {
    /// Makes a group below `parent`.
    pub(in crate::limits) fn create(parent: &Path, id: &str) -> io::Result<Self> {
        let path = parent.join(format!("{PREFIX}{id}"));
        // Somebody who sweeps may take it away between the two calls, which are microseconds apart.
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
        Err(io::Error::other(format!("`{}` is held by somebody else", path.display())))
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

    /// Moves processes in. Those that are in already cost nothing, and those that are gone need no limits.
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
                    // The namespace took everything along already. Should anything be left all the same, this ends it.
                    if attempt == 1 {
                        self.set("cgroup.kill", "1").ok();
                    }
                    std::thread::sleep(BETWEEN_REMOVALS);
                }
                _ => return,
            }
        }
        tracing::warn!(path = %self.path.display(), "a control group stays behind, for the next run to remove");
    }
}

/// Removes the groups below `parent` whose supervisors are dead, and says how many there were.
pub(in crate::limits) fn sweep(parent: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(parent) else { return 0 };
    let of_the_dead = |entry: std::fs::DirEntry| {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        // The lock is kept until the directory is gone.
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

/// Writes to a file of the kernel's: whole, in one call, and never a new one.
pub(in crate::limits) fn set(path: &Path, value: &str) -> io::Result<()> {
    File::options().write(true).open(path)?.write_all(value.as_bytes())
}

#[cfg(test)]
#[path = "cgroup_directory_tests.rs"]
mod tests;
