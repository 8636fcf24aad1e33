//! A session from another machine: checked whole, then placed, or added to what is here of it.

use std::io;
use std::path::{Path, PathBuf};

use super::bundle::WITHOUT_PATHS;
use super::bundle_reader::{BundleReader, ReadBundleError};
use super::fork::{ForkError, check_prompt};
use super::fork_point::{Checkpoint, ForkPointError, latest_checkpoint};
use super::is_open_for_writing;
use super::machine_paths::PathChange;
use super::moved::moved;
use super::new_session::NewSession;
use super::reachable::{AsSourceError, CopySourceError, Source, with_source};
use super::root_relation::{Progress, RootRelation};
use super::staging::Staging;
use super::store_update::add_missing;
use super::store_writer::{StoreWriter, WriteStoreError};
use crate::chat::BlobId;

/// What an import has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Imported {
    /// The session is new here.
    Placed { directory: PathBuf, root: BlobId, n_blobs: u64, n_bytes: u64, n_paths_left_out: u64 },
    /// The session was here, and went on.
    Extended {
        directory: PathBuf,
        root: BlobId,
        n_added_blobs: u64,
        n_added_bytes: u64,
        n_paths_left_out: u64,
    },
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

impl AsSourceError for ImportError {
    fn as_source_error(&self) -> Option<&CopySourceError> {
        match self {
            Self::Source(err) => Some(err),
            _ => None,
        }
    }
}

/// Imports a bundle. The caller holds the lease of the session, and has made sure that it is in no other bucket.
pub fn import(bundle: &mut BundleReader, target: &NewSession) -> Result<Imported, ImportError> {
    if !target.has_plain_names() {
        return Err(ImportError::Name { bucket: target.bucket.clone(), id: target.id.clone() });
    }
    let directory = target.directory();
    let unplaced = |source| ImportError::Place { path: directory.clone(), source };
    let staging = Staging::inside(&target.chats).map_err(unplaced)?;
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
    staging
        .write_file("meta.json", target.meta_file(title, header.created_at_ms).as_bytes())
        .and_then(|()| place(staging, &directory))
        .map_err(unplaced)?;
    Ok(Imported::Placed { directory, root: checkpoint.id, n_blobs, n_bytes, n_paths_left_out })
}

/// Makes a store of the bundle, and says how many paths in it lead out of the workspace: ours have none, and those of
/// others are not let in.
fn unpack(
    bundle: &mut BundleReader,
    target: &NewSession,
    staging: &Staging,
) -> Result<(Source, u64), ImportError> {
    let has_paths_to_fill_in = bundle.header().version >= WITHOUT_PATHS;
    // Nothing is believed before the whole of it was checked, so that it has to lie somewhere meanwhile.
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
    moved.visit(&packed, |id, data| writer.put(id, data).map_err(ImportError::from))?;
    writer.finish(&header.meta(&target.id, moved.root, target.now_ms))?;
    Ok((Source::open(&staging.database())?, moved.left_out.n_paths))
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
    n_paths_left_out: u64,
) -> Result<Imported, ImportError> {
    if is_open_for_writing(database) {
        return Err(ImportError::InUse);
    }
    let (here, relation) = with_source(database, |older| -> Result<_, ImportError> {
        older.check_whole()?;
        // Nothing is ever written to what is damaged.
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
