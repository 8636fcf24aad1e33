//! Test stores in Cursor's format, and helpers that show whether reading changed anything.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use prost::Message;
use tempfile::TempDir;

use crate::chat::{BlobId, ChatMeta, WritableStore};

/// A store with an open writer. Everything is in `-wal` until the writer closes it.
pub(crate) struct TestStore {
    pub(crate) directory: TempDir,
    pub(crate) meta: ChatMeta,
    pub(crate) writer: WritableStore,
}

/// A store whose writer exited cleanly: one file, and no log.
pub(crate) struct ClosedStore {
    pub(crate) directory: TempDir,
}

impl TestStore {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let writer = open_writer(&directory.path().join("store.db"));
        Self {
            directory,
            meta: ChatMeta::new("5f1c3a52-0a7e-4d9f-8f6e-0d3f3c1b2a10", 1_790_000_000_000),
            writer,
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("store.db")
    }

    pub(crate) fn put(&self, data: &[u8]) -> BlobId {
        self.writer.put(data).unwrap()
    }

    pub(crate) fn put_message(&self, message: &impl Message) -> BlobId {
        self.put(&message.encode_to_vec())
    }

    pub(crate) fn put_as(&self, id: BlobId, data: &[u8]) {
        self.writer.put_as(&id.to_string(), data).unwrap();
    }

    pub(crate) fn put_root(&mut self, root: &impl Message) -> BlobId {
        let id = self.put_message(root);
        self.meta.set_latest_root(id);
        self.put_meta();
        id
    }

    pub(crate) fn put_meta(&self) {
        self.put_meta_value(self.meta.to_hex_row());
    }

    pub(crate) fn put_meta_value(&self, value: impl rusqlite::ToSql) {
        self.writer.put_meta(value).unwrap();
    }

    pub(crate) fn close(self) -> ClosedStore {
        self.writer.close().unwrap();
        ClosedStore { directory: self.directory }
    }

    /// Copies what a killed writer leaves behind: the main file and the log, without `-shm`.
    pub(crate) fn as_killed(&self) -> ClosedStore {
        let directory = tempfile::tempdir().unwrap();
        for name in ["store.db", "store.db-wal"] {
            fs::copy(self.directory.path().join(name), directory.path().join(name)).unwrap();
        }
        ClosedStore { directory }
    }
}

impl ClosedStore {
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("store.db")
    }
}

pub(crate) fn open_writer(path: &Path) -> WritableStore {
    WritableStore::open(path).unwrap()
}

/// The file properties that reading must not change.
#[derive(Debug, PartialEq)]
pub(crate) struct FilePicture {
    pub(crate) n_bytes: usize,
    pub(crate) content: BlobId,
    pub(crate) inode: u64,
    pub(crate) modified: (i64, i64),
}

/// Everything in a directory, by name.
pub(crate) fn picture_of(directory: &Path) -> BTreeMap<String, FilePicture> {
    let mut picture = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        let bytes = fs::read(entry.path()).unwrap();
        let file = FilePicture {
            n_bytes: bytes.len(),
            content: BlobId::of(&bytes),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        };
        picture.insert(entry.file_name().into_string().unwrap(), file);
    }
    picture
}

/// Everything below a directory, by path. Without `-shm`, which readers may change.
pub(crate) fn picture_of_tree(directory: &Path) -> BTreeMap<PathBuf, FilePicture> {
    let mut picture = BTreeMap::new();
    let mut rest = vec![directory.to_owned()];
    while let Some(directory) = rest.pop() {
        let (directories, files): (Vec<_>, Vec<_>) = fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .partition(|path| path.is_dir() && !path.is_symlink());
        rest.extend(directories);
        for file in files {
            let metadata = fs::symlink_metadata(&file).unwrap();
            if !metadata.is_file() || file.to_string_lossy().ends_with("-shm") {
                continue;
            }
            let bytes = fs::read(&file).unwrap();
            let facts = FilePicture {
                n_bytes: bytes.len(),
                content: BlobId::of(&bytes),
                inode: metadata.ino(),
                modified: (metadata.mtime(), metadata.mtime_nsec()),
            };
            picture.insert(file, facts);
        }
    }
    picture
}

/// Cuts the last pages off a database, as a full disk or a broken copy does.
pub(crate) fn cut_off_pages(database: &Path, n_pages: u64) {
    let file = fs::OpenOptions::new().write(true).open(database).unwrap();
    let n_bytes = file.metadata().unwrap().len();
    file.set_len(n_bytes.checked_sub(n_pages * 4096).unwrap()).unwrap();
}
