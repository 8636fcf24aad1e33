//! Watches any number of directories, and reports those in which something changes.
//!
//! The kernel gives each user a few thousand watches. This takes at most half of them, and polls the other directories.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use admission::command_error::CommandError;
use ground::inotify::{Change, Inotify, ReadFlags, Watch, WatchFlags};
use run_protocol::ExitCode;

/// A writer commits in bursts; everything within this time is one change.
const BURST: Duration = Duration::from_millis(100);
/// How often to poll the directories without a watch.
const ROUND: Duration = Duration::from_secs(2);
/// The limit to assume if this process cannot read the kernel's own.
const USUAL_LIMIT: usize = 8_192;
/// A watch takes about a kilobyte of the kernel's memory.
const MOST_WATCHES: usize = 50_000;

/// The changes to report, but not our own reads.
const CHANGES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);

/// Watches directories, without their subdirectories.
pub(crate) struct DirectoryWatch {
    inotify: Inotify,
    watched: BTreeMap<PathBuf, Watch>,
    directories: HashMap<Watch, PathBuf>,
    n_watches: usize,
    /// The state of each directory at the last poll.
    unwatched: HashMap<PathBuf, u64>,
    next_round: Instant,
}

/// The changes since the last `wait`.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Directories in which something changed.
    pub(crate) directories: BTreeSet<PathBuf>,
    /// Directories with a new entry. `directories` has them too.
    pub(crate) with_news: BTreeSet<PathBuf>,
    /// The kernel dropped changes: anything may have changed.
    pub(crate) is_everything: bool,
}

impl DirectoryWatch {
    pub(crate) fn new() -> Result<Self, CommandError> {
        let limit = fs::read_to_string("/proc/sys/fs/inotify/max_user_watches")
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(USUAL_LIMIT);
        Self::with_watches((limit / 2).min(MOST_WATCHES))
    }

    fn with_watches(n_watches: usize) -> Result<Self, CommandError> {
        let inotify = Inotify::new().map_err(|error| {
            cannot_watch(error).hint("raise the system's limit: fs.inotify.max_user_instances")
        })?;
        Ok(Self {
            inotify,
            watched: BTreeMap::new(),
            directories: HashMap::new(),
            n_watches,
            unwatched: HashMap::new(),
            next_round: Instant::now() + ROUND,
        })
    }

    /// Adds directories, in this order. Skips missing ones.
    pub(crate) fn cover<'a>(&mut self, directories: impl IntoIterator<Item = &'a PathBuf>) {
        for directory in directories {
            if let Some(known) = self.watched.get(directory).copied() {
                // Another process may have deleted or renamed the directory, or one above it, and created it again.
                // Then it is a new directory, and the kernel gives it a new number. A renamed directory stays watched,
                // under its old name.
                if let Ok(watch) = self.inotify.add(directory, CHANGES)
                    && watch != known
                {
                    self.watched.insert(directory.clone(), watch);
                    self.directories.insert(watch, directory.clone());
                }
                continue;
            }
            let has_room = self.watched.len() < self.n_watches;
            if has_room && let Ok(watch) = self.inotify.add(directory, CHANGES) {
                self.watched.insert(directory.clone(), watch);
                self.directories.insert(watch, directory.clone());
                self.unwatched.remove(directory);
            } else if !self.unwatched.contains_key(directory)
                && let Some(state) = state_of(directory)
            {
                self.unwatched.insert(directory.clone(), state);
            }
        }
    }

    /// Waits for a change and the rest of its burst, or for the next poll. `None` if nothing changed.
    pub(crate) fn wait(&mut self) -> Result<Option<Changes>, CommandError> {
        let patience = self.next_round.saturating_duration_since(Instant::now());
        let mut changes = Changes::default();
        if self.inotify.wait(Some(patience)).map_err(cannot_watch)? {
            std::thread::sleep(BURST);
            for change in self.inotify.read().map_err(cannot_watch)? {
                self.take(&change, &mut changes);
            }
        }
        if Instant::now() >= self.next_round {
            self.look_around(&mut changes);
            // Counted from the end of the poll, so that slow polls do not follow each other without a pause.
            self.next_round = Instant::now() + ROUND;
        }
        Ok((changes != Changes::default()).then_some(changes))
    }

    /// Adds one of the kernel's reports to the changes.
    fn take(&mut self, change: &Change, changes: &mut Changes) {
        changes.is_everything |= change.is_overflow();
        if change.is_end_of_watch() {
            if let Some(directory) = self.directories.remove(&change.watch)
                && self.watched.get(&directory) == Some(&change.watch)
            {
                self.watched.remove(&directory);
            }
            return;
        }
        let Some(watched) = self.directories.get(&change.watch) else { return };
        let path = match &change.name {
            Some(name) => watched.join(name),
            None => watched.clone(),
        };
        let Some(directory) = path.parent() else { return };
        let news =
            ReadFlags::CREATE | ReadFlags::MOVED_FROM | ReadFlags::MOVED_TO | ReadFlags::MOVE_SELF;
        if change.what.intersects(news) && !is_log(&path) {
            changes.with_news.insert(directory.to_owned());
        }
        changes.directories.insert(directory.to_owned());
    }

    /// Polls the directories without a watch.
    fn look_around(&mut self, changes: &mut Changes) {
        let mut changed = Vec::new();
        self.unwatched.retain(|directory, known| match state_of(directory) {
            None => false,
            Some(state) => {
                if *known != state {
                    *known = state;
                    changed.push(directory.clone());
                }
                true
            }
        });
        changes.with_news.extend(changed.iter().cloned());
        changes.directories.extend(changed);
    }
}

