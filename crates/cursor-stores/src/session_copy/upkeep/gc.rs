//! Finds and removes everything that a session does not need: blobs that nothing names, and directories without a
//! conversation.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::replace::Replacement;
use super::verify::{StoreVerdict, verify, verify_store};
use crate::chat::BlobId;
use crate::plain_file;
use crate::session_copy::error::CopyError;
use crate::session_copy::source::{Source, with_source};

/// The blobs that can be removed from a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Droppable {
    pub n_blobs: u64,
    pub n_bytes: u64,
    /// All blobs of the store.
    pub n_all_blobs: u64,
    pub n_all_bytes: u64,
    /// Why nothing may be removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub untouchable: Option<Untouchable>,
}

/// Why a store is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Untouchable {
    /// The store is damaged: its repair may need a blob that looks superfluous.
    Unsound,
    InUse,
}

/// The removed blobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Collected {
    pub n_blobs: u64,
    pub n_bytes: u64,
    /// How many bytes smaller the files are now.
    pub n_freed_bytes: u64,
}

/// A session with only a description counts as abandoned after this time. A session that just began looks the same.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Finds the blobs that neither the store's own checkpoint nor one of `kept` leads to. Changes nothing.
pub fn droppable(database: &Path, kept: &[BlobId]) -> Result<Droppable, CopyError> {
    let verdict = verify_store(database, kept)?;
    let untouchable = if !verdict.is_sound() {
        Some(Untouchable::Unsound)
    } else if crate::session_copy::is_open_for_writing(database) {
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

/// The fate of the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Original<'a> {
    /// Copy its files into this directory, which is created.
    KeptIn(&'a Path),
    Dropped,
}

/// Replaces a store with a copy of only the blobs that its own checkpoint or one of `kept` leads to. `root` is the
/// directory of all buckets, or of ACP sessions. The caller holds the session's lease.
pub fn collect(
    directory: &Path,
    root: &Path,
    kept: &[BlobId],
    original: Original<'_>,
) -> Result<Collected, CopyError> {
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
        return Err(CopyError::CopyDiffers);
    }
    let n_copy_bytes = file_bytes(&replacement.staging.session());
    if let Original::KeptIn(backup) = original {
        replacement.back_up(backup)?;
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
) -> Result<StoreVerdict, CopyError> {
    let verdict = verify(source, database, kept)?;
    let Some(root) = verdict.root.filter(|_| verdict.is_sound()) else {
        return Err(CopyError::Unsound);
    };
    let reach = source.reach_from(&[&[root], kept].concat())?;
    replacement.write(source, |id| reach.ids.contains(id), &source.meta()?)?;
    Ok(verdict)
}

fn file_bytes(directory: &Path) -> u64 {
    ["store.db", "store.db-wal"]
        .iter()
        .filter_map(|name| plain_file::inspect(&directory.join(name)).ok())
        .map(|file| file.len())
        .sum()
}

/// True if a directory has held only the description of a session for a day.
#[must_use]
pub fn is_abandoned_session(directory: &Path, now: SystemTime) -> bool {
    is_empty_session(directory)
        && plain_file::inspect(&directory.join("meta.json"))
            .ok()
            .and_then(|file| file.modified().ok())
            .and_then(|changed| now.duration_since(changed).ok())
            .is_some_and(|age| age > ABANDONED_AFTER)
}

/// True if a directory holds only the description of a session.
#[must_use]
pub(crate) fn is_empty_session(directory: &Path) -> bool {
    let is_plain = fs::symlink_metadata(directory).is_ok_and(|found| found.is_dir());
    let Ok(entries) = fs::read_dir(directory) else { return false };
    let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    is_plain && names == ["meta.json"] && plain_file::inspect(&directory.join("meta.json")).is_ok()
}

#[cfg(test)]
#[path = "gc_tests.rs"]
mod tests;
