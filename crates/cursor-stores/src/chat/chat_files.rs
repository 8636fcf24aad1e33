//! The directory of one chat, as far as it can be told without opening the database.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ground::with_causes;

use super::chat_reading::{meta_row, with_store};
use super::meta::ChatMeta;
use super::meta_page::read_meta_page;
use super::session_meta_file::{ReadSessionMetaError, SessionMetaFile};
use super::writers::FileIdentity;
use crate::model::{Activity, Head, Moment, Origin, Parent, Shelf, StoreKind, Workspace};
use crate::plain_file::{self, PlainFileError};

pub(super) const DATABASE: &str = "store.db";
const WAL: &str = "store.db-wal";
pub(super) const META_FILE: &str = "meta.json";

/// The files of one chat.
#[derive(Debug)]
pub(super) struct ChatFiles {
    pub(super) directory: PathBuf,
    pub(super) database: FileState,
    pub(super) wal: FileState,
    pub(super) meta_file: MetaFile,
}

/// What lies under a name.
#[derive(Debug)]
pub(super) enum FileState {
    Missing,
    Plain {
        n_bytes: u64,
        modified_ms: i64,
        identity: FileIdentity,
    },
    /// Not a plain file, or out of reach; why.
    Refused(String),
}

#[derive(Debug)]
pub(super) enum MetaFile {
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
            Err(_) => Self::Refused("cannot be looked at".to_owned()),
        }
    }

    pub(super) fn n_bytes(&self) -> u64 {
        match self {
            Self::Plain { n_bytes, .. } => *n_bytes,
            Self::Missing | Self::Refused(_) => 0,
        }
    }

    pub(super) fn modified_ms(&self) -> Option<i64> {
        match self {
            Self::Plain { modified_ms, .. } => Some(*modified_ms),
            Self::Missing | Self::Refused(_) => None,
        }
    }

    pub(super) fn identity(&self) -> Option<FileIdentity> {
        match self {
            Self::Plain { identity, .. } => Some(*identity),
            Self::Missing | Self::Refused(_) => None,
        }
    }

    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Missing)
    }
}

/// Says why a meta row was not read, and what that makes of its chat.
pub(super) struct MetaRowError {
    pub(super) why: String,
    pub(super) activity: Activity,
}

impl ChatFiles {
    /// Looks at a directory; `None` if no chat is in it.
    pub(super) fn of(directory: PathBuf) -> Option<Self> {
        let database = FileState::of(&directory.join(DATABASE));
        // Without a database there is no log to look for.
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

    pub(super) fn database_path(&self) -> PathBuf {
        self.directory.join(DATABASE)
    }

    /// When a file of it last changed.
    pub(super) fn changed_ms(&self) -> Option<i64> {
        self.database.modified_ms().max(self.wal.modified_ms())
    }

    fn meta_file(&self) -> Option<&SessionMetaFile> {
        match &self.meta_file {
            MetaFile::Read(meta_file) => Some(meta_file),
            MetaFile::Missing | MetaFile::Unreadable(_) => None,
        }
    }

    /// Whether it is the store of a sub-agent may only be told by the database: such stores have no `meta.json`, but
    /// those of older builds have none either.
    pub(super) fn needs_meta_row(&self) -> bool {
        let is_told = self.meta_file().is_some_and(|meta_file| meta_file.is_subagent != Some(true));
        !is_told && !self.database.is_missing()
    }

    /// Reads the meta row in the cheapest way there is.
    pub(super) fn meta_row(&self) -> Result<Option<ChatMeta>, MetaRowError> {
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

    /// Tells whether there is no log, so that the pages of the database are what they should be.
    pub(super) fn is_closed(&self) -> bool {
        let has_log = self.wal.n_bytes() > 0 || matches!(self.wal, FileState::Refused(_));
        !has_log && !self.directory.join("store.db-journal").exists()
    }

    /// What is known without opening the database.
    pub(super) fn head(&self, store: StoreKind, key: &str, id: &str) -> Head {
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
        // `meta.json` is written when a turn ends; a log with content is from one that has not.
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

/// A directory below another.
#[derive(Debug)]
pub(super) struct Below {
    /// Such as `<bucket>/<uuid>`.
    pub(super) name: String,
    pub(super) path: PathBuf,
}

/// Everything directly below a directory that is one itself, by name; `refuse` is told of what is passed over and why.
pub(super) fn directories_below(
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
