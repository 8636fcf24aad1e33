//! Says whether a seed has changed since its links were made.

use std::collections::VecDeque;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sandbox_plan::ToolCache;

/// The most directories to look at: a launch waits for this. In a larger seed, a change deep down may go unnoticed
/// until a directory near the top changes; `--fresh-cache` notices it immediately.
const MOST_DIRECTORIES: usize = 600;

/// Returns the seed's directories with their times, nearest first, one per line. A new or removed file changes the time
/// of its directory. A changed file needs no new link.
pub(super) fn stamp(cache: &ToolCache) -> String {
    let mut stamp = seeds_of(cache);
    let mut pending = VecDeque::new();
    for seed in &cache.seeds {
        // Some tools write to a directory beside the seed and then rename, so that directory changes with each write.
        let beside = seed.source.parent().map(Path::to_owned);
        pending.extend(beside.iter().flat_map(|parent| directories_in(parent)));
        pending.extend(beside);
    }
    for _ in 0..MOST_DIRECTORIES {
        let Some(path) = pending.pop_front() else { break };
        let is_in_seed = cache.seeds.iter().any(|seed| path.starts_with(&seed.source));
        if is_in_seed {
            pending.extend(directories_in(&path));
        }
        if let Some(line) = line_of(&path) {
            stamp.push_str(&line);
        }
    }
    stamp
}

/// Returns true if a stamp still holds. This only looks at the directories, and lists none.
pub(super) fn holds(stamp: &str, cache: &ToolCache) -> bool {
    let Some(directories) = stamp.strip_prefix(&seeds_of(cache)) else { return false };
    directories.split_inclusive('\n').all(|line| {
        let path = line.trim_end().splitn(4, ' ').nth(3);
        path.and_then(|path| line_of(Path::new(path))).as_deref() == Some(line)
    })
}

/// The first line: the seeds themselves, because one may appear or disappear.
fn seeds_of(cache: &ToolCache) -> String {
    let seeds = cache.seeds.iter().map(|seed| seed.source.to_string_lossy());
    seeds.fold(String::new(), |all, seed| format!("{all}{seed} ")) + "\n"
}

/// `None` if the path cannot be a line.
fn line_of(path: &Path) -> Option<String> {
    let found = fs::symlink_metadata(path).ok()?;
    let path = path.to_str().filter(|path| !path.contains('\n'))?;
    let mut line = String::new();
    writeln!(line, "{} {} {} {path}", found.ino(), found.mtime(), found.mtime_nsec()).ok()?;
    Some(line)
}

fn directories_in(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.take(MOST_DIRECTORIES).map(|entry| entry.path()).collect()
}
