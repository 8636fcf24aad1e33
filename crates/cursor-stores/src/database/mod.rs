//! Opens Cursor's databases read-only, and salvages damaged ones.

pub(crate) mod again;
mod copy;
mod error;
mod fingerprint;
mod holders;
mod index_check;
mod lock_patience;
mod read_only;
pub(crate) mod record_format;
pub(crate) mod salvage;

pub(crate) use again::{UseDatabaseError, again};
pub use error::{OpenDatabaseError, ReadDatabaseError};
pub(crate) use error::{contradiction, is_damage};
pub use fingerprint::DatabaseFingerprint;
pub(crate) use fingerprint::with_suffix;
pub(crate) use holders::{changed_recently, is_open_for_writing};
pub(crate) use index_check::IndexedTable;
pub(crate) use read_only::{ReadOnlyDatabase, VisitRow};
pub(crate) use salvage::Table as WrittenTable;
