//! Remembers which databases are damaged, for the life of this process.
//!
//! A reader that finds damage records it and starts again, as if the file had changed. Then it gets the salvaged file.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};

use super::{SalvageError, SalvagedDatabase};
use crate::database::DatabaseFingerprint;
use crate::parallel::lock;

/// How many salvaged databases to keep in memory for repeated requests.
const MAX_KEPT: usize = 4;

/// A file at a path, regardless of its content.
type File = (PathBuf, (u64, u64));

#[derive(Default)]
struct Known {
    /// The state in which a file was damaged, and a lock: only one thread salvages a file at a time, others wait.
    damaged: HashMap<File, (DatabaseFingerprint, Arc<Mutex<()>>)>,
    kept: VecDeque<(File, DatabaseFingerprint, Arc<SalvagedDatabase>)>,
    /// Parts of files that were checked and are sound.
    sound: HashMap<(File, &'static str), DatabaseFingerprint>,
}

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// Records that a database is damaged.
pub(crate) fn note(path: &Path, fingerprint: &DatabaseFingerprint) {
    let file = (path.to_owned(), fingerprint.file());
    let mut known = lock(&KNOWN);
    let (state, _) =
        known.damaged.entry(file).or_insert_with(|| (fingerprint.clone(), Arc::default()));
    state.clone_from(fingerprint);
}

/// Records that a part of a database is sound in its current state.
pub(crate) fn note_sound(path: &Path, fingerprint: &DatabaseFingerprint, part: &'static str) {
    let file = (path.to_owned(), fingerprint.file());
    let mut known = lock(&KNOWN);
    known.sound.insert((file, part), fingerprint.clone());
}

pub(crate) fn is_sound(path: &Path, fingerprint: &DatabaseFingerprint, part: &'static str) -> bool {
    let file = (path.to_owned(), fingerprint.file());
    let known = lock(&KNOWN);
    // SQLite verifies the checksums in the log on each read.
    known.sound.get(&(file, part)).is_some_and(|state| state.has_same_main(fingerprint))
}

/// Returns the salvaged database, if the file is known to be damaged.
pub(crate) fn salvaged(
    path: &Path,
    fingerprint: &DatabaseFingerprint,
) -> Result<Option<Arc<SalvagedDatabase>>, SalvageError> {
    let file = (path.to_owned(), fingerprint.file());
    let turn = {
        let known = lock(&KNOWN);
        match known.damaged.get(&file) {
            // If the file changed since then, its owner may have repaired it.
            Some((state, turn)) if state.has_same_main(fingerprint) => Arc::clone(turn),
            _ => return Ok(None),
        }
    };
    let _turn = lock(&turn);
    let kept = {
        let known = lock(&KNOWN);
        let is_it = |(other, state, _): &&(File, DatabaseFingerprint, _)| {
            *other == file && state == fingerprint
        };
        known.kept.iter().find(is_it).map(|(_, _, salvaged)| Arc::clone(salvaged))
    };
    if kept.is_some() {
        return Ok(kept);
    }
    let salvaged = Arc::new(SalvagedDatabase::of(path)?);
    let mut known = lock(&KNOWN);
    known.kept.retain(|(other, _, _)| *other != file);
    if known.kept.len() >= MAX_KEPT {
        known.kept.pop_front();
    }
    known.kept.push_back((file, fingerprint.clone(), Arc::clone(&salvaged)));
    Ok(Some(salvaged))
}
