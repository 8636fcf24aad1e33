//! Waits for the end of many runs at once, and for signals, with one watch for all of them.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ground::inotify::{Inotify, Watch, WatchFlags};
use nix::sys::signal::Signal;
use run_journal::{RunDirectory, RunOverview};
use run_protocol::RunId;

use crate::running::interruption::SignalPost;

/// A run that writes a lot is looked at no oftener.
const BURST: Duration = Duration::from_millis(100);
/// How often all are looked at though nothing was heard of them.
const ROUND: Duration = Duration::from_secs(2);
/// The same where the system has no watch for us.
const WITHOUT_WATCH: Duration = Duration::from_millis(250);
/// How soon a run is looked at again whose supervisor cleans up.
const CLEANING_UP: Duration = Duration::from_millis(30);

/// What is a change of a run's directory. Our own reading is none.
const CHANGES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE);

/// The runs that are waited for.
pub(crate) struct RunsWatch {
    /// Without one, all are looked at every now and then.
    inotify: Option<Arc<Inotify>>,
    post: Arc<Post>,
    runs: BTreeMap<RunId, RunDirectory>,
    /// They have ended; their supervisors have not.
    ending: BTreeSet<RunId>,
    next_round: Instant,
}

/// What happened, as far as nobody has heard of it.
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

/// What came of waiting.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Runs that are over; they are not waited for any more.
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

    /// Hears of signals too, for the rest of the process.
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
        // Whatever happened before the watch is seen by a look after it.
        self.post.news().changed.insert(run.run_id());
        self.runs.insert(run.run_id(), run);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether a signal has come that nobody has heard of.
    pub(crate) fn has_signal(&self) -> bool {
        !self.post.news().signals.is_empty()
    }

    /// Waits for news, but no longer than this.
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

    /// How the run stands if it is over, and nothing more is to come of it.
    fn look(&mut self, run: RunId) -> Option<RunOverview> {
        let directory = self.runs.get(&run)?;
        let overview = match RunOverview::read(directory) {
            Ok(overview) => overview,
            // It was removed.
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

/// Tells of changes for the rest of the process.
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
