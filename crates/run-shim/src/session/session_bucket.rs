//! Shows the agent its own session, and hides the other sessions of the workspace.
//!
//! Cursor keeps all sessions of a workspace in one directory, the bucket. An agent also creates the stores of its
//! sub-agents there. So inside the sandbox, the bucket is one of Caretaker's own directories, with the session's own
//! directory mounted in it. After the agent's death, the shim moves the other stores to the user's bucket, if they are
//! plain stores:
//!
//! ```text
//!   <state>/sessions/<id>/chats/   <id>/      empty: the user's <bucket>/<id> is mounted on it
//!                                  <child>/   empty: from an earlier run, also mounted from the user's bucket
//!                                  <child>/   with files: made in this run, moved to the user's bucket after it
//!   <state>/sessions/<id>/children  the names of the moved stores; the agent cannot write to it
//! ```
//!
//! **Invariant:** the agent cannot read or write another session of the workspace. Only plain files that it made reach
//! the user's bucket.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// The most children to show, newest first. Each is a mount, and mounts cost time.
const MOST_CHILDREN: usize = 16;
/// The most files in a store. Real stores have three or four.
const MOST_FILES: usize = 64;
/// The longest name of a session that the shim moves.
const LONGEST_NAME: usize = 128;

/// The bucket of one session.
#[derive(Debug, Clone)]
pub(crate) struct SessionBucket {
    /// Caretaker's directory. It becomes the bucket inside.
    private: PathBuf,
    /// The names of this session's children. An empty directory in the bucket proves nothing, because any program
    /// inside can make one.
    record: PathBuf,
    /// The user's own bucket.
    on_host: PathBuf,
    session: OsString,
}

/// Why the shim does not move a store to the user's bucket.
#[derive(Debug, thiserror::Error)]
enum NotAdopted {
    #[error("it is not a store: it contains more than plain files")]
    NotAStore,
    #[error("that name already exists")]
    Taken,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl SessionBucket {
    /// `session_dir` is the session's directory in Caretaker's state, `on_host` is the user's bucket.
    pub(crate) fn new(session_dir: &Path, on_host: PathBuf, session: &str) -> Self {
        let (private, record) = (session_dir.join("chats"), session_dir.join("children"));
        Self { private, record, on_host, session: session.into() }
    }

    /// The directory that becomes the bucket inside.
    pub(crate) fn private(&self) -> &Path {
        &self.private
    }

    /// The directories in the user's bucket that the sandbox mounts into the private bucket.
    pub(crate) fn shown(&self) -> Vec<PathBuf> {
        let mut shown = vec![self.on_host.join(&self.session)];
        shown.extend(self.children().into_iter().map(|child| self.on_host.join(child)));
        shown
    }

    /// The session's store on the host.
    pub(crate) fn store_db(&self) -> PathBuf {
        self.on_host.join(&self.session).join("store.db")
    }

    /// Makes the directories that the agent needs. Cursor accepts an empty directory and starts its store in it.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        for directory in [self.private.join(&self.session), self.on_host.join(&self.session)] {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        Ok(())
    }

    /// Moves the stores that the agent made next to its session, and removes the session's directory if it is empty.
    /// The agent must be dead.
    pub(crate) fn settle(&self) {
        for name in names_in(&self.private) {
            if name == self.session || is_empty(&self.private.join(&name)) {
                continue;
            }
            match self.adopt(&name) {
                Ok(()) => tracing::info!(?name, "moved a session that the agent made"),
                Err(error) => {
                    tracing::warn!(?name, %error, "did not move a directory that the agent made next to its session");
                }
            }
        }
        // This removes only empty directories.
        if fs::remove_dir(self.on_host.join(&self.session)).is_ok() {
            fs::remove_dir(&self.on_host).ok();
        }
    }

    /// The sessions that the agent made next to this one in earlier runs, newest first.
    fn children(&self) -> Vec<OsString> {
        let recorded = fs::read_to_string(&self.record).unwrap_or_default();
        let mut children: Vec<(SystemTime, OsString)> = recorded
            .lines()
            .map(OsString::from)
            .filter(|name| is_plain_name(name) && is_empty(&self.private.join(name)))
            .filter_map(|name| {
                let found = fs::symlink_metadata(self.on_host.join(&name)).ok()?;
                found.is_dir().then_some(())?;
                Some((found.modified().unwrap_or(SystemTime::UNIX_EPOCH), name))
            })
            .collect();
        children.sort();
        children.into_iter().rev().map(|(_, name)| name).take(MOST_CHILDREN).collect()
    }

    fn adopt(&self, name: &OsStr) -> Result<(), NotAdopted> {
        let made = self.private.join(name);
        let files = plain_files_in(&made)?.ok_or(NotAdopted::NotAStore)?;
        if !is_plain_name(name) {
            return Err(NotAdopted::NotAStore);
        }
        let place = self.on_host.join(name);
        match rename_to_free(&made, &place) {
            Err(NotAdopted::Io(error)) if Errno::from_io_error(&error) == Some(Errno::XDEV) => {
                self.copy(&files, &made, &place)?;
                fs::remove_dir_all(&made)?;
            }
            moved => moved?,
        }
        // The next run shows it.
        DirBuilder::new().mode(0o700).create(&made)?;
        let mut record =
            OpenOptions::new().append(true).create(true).mode(0o600).open(&self.record)?;
        Ok(writeln!(record, "{}", name.display())?)
    }

    /// Copies to another file system, first under a temporary name, so that no reader sees half of it.
    fn copy(&self, files: &[OsString], made: &Path, place: &Path) -> Result<(), NotAdopted> {
        let beside = self.on_host.join(format!(".caretaker-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&beside)?;
        let copied = files.iter().try_for_each(|file| {
            let mut to = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(beside.join(file))?;
            io::copy(&mut fs::File::open(made.join(file))?, &mut to).map(drop)
        });
        let moved = copied.map_err(NotAdopted::from).and_then(|()| rename_to_free(&beside, place));
        if moved.is_err() {
            fs::remove_dir_all(&beside).ok();
        }
        moved
    }
}

fn rename_to_free(from: &Path, to: &Path) -> Result<(), NotAdopted> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::EXIST) => Err(NotAdopted::Taken),
        renamed => renamed.map_err(|errno| NotAdopted::Io(errno.into())),
    }
}

/// Returns whether a name can only be a session's.
fn is_plain_name(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=LONGEST_NAME).contains(&name.len()) && name[0] != b'.' && name.iter().all(plain)
}

fn names_in(directory: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).collect()
}

fn is_empty(directory: &Path) -> bool {
    let is_directory = fs::symlink_metadata(directory).is_ok_and(|found| found.is_dir());
    is_directory && fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

/// Returns the files of a directory. `None` if it is not a directory, or contains anything but plain files.
fn plain_files_in(directory: &Path) -> io::Result<Option<Vec<OsString>>> {
    if !fs::symlink_metadata(directory)?.is_dir() {
        return Ok(None);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if !entry.file_type()?.is_file() || files.len() == MOST_FILES {
            return Ok(None);
        }
        files.push(entry.file_name());
    }
    Ok(Some(files))
}

#[cfg(test)]
#[path = "session_bucket_tests.rs"]
mod tests;
