//! What Cursor wrote: the places where Cursor keeps conversations, read without touching them.
//!
//! ```text
//! places ──► chat  ide  ide_old  sdk  transcript     one reader per kind of store, behind one trait
//!              └────┴──────┴──────┴───────┘
//!                   ConversationStore ──► model::Conversation ──► Catalogue: one list of all, each once
//!
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

mod catalogue;
pub mod chat;
mod export;
mod ide;
mod ide_old;
mod merge;
pub mod model;
pub mod parallel;
mod places;
mod plain_file;
mod read_only_database;
mod sdk;
pub mod search;
mod store;
#[cfg(test)]
mod test_store;
mod transcript;

pub use catalogue::{Catalogue, CatalogueHit, CatalogueListing, StoreDamage};
pub use export::{ExportFileError, write_json, write_jsonl};
pub use places::StorePlaces;
pub use plain_file::PlainFileError;
pub use read_only_database::{DatabaseFingerprint, OpenDatabaseError, ReadDatabaseError};
pub use store::{
    Account, Branches, ConversationStore, Discovered, Extent, Family, Hit, Listing,
    ReadConversationError, SkippedPlace, Treatment,
};
