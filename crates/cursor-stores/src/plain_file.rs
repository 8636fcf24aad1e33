//! Opens only plain files: a FIFO would hang the reader, and a symlink could lead anywhere.

use std::fs::{self, File, FileType, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Says why a path is not a plain file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlainFileError {
    #[error("`{path}` does not exist")]
    Missing { path: PathBuf },
    #[error("`{path}` is a {kind}, not a plain file")]
    NotPlain { path: PathBuf, kind: &'static str },
    #[error("`{path}` was replaced while it was being opened")]
    Replaced { path: PathBuf },
    #[error("`{path}` has more than {limit} bytes")]
    TooLarge { path: PathBuf, limit: u64 },
    #[error("`{path}` cannot be read")]
    Read { path: PathBuf, source: io::Error },
}

/// Returns the metadata of a plain file, without following a symlink and without opening anything.
pub(crate) fn inspect(path: &Path) -> Result<Metadata, PlainFileError> {
    let metadata = fs::symlink_metadata(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => PlainFileError::Missing { path: path.to_owned() },
        _ => PlainFileError::Read { path: path.to_owned(), source },
    })?;
    match special_kind(metadata.file_type()) {
        None => Ok(metadata),
        Some(kind) => Err(PlainFileError::NotPlain { path: path.to_owned(), kind }),
    }
}

/// Opens a plain file for reading. Fails if another file took its place after the check.
pub(crate) fn open(path: &Path) -> Result<File, PlainFileError> {
    let expected = inspect(path)?;
    let failed = |source| PlainFileError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let actual = file.metadata().map_err(failed)?;
    if (expected.dev(), expected.ino()) == (actual.dev(), actual.ino()) {
        Ok(file)
    } else {
        Err(PlainFileError::Replaced { path: path.to_owned() })
    }
}

/// Returns a number that changes when the file is written or replaced. `None` if there is no plain file.
pub(crate) fn stamp(path: &Path) -> Option<u64> {
    let file = inspect(path).ok()?;
    let mut hasher = DefaultHasher::new();
    (file.dev(), file.ino(), file.len(), file.mtime(), file.mtime_nsec()).hash(&mut hasher);
    Some(hasher.finish())
}

/// Opens a plain file of at most `limit` bytes.
pub(crate) fn open_at_most(path: &Path, limit: u64) -> Result<File, PlainFileError> {
    let file = open(path)?;
    let failed = |source| PlainFileError::Read { path: path.to_owned(), source };
    if file.metadata().map_err(failed)?.len() > limit {
        return Err(PlainFileError::TooLarge { path: path.to_owned(), limit });
    }
    Ok(file)
}

/// Reads a whole plain file of at most `limit` bytes.
pub(crate) fn read_at_most(path: &Path, limit: u64) -> Result<Vec<u8>, PlainFileError> {
    let mut bytes = Vec::new();
    open_at_most(path, limit)?
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|source| PlainFileError::Read { path: path.to_owned(), source })?;
    if bytes.len() as u64 > limit {
        return Err(PlainFileError::TooLarge { path: path.to_owned(), limit });
    }
    Ok(bytes)
}

fn special_kind(file_type: FileType) -> Option<&'static str> {
    if file_type.is_file() {
        None
    } else if file_type.is_dir() {
        Some("directory")
    } else if file_type.is_symlink() {
        Some("symbolic link")
    } else if file_type.is_fifo() {
        Some("FIFO")
    } else if file_type.is_socket() {
        Some("socket")
    } else {
        Some("device")
    }
}
