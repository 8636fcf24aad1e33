//! A git configuration file on the host, which both the user's git and an agent may be changing.
//!
//! ```text
//!   settle   wait until git has finished: no `config.lock`, and the file stays the same for a moment
//!   read     at most 1 MiB, only from a regular file
//!   replace  write a new file ─► rename it to `config.lock`, which takes git's lock ─► has the file changed?
//!            no: rename it to `config`                                              yes: drop it, and settle again
//! ```
//!
//! The new file is necessary. An agent may still have a descriptor or a second name for the file that git wrote.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ground::plain_file::read_whole;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat, fchmod, fchown, fstat,
    openat, openat2, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use sandbox_plan::FileIdentity;
use uuid::Uuid;

/// The longest configuration. The planner has the same limit.
const MOST_BYTES: u64 = 1 << 20;
/// The file must stay the same for this long. A git command that changes several settings renames it several times.
const CALM: Duration = Duration::from_millis(15);
/// The longest wait for that, because the agent is stopped meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// The place of a configuration file. It stays the same directory, even if a process renames it.
#[derive(Debug)]
pub(super) struct ConfigFile {
    directory: OwnedFd,
    name: OsString,
    lock: OsString,
}

/// The mode and owner of a file, for the file that replaces it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    mode: Mode,
    uid: rustix::fs::Uid,
    gid: rustix::fs::Gid,
}

/// Changes whenever the file does. `None` if there is no file.
type Stamp = Option<(FileIdentity, i128, [i128; 2], [i128; 2])>;

impl ConfigFile {
    /// Opens the directory of a path without symlinks.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let directory = openat2(CWD, parent, flags, Mode::empty(), resolve)?;
        let mut lock = name.to_owned();
        lock.push(".lock");
        Ok(Self { directory, name: name.to_owned(), lock })
    }

    /// Reads the file.
    pub(super) fn read(&self) -> io::Result<(Vec<u8>, FileIdentity, Owner)> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&self.directory, &self.name, flags, Mode::empty())?);
        let stat = fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("it is not a regular file"));
        }
        let owner = Owner {
            mode: Mode::from_raw_mode(stat.st_mode),
            uid: rustix::fs::Uid::from_raw(stat.st_uid),
            gid: rustix::fs::Gid::from_raw(stat.st_gid),
        };
        Ok((read_whole(file, MOST_BYTES)?, identity(&stat), owner))
    }

    /// Waits until git has finished.
    pub(super) fn settle(&self) -> Stamp {
        let give_up = Instant::now() + PATIENCE;
        let (mut stamp, mut since) = (self.stamp(&self.name), Instant::now());
        while since.elapsed() < CALM && Instant::now() < give_up {
            sleep(BETWEEN_LOOKS);
            let now = self.stamp(&self.name);
            if now != stamp || self.stamp(&self.lock).is_some() {
                (stamp, since) = (now, Instant::now());
            }
        }
        stamp
    }

    /// Replaces the file with a new one under git's lock. Returns `None` if the file no longer matched the stamp, or if
    /// another process had the lock.
    pub(super) fn replace(
        &self,
        text: &[u8],
        owner: Owner,
        stamp: Stamp,
    ) -> io::Result<Option<FileIdentity>> {
        let (draft, identity) = self.write_new(text, owner)?;
        let dir = &self.directory;
        match renameat_with(dir, &draft, dir, &self.lock, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(errno) => {
                self.remove(&draft);
                return if errno == Errno::EXIST { Ok(None) } else { Err(errno.into()) };
            }
        }
        if self.stamp(&self.name) != stamp {
            self.remove(&self.lock);
            return Ok(None);
        }
        let renamed = renameat(dir, &self.lock, dir, &self.name);
        renamed.inspect_err(|_| self.remove(&self.lock))?;
        Ok(Some(identity))
    }

    /// Replaces anything at the file's path with a text, even a directory. Call it only when no agent is left.
    pub(super) fn restore(&self, text: &[u8], owner: Owner) -> io::Result<()> {
        let (draft, _) = self.write_new(text, owner)?;
        let dir = &self.directory;
        match renameat(dir, &draft, dir, &self.name) {
            Err(Errno::ISDIR | Errno::EXIST | Errno::NOTEMPTY) => {
                renameat_with(dir, &draft, dir, &self.name, RenameFlags::EXCHANGE)?;
                // Only an empty directory can be removed. Any other stays under the draft's name.
                unlinkat(dir, &draft, AtFlags::REMOVEDIR).ok();
                Ok(())
            }
            renamed => Ok(renamed.inspect_err(|_| self.remove(&draft))?),
        }
    }

    /// Writes a new file, under a name that no agent can predict.
    fn write_new(&self, text: &[u8], owner: Owner) -> io::Result<(OsString, FileIdentity)> {
        let mut draft = self.name.clone();
        draft.push(format!(".caretaker-{}", Uuid::new_v4().simple()));
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let mut file = File::from(openat(&self.directory, &draft, flags, mode)?);
        let mut fill = || {
            file.write_all(text)?;
            // Only root can change a file's owner. If root runs the shim, the repository's owner must still be able to
            // read it.
            fchown(&file, Some(owner.uid), Some(owner.gid)).ok();
            fchmod(&file, owner.mode)?;
            Ok(identity(&fstat(&file)?))
        };
        let filled = fill().inspect_err(|_: &io::Error| self.remove(&draft));
        filled.map(|identity| (draft, identity))
    }

    fn remove(&self, name: &OsStr) {
        unlinkat(&self.directory, name, AtFlags::empty()).ok();
    }

    fn stamp(&self, name: &OsStr) -> Stamp {
        let stat = statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let changed = [stat.st_mtime, stat.st_ctime].map(i128::from);
        let fractions = [stat.st_mtime_nsec, stat.st_ctime_nsec].map(i128::from);
        Some((identity(&stat), i128::from(stat.st_size), changed, fractions))
    }
}

fn identity(stat: &Stat) -> FileIdentity {
    FileIdentity { device: stat.st_dev, inode: stat.st_ino }
}

#[cfg(test)]
#[path = "config_file_tests.rs"]
mod tests;
