//! Says whether a seed has changed since its links were made.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sandbox_plan::ToolCache;
use sha2::{Digest, Sha256};

/// The most directories to look at. A launch waits for this. In a larger seed, a change far below may stay unseen until
/// a directory near the top changes; `--fresh-cache` sees it at once.
const MOST_DIRECTORIES: usize = 1_500;

/// Hashes the times of the seed's directories, nearest first. A new or removed file changes its directory's time. A
/// changed file needs no new link.
pub(super) fn stamp(cache: &ToolCache) -> String {
    let mut hash = Sha256::new();
    let mut n_directories = 0;
    for seed in &cache.seeds {
        hash.update(seed.source.as_os_str().as_bytes());
        // Some tools write beside the seed first and rename then: the directories beside it change at each write.
        let beside = seed.source.parent().map(Path::to_owned);
        let beside_it = beside.iter().flat_map(|parent| directories_in(parent));
        for path in beside.iter().cloned().chain(beside_it) {
            add(&mut hash, &path);
        }
        let mut pending = VecDeque::from([seed.source.clone()]);
        while let Some(path) = pending.pop_front() {
            if n_directories >= MOST_DIRECTORIES {
                break;
            }
            n_directories += 1;
            add(&mut hash, &path);
            pending.extend(directories_in(&path));
        }
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn add(hash: &mut Sha256, path: &Path) {
    let Ok(found) = fs::symlink_metadata(path) else { return };
    hash.update(found.ino().to_le_bytes());
    hash.update(found.mtime().to_le_bytes());
    hash.update(found.mtime_nsec().to_le_bytes());
}

fn directories_in(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut paths: Vec<PathBuf> =
        directories.take(MOST_DIRECTORIES).map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
