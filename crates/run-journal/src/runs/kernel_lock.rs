//! A lock on a file. The kernel frees it when its holder dies, and a note in the file says which process holds it.
//!
//! The lock belongs to the open file (an "open file description lock"), because a process can examine such a lock
//! without taking it. So a process that only checks the lock never makes another one fail.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use ground::plain_file;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use run_protocol::RunId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::journal::line_search::read_piece;
use crate::runs::boot::{boot_id, process_started};

const NOTE_LIMIT: usize = 4096;

/// The note of a lock's holder. The holder writes it after it has taken the lock, and never removes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHolder {
    pub run: RunId,
    pub pid: u32,
    /// Milliseconds since the epoch.
    pub since_ms: u64,
    /// When the process was started, in kernel ticks since boot. It tells two processes with the same pid apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<u64>,
    /// The kernel's id of the boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
}

impl LockHolder {
    /// True if the process with this pid is the one that took the lock, as far as the note can tell.
    pub fn is_process(&self, pid: u32) -> bool {
        let same_start = match (self.started, process_started(pid)) {
            (Some(then), Some(now)) => then == now,
            (Some(_), None) => false,
            (None, _) => true,
        };
        let same_boot = match (&self.boot, boot_id()) {
            (Some(then), Some(now)) => *then == now,
            _ => true,
        };
        self.pid == pid && same_start && same_boot
    }
}

/// Holds a lock until it is dropped. The file stays: if it were removed, two processes could hold "the" lock.
#[derive(Debug)]
pub struct KernelLock {
    file: File,
}

impl KernelLock {
    /// Takes the lock if it is free; `None` if not. Creates the file (0600) if it is missing.
    pub fn try_take(path: &Path) -> io::Result<Option<Self>> {
        let file = plain_file::open_or_create(path)?;
        match fcntl(&file, FcntlArg::F_OFD_SETLK(&whole_file(libc::F_WRLCK))) {
            Ok(_) => Ok(Some(Self { file })),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Takes the lock, and waits for it as long as necessary.
    pub fn take_waiting(path: &Path) -> io::Result<Self> {
        Self::wait(path, libc::F_WRLCK)
    }

    /// Takes the lock together with other processes that share it, and waits while another process holds it
    /// exclusively.
    pub fn share_waiting(path: &Path) -> io::Result<Self> {
        Self::wait(path, libc::F_RDLCK)
    }

    fn wait(path: &Path, kind: libc::c_int) -> io::Result<Self> {
        let file = plain_file::open_or_create(path)?;
        loop {
            match fcntl(&file, FcntlArg::F_OFD_SETLKW(&whole_file(kind))) {
                Ok(_) => return Ok(Self { file }),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// True if a process holds the lock. Does not touch the lock. A missing file is not held.
    pub fn is_held(path: &Path) -> io::Result<bool> {
        open_existing(path)?.map_or(Ok(false), |file| is_held(&file))
    }

    /// True if `path` still leads to the locked file. If it was deleted or replaced, other processes lock another file.
    pub fn is_at(&self, path: &Path) -> io::Result<bool> {
        let found = match fs::symlink_metadata(path) {
            Ok(found) => found,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(err) => return Err(err),
        };
        let locked = self.file.metadata()?;
        Ok((found.dev(), found.ino()) == (locked.dev(), locked.ino()))
    }

    /// Takes the lock again, which changes nothing if we have it. `false` if another process has it now: a network file
    /// system may give the lock to another process when its server restarts.
    pub fn is_still_held(&self) -> io::Result<bool> {
        match fcntl(&self.file, FcntlArg::F_OFD_SETLK(&whole_file(libc::F_WRLCK))) {
            Ok(_) => Ok(true),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The note in the locked file itself, even if its path now leads to another file.
    pub fn own_note<T: DeserializeOwned>(&self) -> io::Result<Option<T>> {
        read_note(&self.file)
    }

    /// Writes a note into the file, for processes that find it locked.
    pub fn set_note(&self, note: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_vec(note)?;
        self.file.write_all_at(&text, 0)?;
        self.file.set_len(text.len() as u64)
    }

    /// The last holder's note; `None` if there is no readable note.
    pub fn note<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
        open_existing(path)?.map_or(Ok(None), |file| read_note(&file))
    }

    /// Reads the lock's state and its note. `None` if there is no such file.
    pub fn look<T: DeserializeOwned>(path: &Path) -> io::Result<Option<LockSight<T>>> {
        let Some(file) = open_existing(path)? else { return Ok(None) };
        // First the note, then the lock: otherwise a process that takes the lock in between would look dead.
        let note_before = read_note(&file)?;
        Ok(Some(match is_held(&file)? {
            true => LockSight::Held(read_note(&file)?),
            false => LockSight::Free(note_before),
        }))
    }
}

/// The state of a lock, with the note of its holder or of its last holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockSight<T> {
    Held(Option<T>),
    Free(Option<T>),
}

fn is_held(file: &File) -> io::Result<bool> {
    let mut answer = whole_file(libc::F_WRLCK);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut answer))?;
    Ok(answer.l_type != libc::F_UNLCK as libc::c_short)
}

fn read_note<T: DeserializeOwned>(file: &File) -> io::Result<Option<T>> {
    let mut buffer = vec![0; NOTE_LIMIT];
    let text = read_piece(file, &mut buffer, 0, NOTE_LIMIT as u64)?;
    Ok(serde_json::from_slice(text).ok())
}

fn open_existing(path: &Path) -> io::Result<Option<File>> {
    match plain_file::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(err) => Err(err),
    }
}

/// A length of zero means "to the end of the file".
fn whole_file(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

#[cfg(test)]
#[path = "kernel_lock_tests.rs"]
mod tests;
