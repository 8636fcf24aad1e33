//! One `store.db` and the `meta.json` next to it: the file, its meta row, its blobs, and the processes that write to
//! it.

pub(crate) mod blob_id;
pub(crate) mod blobs;
pub(crate) mod chat_store;
pub(crate) mod database_page;
pub(crate) mod meta;
pub(crate) mod meta_page;
pub(crate) mod reach;
pub(crate) mod session_meta_file;
pub(crate) mod transaction;
pub(crate) mod writable_store;
pub(crate) mod writers;

pub(crate) use blob_id::{BlobId, ids_of};
pub(crate) use blobs::{Blobs, Fetched, RootProblem, Rows, Scanned};
pub(crate) use chat_store::{ChatStore, ChatStoreError};
pub(crate) use database_page::{table_page, visit_rows};
pub(crate) use meta::{ChatMeta, LatestRoot, ReadChatMetaError, lenient_integer};
pub(crate) use meta_page::{meta_in, read_meta_page};
pub(crate) use reach::{
    BlobWalk, EarlierStates, MAX_REFERENCES, Reached, Visit, reach, reach_with,
};
pub(crate) use session_meta_file::{ReadSessionMetaError, SessionMetaFile};
pub(crate) use transaction::{PUT_BLOB, PUT_META, StoreTransaction, open};
pub(crate) use writers::{FileIdentity, Writers};