fn cannot_watch(error: io::Error) -> CommandError {
    CommandError::new(ExitCode::Failed, "cannot watch for changes").because(error)
}

/// True for a database log: these come and go with their writers.
fn is_log(path: &Path) -> bool {
    let name = path.as_os_str().as_encoded_bytes();
    [b"-wal".as_slice(), b"-shm", b"-journal"].iter().any(|ending| name.ends_with(ending))
}

/// A fingerprint of the directory's entries.
fn state_of(directory: &Path) -> Option<u64> {
    let mut sum = 0_u64;
    for entry in fs::read_dir(directory).ok()?.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        let mut hasher = DefaultHasher::new();
        entry.file_name().hash(&mut hasher);
        (metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()).hash(&mut hasher);
        // The order of the entries does not matter.
        sum = sum.wrapping_add(hasher.finish());
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn directories(n: usize) -> (tempfile::TempDir, Vec<PathBuf>) {
        let root = tempfile::tempdir().unwrap();
        let all: Vec<PathBuf> = (0..n).map(|number| root.path().join(number.to_string())).collect();
        all.iter().for_each(|directory| fs::create_dir(directory).unwrap());
        (root, all)
    }

    /// Waits until the watch reports a directory.
    fn wait_for(watch: &mut DirectoryWatch, directory: &Path) -> Changes {
        loop {
            let changes = watch.wait().unwrap().unwrap_or_default();
            if changes.directories.contains(directory) {
                return changes;
            }
        }
    }

    #[test]
    fn directories_beyond_the_kernels_limit_are_noticed_too() {
        let (_root, all) = directories(5);
        let mut watch = DirectoryWatch::with_watches(2).unwrap();
        watch.cover(&all);
        assert_eq!((watch.watched.len(), watch.unwatched.len()), (2, 3));
        for directory in [&all[0], &all[4]] {
            fs::write(directory.join("a"), "1").unwrap();
            assert!(wait_for(&mut watch, directory).with_news.contains(directory));
            fs::write(directory.join("a"), "22").unwrap();
            wait_for(&mut watch, directory);
        }
    }

    #[test]
    fn a_log_is_a_change_but_not_a_new_entry_and_a_read_is_neither() {
        let (_root, all) = directories(1);
        fs::write(all[0].join("store.db"), "").unwrap();
        let mut watch = DirectoryWatch::with_watches(10).unwrap();
        watch.cover(&all);
        fs::read(all[0].join("store.db")).unwrap();
        fs::read_dir(&all[0]).unwrap().count();
        fs::write(all[0].join("store.db-wal"), "x").unwrap();
        let changes = wait_for(&mut watch, &all[0]);
        assert_eq!(changes.with_news, BTreeSet::new());
        assert_eq!(changes.directories, BTreeSet::from([all[0].clone()]));
    }

    #[test]
    fn a_deleted_and_recreated_directory_is_covered_again() {
        let (root, all) = directories(1);
        let mut watch = DirectoryWatch::with_watches(10).unwrap();
        watch.cover([&root.path().to_owned(), &all[0]]);
        fs::remove_dir(&all[0]).unwrap();
        wait_for(&mut watch, root.path());
        fs::create_dir(&all[0]).unwrap();
        wait_for(&mut watch, root.path());
        watch.cover(&all);
        fs::write(all[0].join("a"), "").unwrap();
        wait_for(&mut watch, &all[0]);
    }

    #[test]
    fn a_recreated_directory_is_covered_even_if_the_old_one_is_still_open() {
        let (root, all) = directories(1);
        let below = all[0].join("below");
        fs::create_dir(&below).unwrap();
        let covered = [root.path().to_owned(), all[0].clone(), below.clone()];
        let mut watch = DirectoryWatch::with_watches(10).unwrap();
        for is_moved in [false, true] {
            watch.cover(&covered);
            let held = (fs::File::open(&all[0]).unwrap(), fs::File::open(&below).unwrap());
            match is_moved {
                false => fs::remove_dir_all(&all[0]).unwrap(),
                true => fs::rename(&all[0], root.path().join("renamed")).unwrap(),
            }
            fs::create_dir_all(&below).unwrap();
            wait_for(&mut watch, root.path());
            watch.cover(&covered);
            for directory in [&all[0], &below] {
                fs::write(directory.join("a"), "").unwrap();
                wait_for(&mut watch, directory);
            }
            drop(held);
        }
    }

    #[test]
    fn a_missing_directory_is_skipped() {
        let (root, _) = directories(0);
        let mut watch = DirectoryWatch::with_watches(10).unwrap();
        watch.cover(&[root.path().join("gone")]);
        assert_eq!((watch.watched.len(), watch.unwatched.len()), (0, 0));
    }
}
