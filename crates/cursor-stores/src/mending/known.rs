//! The databases of which it is known that they are damaged, for as long as this process runs.
//!
//! Whoever meets damage notes it and begins anew, as if the file had changed; from then on it is opened mended.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::{MendError, MendedDatabase};
use crate::database_fingerprint::DatabaseFingerprint;

/// How many are kept in memory: what is asked for again is asked for soon.
const MAX_KEPT: usize = 4;

/// A file at a path, whatever is written to it.
type File = (PathBuf, (u64, u64));

#[derive(Default)]
struct Known {
    /// As they were when it was found out. Whoever opens one waits for whoever does so already.
    damaged: HashMap<File, (DatabaseFingerprint, Arc<Mutex<()>>)>,
    kept: VecDeque<(File, DatabaseFingerprint, Arc<MendedDatabase>)>,
    /// Parts of some that were looked over and found to hold together.
    sound: HashMap<(File, &'static str), DatabaseFingerprint>,
}

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// Notes that a database is damaged.
pub(crate) fn note(path: &Path, fingerprint: &DatabaseFingerprint) {
    let file = (path.to_owned(), fingerprint.file());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let (state, _) =
        known.damaged.entry(file).or_insert_with(|| (fingerprint.clone(), Arc::default()));
    state.clone_from(fingerprint);
}

/// Notes that a part of a database, as it is now, holds together.
pub(crate) fn note_sound(path: &Path, fingerprint: &DatabaseFingerprint, part: &'static str) {
    let file = (path.to_owned(), fingerprint.file());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.sound.insert((file, part), fingerprint.clone());
}

pub(crate) fn is_sound(path: &Path, fingerprint: &DatabaseFingerprint, part: &'static str) -> bool {
    let file = (path.to_owned(), fingerprint.file());
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    // What is in the log has sums that SQLite looks at, each time.
    known.sound.get(&(file, part)).is_some_and(|state| state.has_same_main(fingerprint))
}

/// Returns what is left of a database, if it is known to be damaged.
pub(crate) fn mended(
    path: &Path,
    fingerprint: &DatabaseFingerprint,
) -> Result<Option<Arc<MendedDatabase>>, MendError> {
    let file = (path.to_owned(), fingerprint.file());
    let turn = {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        match known.damaged.get(&file) {
            // What was written to since may have been mended by its owner.
            Some((state, turn)) if state.has_same_main(fingerprint) => Arc::clone(turn),
            _ => return Ok(None),
        }
    };
    let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |(other, state, _): &&(File, DatabaseFingerprint, _)| {
            *other == file && state == fingerprint
        };
        known.kept.iter().find(is_it).map(|(_, _, mended)| Arc::clone(mended))
    };
    if kept.is_some() {
        return Ok(kept);
    }
    let mended = Arc::new(MendedDatabase::of(path)?);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.kept.retain(|(other, _, _)| *other != file);
    if known.kept.len() >= MAX_KEPT {
        known.kept.pop_front();
    }
    known.kept.push_back((file, fingerprint.clone(), Arc::clone(&mended)));
    Ok(Some(mended))
}
