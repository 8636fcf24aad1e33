//! Adds the new part of a copy to an existing session.

use std::path::Path;

use super::import::ImportError;
use crate::chat::store::StoreTransaction;
use crate::chat::{BlobId, ChatMeta, Fetched, LatestRoot};
use crate::session_copy::error::CopyError;
use crate::session_copy::source::{Source, with_source};

/// Adds the blobs of `newer` that a store lacks or has damaged, and moves its root, in one transaction. Returns the
/// number of added blobs, and their size.
pub(crate) fn add_missing(
    database: &Path,
    newer: &Source,
    old_root: BlobId,
    new_root: BlobId,
) -> Result<(u64, u64), ImportError> {
    // Read before the transaction: closing another descriptor of the file would release SQLite's locks.
    let missing = with_source(database, |old| {
        old.check_sound()?;
        missing_of(old, newer)
    })?;
    let transaction = StoreTransaction::begin(database, None).map_err(CopyError::from)?;
    let row = transaction.meta_row().map_err(CopyError::from)?;
    let mut meta = ChatMeta::from_row(&row.ok_or(CopyError::NoMeta)?)
        .map_err(|err| CopyError::Meta(err.into()))?;
    if meta.latest_root() != LatestRoot::Blob(old_root) {
        return Err(ImportError::ChangedMeanwhile);
    }
    let mut n_bytes = 0;
    for id in &missing {
        let Fetched::Data(data) = newer.fetch(*id)? else { continue };
        n_bytes += data.len() as u64;
        transaction.put(*id, &data).map_err(CopyError::from)?;
    }
    meta.set_latest_root(new_root);
    let written = transaction.put_meta(&meta).and_then(|()| transaction.commit());
    written.map_err(CopyError::from)?;
    Ok((missing.len() as u64, n_bytes))
}

fn missing_of(old: &Source, newer: &Source) -> Result<Vec<BlobId>, ImportError> {
    let mut missing = Vec::new();
    for blob in &newer.blobs {
        if !old.ids.contains(&blob.id) || old.intact(blob.id)?.is_none() {
            missing.push(blob.id);
        }
    }
    Ok(missing)
}
