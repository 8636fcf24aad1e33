//! Shows the agent its own session, and hides the other sessions of the workspace.
//!
//! Cursor keeps all sessions of a workspace in one directory, the bucket. An agent also creates the stores of its
//! sub-agents there. So inside the sandbox, the bucket is one of Caretaker's own directories, with the session's own
//! directory mounted in it. It has every [name](super::session_places) that an agent may use. After the agent's death,
//! the shim moves the other stores to the bucket that has the session, if they are plain stores:
//!
//! ```text
//!   <state>/sessions/<id>/chats/   <id>/      empty: the session's <bucket>/<id> is mounted on it
//!                                  <child>/   empty: from an earlier run, also mounted from the session's bucket
//!                                  <child>/   with files: made in this run, moved to the session's bucket after it
//!   <state>/sessions/<id>/children  names, places and inodes of the moved stores; the agent cannot write to it
//! ```
//!
//! **Invariant:** the agent cannot read or write another session of the workspace. Only plain files that it made reach
//! the user's bucket, and only a bucket that the user already has, unless the workspace has none.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cursor_home::BucketHash;
use run_protocol::RunEvent;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::session::session_places::{FIRST_PLACE, Owner, Place, SessionPlaces};

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
    /// This session's children. An empty directory in the bucket proves nothing, because any program inside can make
    /// one. A name proves nothing either, because another bucket may have another session of that name.
    record: PathBuf,
    places: SessionPlaces,
    /// The place that each name of the bucket shows.
    shown: [(BucketHash, Place); 2],
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
    /// `session_dir` is the session's directory in Caretaker's state.
    pub(crate) fn new(session_dir: &Path, places: SessionPlaces) -> Self {
        let (private, record) = (session_dir.join("chats"), session_dir.join("children"));
        Self { private, record, shown: places.shown(), places }
    }

    /// The directory that becomes the bucket inside.
    pub(crate) fn private(&self) -> &Path {
        &self.private
    }

    /// The names of the bucket, and for each the directories on the host that the sandbox mounts into it.
    pub(crate) fn views(&self) -> Vec<(String, Vec<PathBuf>)> {
        let sessions = |place: Place| {
            let bucket = self.places.bucket(place);
            let children = self.children(place).into_iter().map(|child| bucket.join(child));
            std::iter::once(self.places.directory(place)).chain(children).collect()
        };
        self.shown.iter().map(|(hash, place)| (self.places.name(*hash), sessions(*place))).collect()
    }

    /// The session's store on the host. Before a session has a store, the path where most agents would make it.
    pub(crate) fn store_db(&self) -> PathBuf {
        self.places.directory(self.home()).join("store.db")
    }

    /// Makes the directories that the agent needs. Cursor accepts an empty directory and starts its store in it.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        let shown = self.shown.iter().map(|(_, place)| self.places.directory(*place));
        for directory in shown.chain([self.private.join(self.places.session())]) {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        Ok(())
    }

    /// Moves the stores that the agent made next to its session, and removes the session's directories if they are
    /// empty. The agent must be dead.
    pub(crate) fn settle(&self) {
        let home = self.home();
        for name in names_in(&self.private) {
            if name == self.places.session() || is_empty(&self.private.join(&name)) {
                continue;
            }
            let adopted = self.adopt(&name, home);
            report(&name, adopted, "a session that the agent made");
        }
        if let Some(to) = self.places.moves_to(home) {
            let moved = move_store(&self.places.directory(home), &self.places.directory(to));
            report(self.places.session().as_ref(), moved, "a session to the user's own bucket");
            for child in self.children(home) {
                let moved = self.move_child(&child, &self.places.bucket(home), to);
                report(&child, moved, "a sub-agent's session to the user's own bucket");
            }
        }
        self.places.remove_empty();
    }

    /// The event for a session that Caretaker keeps, because the agent uses a bucket that the user's chats do not have.
    pub(crate) fn drift(&self) -> Option<RunEvent> {
        let home = self.home();
        let is_ours = home.owner == Owner::Caretaker && self.places.has_store(home);
        is_ours.then(|| RunEvent::BucketDrift {
            bucket: self.places.name(home.hash),
            directory: self.places.directory(home).into(),
        })
    }

    /// The place of the session. An agent on the host may have moved it.
    fn home(&self) -> Place {
        let [(_, first), _] = self.shown;
        let places = &self.places;
        let is_known = self.shown.iter().all(|(_, place)| *place == first);
        if is_known && places.has_store(first) {
            return first;
        }
        places.first_with_store().unwrap_or(first)
    }

    /// The sessions in this place's bucket that the agent made next to its own in earlier runs, newest first.
    fn children(&self, place: Place) -> Vec<OsString> {
        let bucket = self.places.bucket(place);
        let recorded = fs::read_to_string(&self.record).unwrap_or_default();
        let mut children: Vec<(SystemTime, OsString)> = recorded
            .lines()
            .filter_map(|line| {
                let mut words = line.split(' ');
                let name = OsString::from(words.next()?);
                // Earlier versions recorded only the name. They knew one place.
                let was_here = words.next().unwrap_or(FIRST_PLACE.word()) == place.word();
                let found = fs::symlink_metadata(bucket.join(&name)).ok()?;
                // An agent on the host may have renamed the bucket.
                let mut is_same = || words.next().is_some_and(|known| known == identity_of(&found));
                let is_child = found.is_dir()
                    && (was_here || is_same())
                    && is_plain_name(&name)
                    && is_empty(&self.private.join(&name));
                is_child.then(|| (found.modified().unwrap_or(SystemTime::UNIX_EPOCH), name))
            })
            .collect();
        children.sort();
        children.dedup();
        children.into_iter().rev().map(|(_, name)| name).take(MOST_CHILDREN).collect()
    }

    fn adopt(&self, name: &OsStr, to: Place) -> Result<(), NotAdopted> {
        if !is_plain_name(name) {
            return Err(NotAdopted::NotAStore);
        }
        self.move_child(name, &self.private, to)?;
        // The next run shows it.
        Ok(DirBuilder::new().mode(0o700).create(self.private.join(name))?)
    }

    /// Moves a store from a bucket to a place, and records the place.
    fn move_child(&self, name: &OsStr, from: &Path, to: Place) -> Result<(), NotAdopted> {
        let moved = self.places.bucket(to).join(name);
        move_store(&from.join(name), &moved)?;
        let identity = identity_of(&fs::symlink_metadata(moved)?);
        let mut record =
            OpenOptions::new().append(true).create(true).mode(0o600).open(&self.record)?;
        Ok(writeln!(record, "{} {} {identity}", name.display(), to.word())?)
    }
}

