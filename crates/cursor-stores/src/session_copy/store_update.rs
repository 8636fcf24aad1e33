//! Adding to a session that is there what a newer copy of it has.

use std::path::Path;

use super::import::ImportError;
use super::reachable::{CopySourceError, Source, with_source};
use super::store_writer::StoreTransaction;
use crate::chat::{BlobId, ChatMeta, Fetched, LatestRoot};

/// Adds the blobs of `newer` that are missing from a store, or damaged in it, and moves its root, all at once or not at
/// all. Returns how many were added, and their bytes.
pub(super) fn add_missing(
    database: &Path,
    newer: &Source,
    old_root: BlobId,
    new_root: BlobId,
) -> Result<(u64, u64), ImportError> {
    // Before the store is opened for writing: closing a file that SQLite has open would give up its locks.
    let missing = with_source(database, |old| {
        old.check_sound()?;
        missing_of(old, newer)
    })?;
    let transaction = StoreTransaction::begin(database)?;
    let mut meta = ChatMeta::from_row(&transaction.meta_row()?)
        .map_err(|err| ImportError::Source(CopySourceError::Meta(err.into())))?;
    if meta.latest_root() != LatestRoot::Blob(old_root) {
        return Err(ImportError::ChangedMeanwhile);
    }
    let mut n_bytes = 0;
    for id in &missing {
        let Fetched::Data(data) = newer.fetch(*id)? else { continue };
        n_bytes += data.len() as u64;
        transaction.put(*id, &data)?;
    }
    meta.set_latest_root(new_root);
    transaction.put_meta(&meta)?;
    transaction.commit()?;
    Ok((missing.len() as u64, n_bytes))
}

fn missing_of(old: &Source, newer: &Source) -> Result<Vec<BlobId>, ImportError> {
    let mut missing = Vec::new();
    for blob in &newer.blobs {
        let is_there = old.ids.contains(&blob.id)
            && matches!(old.fetch(blob.id)?, Fetched::Data(data) if BlobId::of(&data) == blob.id);
        if !is_there {
            missing.push(blob.id);
        }
    }
    Ok(missing)
}
