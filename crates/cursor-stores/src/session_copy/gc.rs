//! What a session could do without: blobs that nothing names any more, and directories in which nothing was ever said.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::reachable::{AsSourceError, CopySourceError, Source, with_source};
use super::replace::{ReplaceError, Replacement};
use super::store_writer::{StoreWriter, WriteStoreError};
use super::verify::{StoreVerdict, verify, verify_store};
use crate::chat::BlobId;
use crate::plain_file;

/// What can be dropped from a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Droppable {
    pub n_blobs: u64,
    pub n_bytes: u64,
    /// Of how many.
    pub n_all_blobs: u64,
    pub n_all_bytes: u64,
    /// Why nothing will be dropped all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub untouchable: Option<Untouchable>,
}

/// Why a store is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Untouchable {
    /// Something is wrong with it: what looks superfluous may be what it is mended with.
    Unsound,
    InUse,
}

/// What was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Collected {
    pub n_blobs: u64,
    pub n_bytes: u64,
    /// By how much the files became smaller.
    pub n_freed_bytes: u64,
}

/// Says why nothing was dropped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    #[error(transparent)]
    Source(#[from] CopySourceError),
    #[error("something is wrong with the store, and it is left as it is")]
    Unsound,
    #[error("the smaller copy cannot be written")]
    Write(#[from] WriteStoreError),
    #[error("the original cannot be kept at `{}`", .path.display())]
    BackUp { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Replace(#[from] ReplaceError),
    /// A mistake of ours, found before it did harm.
    #[error("the smaller copy is not as it should be")]
    CopyDiffers,
}

impl AsSourceError for CollectError {
    fn as_source_error(&self) -> Option<&CopySourceError> {
        match self {
            Self::Source(err) => Some(err),
            _ => None,
        }
    }
}

/// How long a session may have nothing but its description before it counts as abandoned: one that was just begun looks
/// the same.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Says what could be dropped: what neither the store's own checkpoint nor one of `kept` leads to. Changes nothing.
pub fn droppable(database: &Path, kept: &[BlobId]) -> Result<Droppable, CopySourceError> {
    let verdict = verify_store(database, kept)?;
    let untouchable = if !verdict.is_sound() {
        Some(Untouchable::Unsound)
    } else if super::is_open_for_writing(database) {
        Some(Untouchable::InUse)
    } else {
        None
    };
    Ok(Droppable {
        n_blobs: verdict.n_orphans,
        n_bytes: verdict.n_orphan_bytes,
        n_all_blobs: verdict.n_blobs,
        n_all_bytes: verdict.n_bytes,
        untouchable,
    })
}

/// What becomes of the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Original<'a> {
    /// Its files are kept in this directory, which is made.
    KeptIn(&'a Path),
    Dropped,
}

/// Replaces a store by a copy without what neither its own checkpoint nor one of `kept` leads to. `root` is the directory
/// of all buckets, or of ACP sessions; the caller holds the session's lease.
pub fn collect(
    directory: &Path,
    root: &Path,
    kept: &[BlobId],
    original: Original<'_>,
) -> Result<Collected, CollectError> {
    let database = directory.join("store.db");
    let n_file_bytes = file_bytes(directory);
    let replacement = Replacement::begin(directory, root)?;
    let before =
        with_source(&database, |source| write_copy(source, &replacement, &database, kept))?;
    let after = verify_store(&replacement.staging.database(), kept)?;
    let memory =
        |verdict: &StoreVerdict| (verdict.root, verdict.n_prompt_messages, verdict.n_turns);
    let is_same = memory(&before) == memory(&after)
        && after.keeps_memory()
        && after.n_orphans == 0
        && after.n_blobs == before.n_blobs - before.n_orphans;
    if !is_same {
        return Err(CollectError::CopyDiffers);
    }
    let n_copy_bytes = file_bytes(&replacement.staging.session());
    if let Original::KeptIn(backup) = original {
        replacement
            .back_up(backup)
            .map_err(|source| CollectError::BackUp { path: backup.to_owned(), source })?;
    }
    replacement.finish()?;
    Ok(Collected {
        n_blobs: before.n_orphans,
        n_bytes: before.n_orphan_bytes,
        n_freed_bytes: n_file_bytes.saturating_sub(n_copy_bytes),
    })
}

fn write_copy(
    source: &Source,
    replacement: &Replacement,
    database: &Path,
    kept: &[BlobId],
) -> Result<StoreVerdict, CollectError> {
    let verdict = verify(source, database, kept)?;
    let Some(root) = verdict.root.filter(|_| verdict.is_sound()) else {
        return Err(CollectError::Unsound);
    };
    let reach = source.reach_from(&[&[root], kept].concat())?;
    let path = replacement.staging.database();
    // What an attempt before this one left.
    fs::remove_file(&path).ok();
    let mut writer = StoreWriter::create(&path)?;
    let is_wanted = |id: &BlobId| reach.ids.contains(id);
    source.visit(is_wanted, |id, data| writer.put(id, data).map_err(CollectError::from))?;
    writer.finish(&source.meta()?)?;
    Ok(verdict)
}

fn file_bytes(directory: &Path) -> u64 {
    ["store.db", "store.db-wal"]
        .iter()
        .filter_map(|name| plain_file::inspect(&directory.join(name)).ok())
        .map(|file| file.len())
        .sum()
}

/// Tells whether a directory holds the description of a session and nothing else, and has for a day.
#[must_use]
pub fn is_abandoned_session(directory: &Path, now: SystemTime) -> bool {
    is_empty_session(directory)
        && plain_file::inspect(&directory.join("meta.json"))
            .ok()
            .and_then(|file| file.modified().ok())
            .and_then(|changed| now.duration_since(changed).ok())
            .is_some_and(|age| age > ABANDONED_AFTER)
}

/// Tells whether a directory holds the description of a session and nothing else.
#[must_use]
pub(super) fn is_empty_session(directory: &Path) -> bool {
    let is_plain = fs::symlink_metadata(directory).is_ok_and(|found| found.is_dir());
    let Ok(entries) = fs::read_dir(directory) else { return false };
    let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    is_plain && names == ["meta.json"] && plain_file::inspect(&directory.join("meta.json")).is_ok()
}

#[cfg(test)]
#[path = "gc_tests.rs"]
mod tests;
