//! A directory that an agent could write, and in which we write before the next one runs.
//!
//! **Invariant:** nothing that an agent left there leads a write of ours elsewhere: no link is followed, and no file that is
//! there already is written into.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, open, openat, renameat, unlinkat};
use rustix::io::Errno;

/// How many names are tried for a new file.
const MOST_NAMES: u32 = 100;

#[derive(Debug)]
pub(crate) struct AgentsDirectory(OwnedFd);

impl AgentsDirectory {
    /// Opens a directory of an agent's by its name in `parent`, whose own path is ours. What is no directory gives way.
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

    /// Writes a file as a whole, in the place of whatever had its name.
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

    /// A file that was not there before, whatever names an agent has guessed and taken.
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
