//! Chats of the command line agent and of ACP sessions: a session's `store.db`, and the `meta.json` next to it.
//!
//! ```text
//! ChatsRoot ─► ChatFiles ─► Head                                              list: no database is opened
//!     └──────► ChatStore ─► root ─► prompt_list ─► json_message ─┐
//!                              └──► turn_history ────────────────┴► joined_history ─► Conversation
//! ```

#[cfg(test)]
mod captures_tests;
mod history;
mod listing;
mod messages;
mod reading;
pub(crate) mod resume;
pub mod schema;
mod search;
#[cfg(test)]
mod search_tests;
pub(crate) mod store;

pub use messages::pending::{PendingMessages, PendingToolCall, parse_pending};
pub use resume::ancestry::Ancestry;
pub use resume::finding::{Place, Severity, StoreFinding};
pub use resume::furthest::furthest;
pub use resume::integrity::{LatestState, StoreCheck, check_store};
pub use resume::resumability::{Depth, NotResumable, ResumePoint, Unresumable, resume_point};
pub use resume::root_pointer::{PutBack, RootPointerError, latest_ancestry, put_back};
pub use schema::decode::{Decoded, Fidelity, decode_message};
pub use schema::references;
pub use store::blob_id::{BlobId, NotABlobId};
pub use store::chat_store::{ChatStore, ChatStoreError};
pub use store::meta::{BlobEncryptionKey, ChatMeta, LatestRoot, ReadChatMetaError, SubagentOrigin};
pub use store::session_meta_file::{ReadSessionMetaError, SessionMetaFile};
pub use store::writable_store::WritableStore;
pub use store::writers::{StoreWriter, writers_of};

pub(crate) use listing::chats_root::discover;
pub(crate) use messages::{CallResult, JsonMessage};
pub(crate) use reading::chat::{meta_row, with_store};
pub(crate) use reading::raw::visit_raw_store;
pub(crate) use resume::integrity::missing_history;
pub(crate) use store::blobs::{Fetched, Rows, Scanned, StoredBlob};
pub(crate) use store::chat_store::MAX_BLOB_BYTES;
pub(crate) use store::writers::Writers;

/// Fuzzes the reader of prompt messages and pending messages.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_message(bytes: &[u8]) {
    if let Some(message) = messages::json_message::JsonMessage::parse(bytes) {
        message.fingerprint();
        drop(history::draft::Draft::of_message(None, message, 0));
    }
    drop(parse_pending(&[String::from_utf8_lossy(bytes).into_owned()]));
}

/// Fuzzes the decoder of each blob kind.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_blob(bytes: &[u8]) {
    for kind in references::BlobKind::ALL {
        references::visit_references(kind, bytes, &mut |reference| {
            drop(reference.field.to_string())
        })
        .ok();
    }
    schema::wire_json::wire_json(bytes);
}

/// Fuzzes the meta row, `meta.json`, and the pages that the crate reads without SQLite.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_meta(bytes: &[u8]) {
    drop(ChatMeta::from_row(bytes));
    drop(SessionMetaFile::parse(bytes));
    drop(store::meta_page::meta_in(bytes));
    store::database_page::local_rows(bytes)
        .for_each(|row| drop(crate::database::record_format::record(row)));
}
