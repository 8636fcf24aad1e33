//! One chat's directory, as far as it can be read without opening the database.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ground::with_causes;

use crate::chat::reading::{meta_row, with_store};
use crate::chat::store::{
    ChatMeta, FileIdentity, ReadSessionMetaError, SessionMetaFile, read_meta_page,
};
use crate::model::{Activity, Head, Moment, Origin, Parent, Shelf, StoreKind, Workspace};
use crate::plain_file::{self, PlainFileError};

pub(crate) const DATABASE: &str = "store.db";
const WAL: &str = "store.db-wal";
pub(crate) const META_FILE: &str = "meta.json";

#[derive(Debug)]
pub(crate) struct ChatFiles {
    pub(crate) directory: PathBuf,
    pub(crate) database: FileState,
    pub(crate) wal: FileState,
    pub(crate) meta_file: MetaFile,
}

/// The state of one file.
#[derive(Debug)]
pub(crate) enum FileState {
    Missing,
    Plain {
        n_bytes: u64,
        modified_ms: i64,
        identity: FileIdentity,
    },
    /// Not a plain file, or not accessible. Contains the reason.
    Refused(String),
}

#[derive(Debug)]
pub(crate) enum MetaFile {
    Missing,
    Read(Box<SessionMetaFile>),
    Unreadable(String),
}

impl FileState {
    fn of(path: &Path) -> Self {
        match plain_file::inspect(path) {
            Ok(metadata) => Self::Plain {
                n_bytes: metadata.len(),
                modified_ms: metadata
                    .mtime()
                    .saturating_mul(1000)
                    .saturating_add(metadata.mtime_nsec() / 1_000_000),
                identity: (metadata.dev(), metadata.ino()),
            },
            Err(PlainFileError::Missing { .. }) => Self::Missing,
            Err(PlainFileError::NotPlain { kind, .. }) => {
                Self::Refused(format!("is a {kind}, not a plain file"))
            }
            Err(_) => Self::Refused("cannot be inspected".to_owned()),
        }
    }

    pub(crate) fn n_bytes(&self) -> u64 {
        match self {
            Self::Plain { n_bytes, .. } => *n_bytes,
            Self::Missing | Self::Refused(_) => 0,
        }
    }

    pub(crate) fn modified_ms(&self) -> Option<i64> {
        match self {
            Self::Plain { modified_ms, .. } => Some(*modified_ms),
            Self::Missing | Self::Refused(_) => None,
        }
    }

    pub(crate) fn identity(&self) -> Option<FileIdentity> {
        match self {
            Self::Plain { identity, .. } => Some(*identity),
            Self::Missing | Self::Refused(_) => None,
        }
    }

    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Missing)
    }
}

/// Says why a meta row could not be read, and gives the activity to show for the chat.
pub(crate) struct MetaRowError {
    pub(crate) why: String,
    pub(crate) activity: Activity,
}

impl ChatFiles {
    /// Inspects a directory. Returns `None` if it contains no chat.
    pub(crate) fn of(directory: PathBuf) -> Option<Self> {
        let database = FileState::of(&directory.join(DATABASE));
        // Without a database there is no log.
        let wal = if database.is_missing() {
            FileState::Missing
        } else {
            FileState::of(&directory.join(WAL))
        };
        let meta_file = match SessionMetaFile::read(&directory.join(META_FILE)) {
            Ok(meta_file) => MetaFile::Read(Box::new(meta_file)),
            Err(ReadSessionMetaError::File(PlainFileError::Missing { .. })) => MetaFile::Missing,
            Err(err) => MetaFile::Unreadable(with_causes(&err)),
        };
        if database.is_missing() && matches!(meta_file, MetaFile::Missing) {
            return None;
        }
        Some(Self { directory, database, wal, meta_file })
    }

    pub(crate) fn database_path(&self) -> PathBuf {
        self.directory.join(DATABASE)
    }

    /// The time of the last change to the database or its log.
    pub(crate) fn changed_ms(&self) -> Option<i64> {
        self.database.modified_ms().max(self.wal.modified_ms())
    }

    fn meta_file(&self) -> Option<&SessionMetaFile> {
        match &self.meta_file {
            MetaFile::Read(meta_file) => Some(meta_file),
            MetaFile::Missing | MetaFile::Unreadable(_) => None,
        }
    }

