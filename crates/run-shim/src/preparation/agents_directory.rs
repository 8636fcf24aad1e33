//! Writes into a directory that an earlier agent could write to, before the next agent runs.
//!
//! **Invariant:** nothing that an agent left there can redirect a write. This code does not follow links, and never
//! writes into an existing file.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, open, openat, renameat, unlinkat};
use rustix::io::Errno;

/// The most names to try for a new file.
const MOST_NAMES: u32 = 100;

#[derive(Debug)]
pub(crate) struct AgentsDirectory(OwnedFd);

impl AgentsDirectory {
    /// Opens an agent's directory by its name in `parent`, one of Caretaker's own directories. Replaces anything that
    /// is not a directory.
    pub(crate) fn open(parent: &Path, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let parent = open(parent, flags, Mode::empty())?;
        let opened = || openat(&parent, name, flags, Mode::empty());
        let directory = match opened() {
            Err(Errno::LOOP | Errno::NOTDIR) => {
                unlinkat(&parent, name, AtFlags::empty())?;
                mkdirat(&parent, name, Mode::RWXU)?;
                opened()?
            }
            Err(Errno::NOENT) => {
                mkdirat(&parent, name, Mode::RWXU)?;
                opened()?
            }
            opened => opened?,
        };
        Ok(Self(directory))
    }

    /// Writes a whole file, and replaces anything with that name.
    pub(crate) fn write(&self, name: &OsStr, content: &[u8]) -> io::Result<()> {
        let (beside, mut file) = self.new_file()?;
        let written = file.write_all(content).and_then(|()| {
            renameat(&self.0, beside.as_str(), &self.0, name)?;
            Ok(())
        });
        if written.is_err() {
            unlinkat(&self.0, beside.as_str(), AtFlags::empty()).ok();
        }
        written
    }

    /// Creates a new file, even if an agent guessed and took some names.
    fn new_file(&self) -> io::Result<(String, File)> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        for number in 0..MOST_NAMES {
            let name = format!(".caretaker-{}-{number}", std::process::id());
            match openat(&self.0, name.as_str(), flags, Mode::RUSR | Mode::WUSR) {
                Err(Errno::EXIST) => {}
                opened => return Ok((name, File::from(opened?))),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

#[cfg(test)]
#[path = "agents_directory_tests.rs"]
mod tests;
