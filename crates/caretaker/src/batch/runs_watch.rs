//! Waits for the end of many runs at once, and for signals, with one watch for all of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use run_journal::{RunDirectory, RunOverview};
use run_protocol::RunId;

use crate::interruption::SignalPost;

/// A run that writes a lot is looked at no oftener.
const BURST: Duration = Duration::from_millis(100);
/// How often all are looked at though nothing was heard of them.
const ROUND: Duration = Duration::from_secs(2);
/// The same where the system has no watch for us.
const WITHOUT_WATCH: Duration = Duration::from_millis(250);
/// How soon a run is looked at again whose supervisor cleans up.
const CLEANING_UP: Duration = Duration::from_millis(30);

/// The runs that are waited for.
pub(crate) struct RunsWatch {
    watcher: Option<RecommendedWatcher>,
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
}

impl Post {
    fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
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
        let told = Arc::clone(&post);
        let watcher =
            notify::recommended_watcher(move |event: notify::Result<Event>| match event {
                Ok(event) if event.need_rescan() => told.put(|news| news.is_everything = true),
                Ok(event) if is_change(&event.kind) => {
                    let runs: Vec<RunId> =
                        event.paths.iter().filter_map(|path| run_of(path)).collect();
                    told.put(|news| news.changed.extend(runs));
                }
                _ => {}
            });
        Self {
            // Without one, all are looked at every now and then.
            watcher: watcher.ok(),
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
        if let Some(watcher) = &mut self.watcher {
            watcher.watch(run.path(), RecursiveMode::NonRecursive).ok();
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
            let round = if self.watcher.is_some() { ROUND } else { WITHOUT_WATCH };
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
        if let (Some(directory), Some(watcher)) = (self.runs.remove(&run), &mut self.watcher) {
            watcher.unwatch(directory.path()).ok();
        }
    }
}

/// Our own looking is none.
fn is_change(kind: &EventKind) -> bool {
    match kind {
        EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_) => true,
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) | EventKind::Any | EventKind::Other => false,
    }
}

/// Whose file it is.
fn run_of(path: &Path) -> Option<RunId> {
    let of = |path: &Path| path.file_name()?.to_str()?.parse().ok();
    of(path).or_else(|| of(path.parent()?))
}
