//! Waits for the end of many runs, and for signals, with one inotify watch for all.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ground::inotify::{Inotify, Watch, WatchFlags};
use nix::sys::signal::Signal;
use run_journal::{RunDirectory, RunOverview};
use run_protocol::RunId;

use crate::running::interruption::SignalPost;

/// The shortest time between two looks at a run that writes a lot.
const BURST: Duration = Duration::from_millis(100);
/// How often to look at all runs without any news.
const ROUND: Duration = Duration::from_secs(2);
/// The same if inotify is not available.
const WITHOUT_WATCH: Duration = Duration::from_millis(250);
/// How soon to look again at a run whose shim is cleaning up.
const CLEANING_UP: Duration = Duration::from_millis(30);

/// Changes of a run's directory, without our own reads.
const CHANGES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE);

/// The runs to wait for.
pub(crate) struct RunsWatch {
    /// `None`: not available, so `wait` looks at all runs every now and then.
    inotify: Option<Arc<Inotify>>,
    post: Arc<Post>,
    runs: BTreeMap<RunId, RunDirectory>,
    /// Runs that have ended, but whose shims are still alive.
    ending: BTreeSet<RunId>,
    next_round: Instant,
}

/// News that `wait` has not returned yet.
#[derive(Debug, Default)]
struct News {
    changed: BTreeSet<RunId>,
    is_everything: bool,
    signals: VecDeque<Signal>,
}

#[derive(Debug, Default)]
struct Post {
    news: Mutex<News>,
    bell: Condvar,
    watches: Mutex<HashMap<Watch, RunId>>,
}

impl Post {
    fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watches(&self) -> MutexGuard<'_, HashMap<Watch, RunId>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, put: impl FnOnce(&mut News)) {
        put(&mut self.news());
        self.bell.notify_one();
    }
}

/// The news that `wait` returns.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Runs that have ended. The watch has forgotten them.
    pub(crate) over: Vec<RunOverview>,
    pub(crate) signals: VecDeque<Signal>,
}

impl RunsWatch {
    pub(crate) fn new() -> Self {
        let post = Arc::new(Post::default());
        let inotify = Inotify::new().ok().map(Arc::new);
        if let Some(inotify) = inotify.clone() {
            let post = Arc::clone(&post);
            thread::spawn(move || tell_changes(&inotify, &post));
        }
        Self {
            inotify,
            post,
            runs: BTreeMap::new(),
            ending: BTreeSet::new(),
            next_round: Instant::now(),
        }
    }

    /// Waits for signals too, for the rest of the process.
    pub(crate) fn listen_to(&self, signals: &SignalPost) {
        let (post, signals) = (Arc::clone(&self.post), signals.clone());
        thread::spawn(move || {
            while let Some(signal) = signals.next() {
                post.put(|news| news.signals.push_back(signal));
            }
        });
    }

    /// Begins to wait for a run.
    pub(crate) fn add(&mut self, run: RunDirectory) {
        if let Some(inotify) = &self.inotify
            && let Ok(watch) = inotify.add(run.path(), CHANGES)
        {
            self.post.watches().insert(watch, run.run_id());
        }
        // First the watch, then the look: nothing that happens in between is missed.
        self.post.news().changed.insert(run.run_id());
        self.runs.insert(run.run_id(), run);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// True if a signal has come that `wait` has not returned yet.
    pub(crate) fn has_signal(&self) -> bool {
        !self.post.news().signals.is_empty()
    }

    /// Waits for news, but not longer than `patience`.
    pub(crate) fn wait(&mut self, patience: Duration) -> Heard {
        let News { mut changed, is_everything, signals } = self.next_news(patience);
        let is_round = is_everything || Instant::now() >= self.next_round;
        if is_round {
            changed.extend(self.runs.keys().copied());
            let round = if self.inotify.is_some() { ROUND } else { WITHOUT_WATCH };
            self.next_round = Instant::now() + round;
        }
        changed.extend(std::mem::take(&mut self.ending));
        let over: Vec<RunOverview> = changed.iter().filter_map(|run| self.look(*run)).collect();
        let n_looked_at = changed.len();
        if signals.is_empty() && over.is_empty() && n_looked_at > 0 && !is_round {
            thread::sleep(if self.ending.is_empty() { BURST } else { CLEANING_UP });
        }
        Heard { over, signals }
    }

    fn next_news(&self, patience: Duration) -> News {
        let round = self.next_round.saturating_duration_since(Instant::now());
        let mut patience = patience.min(round);
        if !self.ending.is_empty() {
            patience = patience.min(CLEANING_UP);
        }
        let is_silent = |news: &mut News| {
            news.changed.is_empty() && !news.is_everything && news.signals.is_empty()
        };
        let waited = self.post.bell.wait_timeout_while(self.post.news(), patience, is_silent);
        let (mut news, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *news)
    }

    /// The overview of the run, if it has ended and its shim is gone.
    fn look(&mut self, run: RunId) -> Option<RunOverview> {
        let directory = self.runs.get(&run)?;
        let overview = match RunOverview::read(directory) {
            Ok(overview) => overview,
            // The run was removed.
            Err(_) => {
                self.forget(run);
                return None;
            }
        };
        if overview.state.is_unfinished() {
            return None;
        }
        if directory.is_live() {
            self.ending.insert(run);
            return None;
        }
        self.forget(run);
        Some(overview)
    }

    fn forget(&mut self, run: RunId) {
        self.runs.remove(&run);
        let Some(inotify) = &self.inotify else { return };
        self.post.watches().retain(|watch, watched| {
            if *watched == run {
                inotify.remove(*watch);
            }
            *watched != run
        });
    }
}

/// Passes on changes for the rest of the process.
fn tell_changes(inotify: &Inotify, post: &Post) {
    while let Ok(changes) = inotify.wait(None).and_then(|_| inotify.read()) {
        let watches = post.watches();
        let runs: Vec<RunId> =
            changes.iter().filter_map(|change| watches.get(&change.watch).copied()).collect();
        drop(watches);
        let is_everything = changes.iter().any(ground::inotify::Change::is_overflow);
        if is_everything || !runs.is_empty() {
            post.put(|news| {
                news.changed.extend(runs);
                news.is_everything |= is_everything;
            });
        }
    }
}
