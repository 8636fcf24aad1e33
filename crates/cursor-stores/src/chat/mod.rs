//! Chats of the command line agent and of ACP sessions: the `store.db` of a session and the `meta.json` beside it.
//!
//! ```text
//! ChatsRoot ─► ChatFiles ─► Head                                              list: no database is opened
//!     └──────► ChatStore ─► root ─► prompt_list ─► json_message ─┐
//!                              └──► turn_history ────────────────┴► joined_history ─► Conversation
//! ```

#[cfg(test)]
mod agreement_tests;
mod alignment;
pub(crate) mod ancestry;
mod answered_calls;
mod blob_id;
mod blobs;
#[cfg(test)]
mod captures_tests;
mod chat_account;
mod chat_conversation;
mod chat_files;
mod chat_head;
mod chat_raw;
mod chat_reading;
#[cfg(test)]
mod chat_reading_tests;
mod chat_search;
#[cfg(test)]
mod chat_search_tests;
mod chat_store;
#[cfg(test)]
mod chat_survival_tests;
mod chats_root;
#[cfg(test)]
mod chats_root_tests;
mod conversation_root;
mod database_page;
mod decode;
mod draft;
mod integrity;
mod joined_history;
mod json_binary;
mod json_message;
pub mod known_tool_schema;
mod left_over;
mod links;
mod message_times;
mod meta;
mod meta_page;
mod notes;
mod pending;
mod prompt_list;
mod reach;
pub mod references;
mod resumability;
mod root_pointer;
pub mod schema;
#[cfg(test)]
mod schema_tests;
mod session_meta_file;
mod side_state;
mod tool_result;
pub mod tool_schema;
mod tool_step;
mod turn_assembly;
mod turn_history;
pub mod turn_schema;
pub mod value_schema;
pub(crate) mod wire;
mod wire_json;
mod writers;

pub use ancestry::Ancestry;
pub use blob_id::{BlobId, NotABlobId};
pub use chat_store::{BlobCounts, ChatStore, OpenChatStoreError, ReadBlobError, ReadMetaError};
pub use decode::{Decoded, Fidelity, decode_message};
pub use integrity::{
    BearsOn, CheckStoreError, Coverage, Finding, LatestState, Problem, Referrer, RootState,
    StoreCheck, check_store,
};
pub use meta::{BlobEncryptionKey, ChatMeta, LatestRoot, ReadChatMetaError, SubagentOrigin};
pub use pending::{PendingMessages, PendingToolCall, parse_pending};
pub use resumability::{Depth, NotResumable, ResumePoint, Unresumable, resume_point};
pub use root_pointer::{PutBack, RootPointerError, latest_ancestry, put_back};
pub use session_meta_file::{ReadSessionMetaError, SessionMetaFile};
pub use writers::{StoreWriter, writers_of};

pub(crate) use blobs::{Fetched, Rows, Scanned, StoredBlob};
pub(crate) use chat_raw::visit_raw_store;
pub(crate) use chat_reading::{meta_row, with_store};
pub(crate) use chat_store::MAX_BLOB_BYTES;
pub(crate) use chats_root::discover;
pub(crate) use integrity::missing_history;
pub(crate) use writers::Writers;

/// A message of the prompt, or one that is pending.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_message(bytes: &[u8]) {
    if let Some(message) = json_message::JsonMessage::parse(bytes) {
        message.fingerprint();
        drop(draft::Draft::of_message(None, message, 0));
    }
    drop(parse_pending(&[String::from_utf8_lossy(bytes).into_owned()]));
}

/// A blob, taken for each of the kinds that there are.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_blob(bytes: &[u8]) {
    use references::BlobKind;
    for kind in [
        BlobKind::Root,
        BlobKind::PromptMessage,
        BlobKind::Turn,
        BlobKind::OldTurn,
        BlobKind::UserMessage,
        BlobKind::Step,
        BlobKind::ShellCommand,
        BlobKind::ShellOutput,
        BlobKind::Todo,
        BlobKind::Summary,
        BlobKind::Plan,
        BlobKind::Archive,
        BlobKind::FileState,
        BlobKind::SubagentState,
        BlobKind::Text,
        BlobKind::Opaque,
    ] {
        references::visit_references(kind, bytes, &mut |reference| {
            drop(reference.field.to_string())
        })
        .ok();
    }
    wire_json::wire_json(bytes);
}

/// A row of meta, a file beside it, and the pages that we read without SQLite.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_meta(bytes: &[u8]) {
    drop(ChatMeta::from_row(bytes));
    drop(SessionMetaFile::parse(bytes));
    drop(meta_page::meta_in(bytes));
    database_page::local_rows(bytes).for_each(|row| drop(crate::record_format::record(row)));
}
