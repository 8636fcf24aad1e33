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
//! **Invariant:** nothing here writes to Cursor's files but `chat::put_back`, which sets one pointer of one store, and
//! `session_copy`, which does so on an explicit command only. Reading a closed store changes no byte and no directory
//! entry.
//!
//! **Invariant:** every input is hostile. Reads are bounded, special files are refused before they are opened, no
//! decoder recurses deeper than a fixed limit, and no bytes make one panic.
//!
//! **Invariant:** a blob is decoded as what the field that refers to it says, never as what its bytes look like.
//!
//! **Invariant:** the encryption key of a store is carried, never shown.

mod again;
mod catalogue;
pub mod chat;
mod database_copy;
mod database_error;
mod database_fingerprint;
mod database_holders;
mod editor_text;
mod export;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod ide;
mod ide_old;
mod index_check;
mod json_values;
mod lenient_json;
mod lock_patience;
mod mending;
mod merge;
pub mod model;
pub mod parallel;
mod places;
mod plain_file;
mod prompt_time;
mod raw_record;
mod read_only_database;
mod record_format;
mod said_already;
mod same_conversation;
mod sdk;
pub mod search;
mod search_index;
pub mod session_copy;
mod spread_times;
mod store;
#[cfg(test)]
mod test_store;
mod title;
mod transcript;
mod user_text;
mod workspace_json;

pub use catalogue::{Catalogue, CatalogueHit, CatalogueListing, OtherPlace, StoreDamage};
pub use database_fingerprint::DatabaseFingerprint;
pub use export::{ExportFileError, write_json, write_jsonl};
pub use places::StorePlaces;
pub use plain_file::PlainFileError;
pub use raw_record::{RawContent, RawRecord, VisitRaw};
pub use read_only_database::{OpenDatabaseError, ReadDatabaseError};
pub use same_conversation::{is_same_conversation, sdk_directory};
pub use search_index::{Candidates, Refreshed, SearchIndex, SearchIndexError};
pub use store::{
    Account, Branches, ConversationStore, Discovered, Encoding, Extent, Family, Hit,
    IndexableStore, Listing, ReadConversationError, Section, SkippedPlace, Treatment,
};