/// A directory's device and inode. A new directory of the same name has others.
fn identity_of(found: &fs::Metadata) -> String {
    format!("{}:{}", found.dev(), found.ino())
}

fn report(name: &OsStr, moved: Result<(), NotAdopted>, what: &str) {
    match moved {
        Ok(()) => tracing::info!(?name, "moved {what}"),
        Err(error) => tracing::warn!(?name, %error, "did not move {what}"),
    }
}

/// Moves a store that an agent could write to. Replaces nothing.
fn move_store(from: &Path, to: &Path) -> Result<(), NotAdopted> {
    let files = plain_files_in(from)?.ok_or(NotAdopted::NotAStore)?;
    match rename_to_free(from, to) {
        Err(NotAdopted::Io(error)) if Errno::from_io_error(&error) == Some(Errno::XDEV) => {
            copy(&files, from, to)?;
            Ok(fs::remove_dir_all(from)?)
        }
        moved => moved,
    }
}

/// Copies to another file system, first under a temporary name, so that no reader sees half of it.
fn copy(files: &[OsString], from: &Path, to: &Path) -> Result<(), NotAdopted> {
    let beside = to.with_file_name(format!(".caretaker-{}", std::process::id()));
    DirBuilder::new().mode(0o700).create(&beside)?;
    let copied = files.iter().try_for_each(|file| {
        let mut to =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(beside.join(file))?;
        io::copy(&mut fs::File::open(from.join(file))?, &mut to).map(drop)
    });
    let moved = copied.map_err(NotAdopted::from).and_then(|()| rename_to_free(&beside, to));
    if moved.is_err() {
        fs::remove_dir_all(&beside).ok();
    }
    moved
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