    /// True if only the database can tell whether this is a sub-agent's store. Such stores have no `meta.json`, but
    /// neither do stores from older builds.
    pub(crate) fn needs_meta_row(&self) -> bool {
        let is_known =
            self.meta_file().is_some_and(|meta_file| meta_file.is_subagent != Some(true));
        !is_known && !self.database.is_missing()
    }

    /// Reads the meta row in the cheapest way.
    pub(crate) fn meta_row(&self) -> Result<Option<ChatMeta>, MetaRowError> {
        if let FileState::Refused(why) = &self.database {
            return Err(MetaRowError { why: why.clone(), activity: Activity::Damaged });
        }
        let path = self.database_path();
        if self.is_closed()
            && let Some(meta) = read_meta_page(&path)
        {
            return Ok(Some(meta));
        }
        match with_store(&path, meta_row) {
            Ok(Ok(meta)) => Ok(meta),
            Ok(Err(why)) => Err(MetaRowError { why, activity: Activity::Damaged }),
            Err(err) => {
                let activity = if err.is_locked() { Activity::Locked } else { Activity::Damaged };
                Err(MetaRowError { why: with_causes(&err), activity })
            }
        }
    }

    /// True if there is no log, so that the database file alone is complete.
    pub(crate) fn is_closed(&self) -> bool {
        let has_log = self.wal.n_bytes() > 0 || matches!(self.wal, FileState::Refused(_));
        !has_log && !self.directory.join("store.db-journal").exists()
    }

    /// Returns everything that a list can show without opening the database.
    pub(crate) fn head(&self, store: StoreKind, key: &str, id: &str) -> Head {
        let holder = if self.database.is_missing() { META_FILE } else { DATABASE };
        let origin = Origin {
            store,
            path: self.directory.join(holder).into(),
            key: (key != id).then(|| key.to_owned()),
        };
        let mut head = Head::new(id, origin);
        if !self.database.is_missing() {
            head.n_bytes = Some(self.database.n_bytes() + self.wal.n_bytes());
        }
        head.updated = self.changed_ms().map(Moment::of_file);
        if self.database.is_missing() {
            head.shelf = Shelf::Empty;
        }
        if let Some(meta_file) = self.meta_file() {
            add_meta_file(&mut head, meta_file);
        }
        // Cursor writes `meta.json` when a turn ends. A log with content belongs to an unfinished turn.
        if let Some(log_ms) = self.wal.modified_ms().filter(|_| self.wal.n_bytes() > 0)
            && head.updated.is_none_or(|updated| updated.at_ms < log_ms)
        {
            head.updated = Some(Moment::of_file(log_ms));
        }
        head
    }
}

fn add_meta_file(head: &mut Head, meta_file: &SessionMetaFile) {
    head.title = meta_file.title.clone().filter(|title| !title.is_empty());
    head.workspace = meta_file.cwd.clone().filter(|cwd| !cwd.is_empty()).map(Workspace::here);
    head.created = meta_file.created_at_ms.map(Moment::recorded);
    head.updated = meta_file.updated_at_ms.map(Moment::recorded).or(head.updated);
    if meta_file.is_subagent == Some(true) {
        head.parent = Some(Parent::default());
    }
}

/// A subdirectory.
#[derive(Debug)]
pub(crate) struct Below {
    /// For example `<bucket>/<uuid>`.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// Lists the immediate subdirectories by name. Calls `refuse` for each one that it skips, with the reason.
pub(crate) fn directories_below(
    parent: &Path,
    prefix: &str,
    refuse: &mut dyn FnMut(String, String),
) -> Vec<Below> {
    let entries = match fs::read_dir(parent) {
        Ok(entries) => entries,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(err) => {
            refuse(prefix.to_owned(), format!("the directory cannot be read: {err}"));
            return Vec::new();
        }
    };
    let mut below = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(file_type) = entry.file_type() else { continue };
        if file_type.is_symlink() && fs::metadata(&path).is_ok_and(|target| target.is_dir()) {
            refuse(
                joined(prefix, &entry.file_name().to_string_lossy()),
                "is a symbolic link, which is not followed".to_owned(),
            );
        } else if file_type.is_dir() {
            match entry.file_name().into_string() {
                Ok(name) => below.push(Below { name: joined(prefix, &name), path }),
                Err(name) => refuse(
                    joined(prefix, &name.to_string_lossy()),
                    "its name is not UTF-8".to_owned(),
                ),
            }
        }
    }
    below.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    below
}

fn joined(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") }
}
