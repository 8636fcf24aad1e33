//! One chat of the command line agent: the `store.db` of a session and the `meta.json` beside it.

mod blob_id;
#[cfg(test)]
mod captures_tests;
mod chat_store;
mod decode;
mod integrity;
pub mod known_tool_schema;
mod meta;
mod pending;
pub mod references;
pub mod schema;
#[cfg(test)]
mod schema_tests;
mod session_meta_file;
pub mod tool_schema;
pub mod turn_schema;
pub mod value_schema;

pub use blob_id::{BlobId, NotABlobId};
pub use chat_store::{BlobCounts, ChatStore, OpenChatStoreError, ReadBlobError, ReadMetaError};
pub use decode::{Decoded, Fidelity, decode_message};
pub use integrity::{
    BearsOn, CheckStoreError, Coverage, Finding, LatestState, Problem, Referrer, RootState,
    StoreCheck, check_store,
};
pub use meta::{BlobEncryptionKey, ChatMeta, LatestRoot, ReadChatMetaError, SubagentOrigin};
pub use pending::{PendingMessages, PendingToolCall, parse_pending};
pub use session_meta_file::{ReadSessionMetaError, SessionMetaFile};

pub(crate) fn discover(_places: &crate::StorePlaces) -> Vec<crate::store::Discovered> {
    Vec::new()
}
