//! Restores the pointer to the latest root.
//!
//! An agent that forgot its conversation started an empty one instead. The old conversation is still there: only
//! `latestRootBlobId` points elsewhere. The caller holds the session's lease and knows that the agent is dead.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ancestry::Ancestry;
use crate::chat::schema::ConversationStateStructure;
use crate::chat::store::{
    BlobId, ChatMeta, ChatStore, LatestRoot, ReadChatMetaError, StoreTransaction,
};
use crate::database::DatabaseFingerprint;
use crate::plain_file::PlainFileError;
use prost::Message;

/// Far longer than two lookups and one update take.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// The change that [`put_back`] made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutBack {
    /// The earlier root. `None` if the pointer was empty, or not a blob id.
    pub from: Option<BlobId>,
    pub to: BlobId,
}

/// Says why the pointer could not be changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootPointerError {
    #[error("the store is not a plain file")]
    File(#[from] PlainFileError),
    #[error("the store's directory cannot be resolved")]
    Directory(#[source] std::io::Error),
    #[error("the store could not be changed")]
    Database(#[from] rusqlite::Error),
    #[error("the store has no description of the session")]
    NoMeta,
    #[error(transparent)]
    Meta(#[from] ReadChatMetaError),
    #[error("the store no longer has the checkpoint {0}")]
    RootGone(BlobId),
}

/// Reads the latest root and its ancestry. The ancestry is `None` if the root cannot be decoded.
///
/// Fails only if the store itself cannot be read.
pub fn latest_ancestry(
    store_db: &Path,
) -> Result<(Option<BlobId>, Option<Ancestry>), Box<dyn std::error::Error + Send + Sync>> {
    let store = ChatStore::open_read_only(store_db)?;
    let Some(meta) = store.meta()? else { return Ok((None, None)) };
    let LatestRoot::Blob(root) = meta.latest_root() else { return Ok((None, None)) };
    let ancestry = store.at_once(|blobs| {
        let state = blobs.get_by_index(root)?.data();
        let state = state.and_then(|data| ConversationStateStructure::decode(data.as_slice()).ok());
        state.map(|state| Ancestry::of(blobs, &state)).transpose()
    })?;
    Ok((Some(root), ancestry))
}

/// Makes `to` the latest root again, in one transaction. Changes nothing else in the row.
pub fn put_back(store_db: &Path, to: BlobId) -> Result<PutBack, RootPointerError> {
    let transaction = StoreTransaction::begin(&plain_path(store_db)?, Some(TIME_LIMIT))?;
    if !transaction.has_blob(to)? {
        return Err(RootPointerError::RootGone(to));
    }
    let mut meta = ChatMeta::from_row(&transaction.meta_row()?.ok_or(RootPointerError::NoMeta)?)?;
    let from = meta.latest_root().blob();
    meta.set_latest_root(to);
    transaction.put_meta(&meta)?;
    transaction.commit()?;
    Ok(PutBack { from, to })
}

/// Resolves links in the path of the directory. The store itself must not be a link.
fn plain_path(store_db: &Path) -> Result<PathBuf, RootPointerError> {
    DatabaseFingerprint::of(store_db)?;
    match (store_db.parent().map(std::fs::canonicalize), store_db.file_name()) {
        (Some(parent), Some(name)) => Ok(parent.map_err(RootPointerError::Directory)?.join(name)),
        _ => Ok(store_db.to_owned()),
    }
}

#[cfg(test)]
#[path = "root_pointer_tests.rs"]
mod tests;
