//! Why a database could not be opened or read.

use rusqlite::ErrorCode;

use crate::database::salvage::SalvageError;
use crate::plain_file::PlainFileError;

/// Says why a database could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenDatabaseError {
    #[error("the database is not a file that can be opened")]
    File(#[from] PlainFileError),
    #[error("the database file is empty")]
    Empty,
    #[error("the file is not an SQLite database")]
    NotADatabase,
    /// The reader waited as long as [`super::lock_patience`] allows.
    #[error("the database is locked by another process")]
    Locked,
    #[error("the database kept changing while it was being opened")]
    Changing,
    #[error(transparent)]
    NotSalvageable(#[from] SalvageError),
    #[error("the database could not be opened")]
    Sqlite(#[from] rusqlite::Error),
}

/// Says why reading from an open database failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadDatabaseError {
    /// The data may mix two states. Open the database again.
    #[error("the database changed while it was being read")]
    Changed,
    #[error("the database could not be read")]
    Sqlite(#[from] rusqlite::Error),
}

impl ReadDatabaseError {
    /// Converts the error to the one that opening a database returns.
    pub(crate) fn of_opening(self) -> OpenDatabaseError {
        match self {
            Self::Changed => OpenDatabaseError::Changing,
            Self::Sqlite(err) => classify(err),
        }
    }

    /// True if a part of the file is damaged, not just locked, changed or out of reach.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, Self::Sqlite(err) if is_damage(err))
    }
}

/// Like [`ReadDatabaseError::is_damage`], but an interrupted read counts too: no writer leaves pages that take so long
/// to read.
pub(crate) fn is_damage(err: &rusqlite::Error) -> bool {
    matches!(
        err.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::OperationInterrupted)
    )
}

/// Creates the error that SQLite reports for damage. Used for damage that SQLite does not look for.
pub(crate) fn contradiction() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    rusqlite::Error::SqliteFailure(code, None)
}

fn classify(err: rusqlite::Error) -> OpenDatabaseError {
    match err.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenDatabaseError::NotADatabase,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => OpenDatabaseError::Locked,
        _ => OpenDatabaseError::Sqlite(err),
    }
}
