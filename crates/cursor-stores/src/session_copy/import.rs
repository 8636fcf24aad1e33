//! A session from another machine: checked whole, then placed, or added to what is here of it.

use std::io;
use std::path::{Path, PathBuf};

use super::bundle_reader::{BundleReader, ReadBundleError};
use super::fork::{ForkError, check_prompt};
use super::fork_point::{Checkpoint, ForkPointError, latest_checkpoint};
use super::is_open_for_writing;
use super::new_session::NewSession;
use super::reachable::{CopySourceError, Source};
use super::root_relation::{Progress, RootRelation};
use super::staging::Staging;
use super::store_update::add_missing;
use super::store_writer::{StoreWriter, WriteStoreError};
use crate::chat::BlobId;

/// What an import has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Imported {
    /// The session is new here.
    Placed { directory: PathBuf, root: BlobId, n_blobs: u64, n_bytes: u64 },
    /// The session was here, and went on.
    Extended { directory: PathBuf, root: BlobId, n_added_blobs: u64, n_added_bytes: u64 },
    /// The session here is the same, or went on since.
    NothingNew { directory: PathBuf, root: BlobId },
}

/// Says why a bundle was not imported. Nothing was changed then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    #[error(transparent)]
    Bundle(#[from] ReadBundleError),
    #[error("the bundle does not hold a conversation that can be continued")]
    NotWhole(#[source] ForkError),
    #[error("`{id}` in `{bucket}` is no name for a session")]
    Name { bucket: String, id: String },
    /// Both went on from where they parted.
    #[error("the session here went another way than the one in the bundle")]
    Diverged { here: BlobId, bundled: BlobId },
    #[error("the session here cannot be compared with the one in the bundle")]
    Incomparable(#[source] ForkPointError),
    #[error("another process has the session open for writing")]
    InUse,
    #[error("the session here changed while it was compared")]
    ChangedMeanwhile,
    #[error("the session here cannot be read")]
    Source(#[from] CopySourceError),
    #[error("the session cannot be written")]
    Write(#[from] WriteStoreError),
    #[error("the session cannot be put into place at `{}`", .path.display())]
    Place { path: PathBuf, source: io::Error },
}

/// Imports a bundle. The caller holds the lease of the session, and has made sure that it is in no other bucket.
pub fn import(bundle: &mut BundleReader, target: &NewSession) -> Result<Imported, ImportError> {
    if !target.has_plain_names() {
        return Err(ImportError::Name { bucket: target.bucket.clone(), id: target.id.clone() });
    }
    let directory = target.directory();
    let unplaced = |source| ImportError::Place { path: directory.clone(), source };
    let staging = Staging::inside(&target.chats).map_err(unplaced)?;
    let mut writer = StoreWriter::create(&staging.database())?;
    bundle.visit_all(|id, data| writer.put(id, data).map_err(ImportError::from))?;
    let root = bundle.root();
    let header = bundle.header();
    writer.finish(&header.meta(&target.id, root, target.now_ms))?;
    let newer = Source::open(&staging.database())?;
    let checkpoint = checked(&newer)?;

    let database = directory.join("store.db");
    if database.symlink_metadata().is_ok() {
        return extend(&database, &newer, &checkpoint, directory);
    }
    drop(newer);
    let (n_blobs, n_bytes) = (header.n_blobs, header.n_bytes);
    let title = header.title.as_deref().or(header.name.as_deref());
    staging
        .write_file("meta.json", target.meta_file(title, header.created_at_ms).as_bytes())
        .and_then(|()| place(staging, &directory))
        .map_err(unplaced)?;
    Ok(Imported::Placed { directory, root, n_blobs, n_bytes })
}

fn checked(newer: &Source) -> Result<Checkpoint, ImportError> {
    let read = || -> Result<Checkpoint, ForkError> {
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
) -> Result<Imported, ImportError> {
    if is_open_for_writing(database) {
        return Err(ImportError::InUse);
    }
    let (here, relation) = {
        let older = Source::open(database)?;
        older.check_whole()?;
        let here = latest_checkpoint(&older, &older.meta()?).map_err(ImportError::Incomparable)?;
        let progress = Progress::of(&older, &here)?;
        let relation = RootRelation::of(&progress, &Progress::of(newer, bundled)?);
        (here, relation)
    };
    if here.id == bundled.id || relation == RootRelation::IsExtended {
        return Ok(Imported::NothingNew { directory, root: here.id });
    }
    if relation == RootRelation::Diverged {
        return Err(ImportError::Diverged { here: here.id, bundled: bundled.id });
    }
    let (n_added_blobs, n_added_bytes) = add_missing(database, newer, here.id, bundled.id)?;
    Ok(Imported::Extended { directory, root: bundled.id, n_added_blobs, n_added_bytes })
}

/// A directory that Cursor made for the session, with nothing in it yet but its description, is no obstacle.
fn place(staging: Staging, directory: &Path) -> io::Result<()> {
    let is_empty_session = super::gc::is_empty_session(directory);
    if !is_empty_session {
        return staging.place(directory);
    }
    staging.exchange(directory)
}

#[cfg(test)]
#[path = "import_tests.rs"]
mod tests;
