//! Imports a session from another machine: checks all of it, then creates the session or extends the existing one.

use std::path::{Path, PathBuf};

use super::header::WITHOUT_PATHS;
use super::machine_paths::PathChange;
use super::moved::moved;
use super::reader::{BundleReader, ReadBundleError};
use super::root_relation::{Progress, RootRelation};
use super::store_update::add_missing;
use crate::chat::BlobId;
use crate::session_copy::error::{CopyError, WriteStoreError};
use crate::session_copy::fork::check_prompt;
use crate::session_copy::fork_point::{Checkpoint, latest_checkpoint};
use crate::session_copy::is_open_for_writing;
use crate::session_copy::new_session::NewSession;
use crate::session_copy::source::{Source, with_source};
use crate::session_copy::staging::Staging;
use crate::session_copy::store_writer::StoreWriter;

/// The result of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Imported {
    /// The session is new here.
    Placed { directory: PathBuf, root: BlobId, n_blobs: u64, n_bytes: u64, n_paths_left_out: u64 },
    /// The session existed here, and was extended.
    Extended {
        directory: PathBuf,
        root: BlobId,
        n_added_blobs: u64,
        n_added_bytes: u64,
        n_paths_left_out: u64,
    },
    /// The session here is the same, or newer.
    NothingNew { directory: PathBuf, root: BlobId },
}

/// Says why a bundle could not be imported. On every error, nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    #[error(transparent)]
    Bundle(#[from] ReadBundleError),
    #[error("the bundle does not hold a conversation that can be continued")]
    NotWhole(#[source] CopyError),
    /// Both conversations have grown since they diverged.
    #[error("the session here and the session in the bundle have diverged")]
    Diverged { here: BlobId, bundled: BlobId },
    #[error("the session here cannot be compared with the session in the bundle")]
    Incomparable(#[source] CopyError),
    #[error("another process has the session open for writing")]
    InUse,
    #[error("the session here changed while it was being compared")]
    ChangedMeanwhile,
    #[error("the session here cannot be read")]
    Source(#[source] CopyError),
    #[error("the session cannot be written")]
    Write(#[source] WriteStoreError),
    #[error(transparent)]
    Place(CopyError),
}

impl From<CopyError> for ImportError {
    fn from(err: CopyError) -> Self {
        match err {
            CopyError::Write(err) => Self::Write(err),
            CopyError::Name { .. } | CopyError::Place { .. } => Self::Place(err),
            _ => Self::Source(err),
        }
    }
}

/// Imports a bundle. The caller holds the session's lease, and knows that no other bucket has the session.
pub fn import(bundle: &mut BundleReader, target: &NewSession) -> Result<Imported, ImportError> {
    let directory = target.directory();
    let staging = target.stage()?;
    let (newer, n_paths_left_out) = unpack(bundle, target, &staging)?;
    let checkpoint = checked(&newer)?;
    let header = bundle.header();

    let database = directory.join("store.db");
    if database.symlink_metadata().is_ok() {
        return extend(&database, &newer, &checkpoint, directory, n_paths_left_out);
    }
    let (n_blobs, n_bytes) = (newer.ids.len() as u64, newer.n_bytes());
    drop(newer);
    let title = header.title.as_deref().or(header.name.as_deref());
    target.place(staging, title, header.created_at_ms)?;
    Ok(Imported::Placed { directory, root: checkpoint.id, n_blobs, n_bytes, n_paths_left_out })
}

/// Makes a store from the bundle. Returns how many paths it rejected because they lead out of the workspace. Our own
/// bundles have none.
fn unpack(
    bundle: &mut BundleReader,
    target: &NewSession,
    staging: &Staging,
) -> Result<(Source, u64), ImportError> {
    let has_paths_to_fill_in = bundle.header().version >= WITHOUT_PATHS;
    // The bundle is trusted only after all of it has been checked. Until then its blobs stay in the staging directory.
    let packed = if has_paths_to_fill_in { staging.scratch() } else { staging.database() };
    let mut writer = StoreWriter::create(&packed)?;
    bundle.visit_all(|id, data| writer.put(id, data).map_err(ImportError::from))?;
    let (header, root) = (bundle.header(), bundle.root());
    writer.finish(&header.meta(&target.id, root, target.now_ms))?;
    let packed = Source::open(&packed)?;
    if !has_paths_to_fill_in {
        return Ok((packed, 0));
    }
    checked(&packed)?;
    let moved = moved(&packed, root, PathChange::Arrival { workspace: &target.workspace })?;
    let mut writer = StoreWriter::create(&staging.database())?;
    moved.visit(&packed, |id, data| writer.put(id, data))?;
    writer.finish(&header.meta(&target.id, moved.root, target.now_ms))?;
    Ok((Source::open(&staging.database())?, moved.left_out.n_paths))
}

fn checked(newer: &Source) -> Result<Checkpoint, ImportError> {
    let read = || -> Result<Checkpoint, CopyError> {
        let checkpoint = latest_checkpoint(newer, &newer.meta()?)?;
        check_prompt(newer, &checkpoint)?;
        Ok(checkpoint)
    };
    read().map_err(ImportError::NotWhole)
}

fn extend(
    database: &Path,
    newer: &Source,
    bundled: &Checkpoint,
    directory: PathBuf,
    n_paths_left_out: u64,
) -> Result<Imported, ImportError> {
    if is_open_for_writing(database) {
        return Err(ImportError::InUse);
    }
    let (here, relation) = with_source(database, |older| -> Result<_, ImportError> {
        older.check_whole()?;
        // Never write to a damaged store.
        older.check_sound()?;
        let here = latest_checkpoint(older, &older.meta()?).map_err(ImportError::Incomparable)?;
        let progress = Progress::of(older, &here)?;
        let relation = RootRelation::of(&progress, &Progress::of(newer, bundled)?);
        Ok((here, relation))
    })?;
    match relation {
        RootRelation::Same | RootRelation::IsExtended => {
            Ok(Imported::NothingNew { directory, root: here.id })
        }
        RootRelation::Diverged => Err(ImportError::Diverged { here: here.id, bundled: bundled.id }),
        RootRelation::Extends => {
            let (n_added_blobs, n_added_bytes) = add_missing(database, newer, here.id, bundled.id)?;
            Ok(Imported::Extended {
                directory,
                root: bundled.id,
                n_added_blobs,
                n_added_bytes,
                n_paths_left_out,
            })
        }
    }
}

#[cfg(test)]
#[path = "import_tests.rs"]
mod tests;
