//! Tells in which directories something changes, for as many directories as there are.
//!
//! The kernel lends each user some thousand watches. Half of them are taken at the most; what there is no watch for is
//! looked at every now and then.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use notify::event::{EventKind, ModifyKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use run_protocol::ExitCode;

use crate::command_error::CommandError;

/// A writer commits in bursts; what comes within this time is one change.
const BURST: Duration = Duration::from_millis(100);
/// How often those are looked at that are not watched.
const ROUND: Duration = Duration::from_secs(2);
/// Where the kernel does not say how many watches there are.
const USUAL_LIMIT: usize = 8_192;
/// A watch takes about a kilobyte of the kernel's memory.
const MOST_WATCHES: usize = 50_000;

/// Watches directories, not what is below them.
pub(crate) struct DirectoryWatch {
    watcher: RecommendedWatcher,
    watched: BTreeSet<PathBuf>,
    n_watches: usize,
    /// What lay there when it was last looked at.
    unwatched: HashMap<PathBuf, u64>,
    next_round: Instant,
    news: Arc<Mutex<Changes>>,
    wake: Receiver<()>,
}

/// What happened since the last look.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Something in these changed.
    pub(crate) directories: BTreeSet<PathBuf>,
    /// Something new is in these. They are among the others too.
    pub(crate) with_news: BTreeSet<PathBuf>,
    /// More happened than can be told.
    pub(crate) is_everything: bool,
    /// What is not there any more, files too.
    gone: BTreeSet<PathBuf>,
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
        let (sender, wake) = mpsc::sync_channel(1);
        let news = Arc::new(Mutex::new(Changes::default()));
        let told = Arc::clone(&news);
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let is_change = match event {
                Ok(event) => told.lock().unwrap_or_else(PoisonError::into_inner).add(&event),
                Err(_) => false,
            };
            if is_change {
                // One that is not taken yet says it all.
                sender.try_send(()).ok();
            }
        })
        .map_err(|error| {
            CommandError::new(ExitCode::Failed, "changes cannot be watched for")
                .because(error)
                .hint(
                    "the system limits how many watchers there are: fs.inotify.max_user_instances",
                )
        })?;
        let next_round = Instant::now() + ROUND;
        let (watched, unwatched) = (BTreeSet::new(), HashMap::new());
        Ok(Self { watcher, watched, n_watches, unwatched, next_round, news, wake })
    }

    /// Adds directories, the first of them first. One that is not there is passed over.
    pub(crate) fn cover<'a>(&mut self, directories: impl IntoIterator<Item = &'a PathBuf>) {
        for directory in directories {
            if self.watched.contains(directory) {
                continue;
            }
            let has_room = self.watched.len() < self.n_watches;
            if has_room && self.watcher.watch(directory, RecursiveMode::NonRecursive).is_ok() {
                self.watched.insert(directory.clone());
                self.unwatched.remove(directory);
            } else if !self.unwatched.contains_key(directory)
                && let Some(state) = state_of(directory)
            {
                self.unwatched.insert(directory.clone(), state);
            }
        }
    }

    /// Waits for a change and then for the rest of its burst, or for a while. `None` if nothing happened.
    pub(crate) fn wait(&mut self) -> Result<Option<Changes>, CommandError> {
        let patience = self.next_round.saturating_duration_since(Instant::now());
        match self.wake.recv_timeout(patience) {
            Ok(()) => {
                std::thread::sleep(BURST);
                self.wake.try_recv().ok();
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let what = "changes cannot be watched for any more";
                return Err(CommandError::new(ExitCode::Failed, what));
            }
        }
        if Instant::now() >= self.next_round {
            self.look_around();
            // After the look: one that takes long must not be all that is done.
            self.next_round = Instant::now() + ROUND;
        }
        let mut changes =
            std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner));
        // Its watch is gone with it; should it come again, it is covered anew.
        for path in std::mem::take(&mut changes.gone) {
            self.watched.remove(&path);
        }
        Ok((changes != Changes::default()).then_some(changes))
    }

    /// Looks at the directories that are not watched.
    fn look_around(&mut self) {
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
        let mut news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        news.with_news.extend(changed.iter().cloned());
        news.directories.extend(changed);
    }
}

impl Changes {
    /// Tells whether it is a change: our own reading must not wake us.
    fn add(&mut self, event: &Event) -> bool {
        self.is_everything |= event.need_rescan();
        let is_news = match event.kind {
            EventKind::Access(_) => return event.need_rescan(),
            EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(_)) => true,
            _ => false,
        };
        for path in &event.paths {
            if matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))) {
                self.gone.insert(path.clone());
            }
            let Some(directory) = path.parent() else { continue };
            self.directories.insert(directory.to_owned());
            if is_news && !is_log(path) {
                self.with_news.insert(directory.to_owned());
            }
        }
        true
    }
}

/// Logs of databases come and go with their writers.
fn is_log(path: &Path) -> bool {
    let name = path.as_os_str().as_encoded_bytes();
    [b"-wal".as_slice(), b"-shm", b"-journal"].iter().any(|ending| name.ends_with(ending))
}

/// Tells apart states of what is in a directory.
fn state_of(directory: &Path) -> Option<u64> {
    let mut sum = 0_u64;
    for entry in fs::read_dir(directory).ok()?.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        let mut hasher = DefaultHasher::new();
        entry.file_name().hash(&mut hasher);
        (metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()).hash(&mut hasher);
        // In any order.
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

    /// Waits until a directory is told of.
    fn wait_for(watch: &mut DirectoryWatch, directory: &Path) -> Changes {
        loop {
            let changes = watch.wait().unwrap().unwrap_or_default();
            if changes.directories.contains(directory) {
                return changes;
            }
        }
    }

    #[test]
    fn those_beyond_the_kernels_room_are_noticed_too() {
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
    fn a_log_is_a_change_and_no_news_and_reading_is_nothing() {
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
    fn a_directory_that_was_deleted_and_came_again_is_covered_again() {
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
    fn what_is_not_there_is_passed_over() {
        let (root, _) = directories(0);
        let mut watch = DirectoryWatch::with_watches(10).unwrap();
        watch.cover(&[root.path().join("gone")]);
        assert_eq!((watch.watched.len(), watch.unwatched.len()), (0, 0));
    }
}
