//! What Cursor wrote: the places where Cursor keeps conversations, read without touching them.
//!
//! ```text
//! store.db ──► chat::ChatStore ──► ChatMeta ──► latest root ──► chat::check_store
//!              (read-only)         (one row)    (blob graph)    (missing, damaged, pending)
//! ```
//!
//! **Invariant:** nothing here writes to Cursor's files. Reading a closed store changes no byte and no directory entry.
//!
//! **Invariant:** every input is hostile. Reads are bounded, special files are refused before they are opened, no
//! decoder recurses deeper than a fixed limit, and no bytes make one panic.
//!
//! **Invariant:** a blob is decoded as what the field that refers to it says, never as what its bytes look like.
//!
//! **Invariant:** the encryption key of a store is carried, never shown.

pub mod chat;
mod plain_file;
mod read_only_database;
#[cfg(test)]
mod test_store;

pub use plain_file::PlainFileError;
pub use read_only_database::{DatabaseFingerprint, OpenDatabaseError, ReadDatabaseError};
