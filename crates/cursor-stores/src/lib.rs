//! Reads the conversations that Cursor keeps on a machine, without changing them.
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
//! **Invariant:** two places write to Cursor's files. `chat::put_back` sets one pointer in one store, and
//! `session_copy` writes on an explicit command. Reading a closed store changes no byte and no directory entry.
//!
//! **Invariant:** every input is hostile. Reads are bounded, special files are refused before they are opened, no
//! decoder recurses deeper than a fixed limit, and no bytes make a decoder panic.
//!
//! **Invariant:** the field that refers to a blob says how to decode it. The blob's bytes never do.
//!
//! **Invariant:** a store's encryption key may be copied, but is never shown.

mod catalogue;
pub mod chat;
mod database;
mod encryption_keys;
mod export;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod ide;
mod ide_old;
mod json_values;
mod lenient_json;
mod lines;
pub mod model;
pub mod parallel;
mod plain_file;
mod raw_record;
mod sdk;
pub mod search;
pub mod session_copy;
mod spread_times;
mod store;
#[cfg(test)]
mod test_store;
mod text;
mod transcript;
mod workspace_json;

pub use catalogue::{
    Catalogue, CatalogueHit, CatalogueListing, OtherPlace, StoreDamage, StorePlaces,
    is_same_conversation, sdk_directory,
};
pub use database::{DatabaseFingerprint, OpenDatabaseError, ReadDatabaseError};
pub use export::{ExportFileError, write_json, write_jsonl};
pub use plain_file::PlainFileError;
pub use raw_record::{RawContent, RawRecord, VisitRaw};
pub use search::index::{Candidates, Refreshed, SearchIndex, SearchIndexError};
pub use store::{
    Account, Branches, ConversationStore, Discovered, Encoding, Extent, Family, Found, Hit,
    IndexableStore, Listing, ReadConversationError, Section, SkippedPlace, Treatment,
};
