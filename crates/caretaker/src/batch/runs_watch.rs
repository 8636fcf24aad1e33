//! Waits for the end of many runs, and for signals, with one inotify watch for all.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use ground::inotify::{Change, Inotify, Watch, WatchFlags};
use nix::sys::signal::Signal;
use run_journal::{RunDirectory, RunOverview};
use run_protocol::RunId;

use crate::running::interruption::SignalPost;

/// The shortest time between two checks of a run that writes a lot.
const BURST: Duration = Duration::from_millis(100);
/// How often to check all runs even without news.
const ROUND: Duration = Duration::from_secs(2);
/// Replaces [`ROUND`] if inotify is not available.
const WITHOUT_WATCH: Duration = Duration::from_millis(250);
/// How soon to check a run again while its shim is cleaning up.
const CLEANING_UP: Duration = Duration::from_millis(30);

/// Changes in a run's directory, but not our own reads.
const CHANGES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE);

/// The runs to wait for.
pub(crate) struct RunsWatch {
    /// `None` if inotify is not available. Then `wait` polls all runs.
    inotify: Option<Arc<Inotify>>,
    sender: Sender<News>,
    news: Receiver<News>,
    runs: BTreeMap<RunId, RunDirectory>,
    watches: HashMap<Watch, RunId>,
    /// Runs to check, and signals that `wait` has not returned yet.
    changed: BTreeSet<RunId>,
    signals: VecDeque<Signal>,
    /// Runs that have ended, but whose shims are still alive.
    ending: BTreeSet<RunId>,
    next_round: Instant,
}

/// The messages of the threads that wait for changes and signals.
enum News {
    Changes(Vec<Change>),
    Signal(Signal),
}

/// The news that `wait` returns.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Runs that have ended. The watch no longer follows them.
    pub(crate) over: Vec<RunOverview>,
    pub(crate) signals: VecDeque<Signal>,
}

impl RunsWatch {
    pub(crate) fn new() -> Self {
        let (sender, news) = mpsc::channel();
        let inotify = Inotify::new().ok().map(Arc::new);
        if let Some(inotify) = inotify.clone() {
            let sender = sender.clone();
            thread::spawn(move || {
                while let Ok(changes) = inotify.wait(None).and_then(|_| inotify.read())
                    && sender.send(News::Changes(changes)).is_ok()
                {}
            });
        }
        Self {
            inotify,
            sender,
            news,
            runs: BTreeMap::new(),
            watches: HashMap::new(),
            changed: BTreeSet::new(),
            signals: VecDeque::new(),
            ending: BTreeSet::new(),
            next_round: Instant::now(),
        }
    }

    /// From now on, also waits for signals, until the process ends.
    pub(crate) fn listen_to(&self, signals: &SignalPost) {
        let (sender, signals) = (self.sender.clone(), signals.clone());
        thread::spawn(move || {
            while let Some(signal) = signals.next()
                && sender.send(News::Signal(signal)).is_ok()
            {}
        });
    }

    /// Starts waiting for a run.
    pub(crate) fn add(&mut self, run: RunDirectory) {
        if let Some(inotify) = &self.inotify
            && let Ok(watch) = inotify.add(run.path(), CHANGES)
        {
            self.watches.insert(watch, run.run_id());
        }
        // First the watch, then the check, so that no change in between is missed.
        self.changed.insert(run.run_id());
        self.runs.insert(run.run_id(), run);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// True if a signal has arrived that `wait` has not returned yet.
    pub(crate) fn has_signal(&mut self) -> bool {
        self.gather();
        !self.signals.is_empty()
    }

    /// Waits for news, for at most `patience`.
    pub(crate) fn wait(&mut self, patience: Duration) -> Heard {
        self.wait_for_news(patience);
        let mut changed = std::mem::take(&mut self.changed);
        let signals = std::mem::take(&mut self.signals);
        let is_round = Instant::now() >= self.next_round;
        if is_round {
            changed.extend(self.runs.keys().copied());
            let round = if self.inotify.is_some() { ROUND } else { WITHOUT_WATCH };
            self.next_round = Instant::now() + round;
        }
        changed.extend(std::mem::take(&mut self.ending));
        let over: Vec<RunOverview> = changed.iter().filter_map(|run| self.look(*run)).collect();
        if signals.is_empty() && over.is_empty() && !changed.is_empty() && !is_round {
            thread::sleep(if self.ending.is_empty() { BURST } else { CLEANING_UP });
        }
        Heard { over, signals }
    }

    fn wait_for_news(&mut self, patience: Duration) {
        let round = self.next_round.saturating_duration_since(Instant::now());
        let mut patience = patience.min(round);
        if !self.ending.is_empty() {
            patience = patience.min(CLEANING_UP);
        }
        self.gather();
        if self.changed.is_empty() && self.signals.is_empty() {
            self.news.recv_timeout(patience).ok().into_iter().for_each(|news| self.take(news));
            self.gather();
        }
    }

    /// Takes the news that has arrived, without waiting.
    fn gather(&mut self) {
        while let Ok(news) = self.news.try_recv() {
            self.take(news);
        }
    }

    fn take(&mut self, news: News) {
        match news {
            News::Signal(signal) => self.signals.push_back(signal),
            News::Changes(changes) => {
                let runs = changes.iter().filter_map(|change| self.watches.get(&change.watch));
                self.changed.extend(runs);
                if changes.iter().any(Change::is_overflow) {
                    // The kernel lost changes: check all runs.
                    self.next_round = Instant::now();
                }
            }
        }
    }

    /// The overview of the run, if it has ended and its shim is gone.
    fn look(&mut self, run: RunId) -> Option<RunOverview> {
        let directory = self.runs.get(&run)?;
        // An error means that the run was removed.
        let overview = RunOverview::read(directory).ok();
        if overview.as_ref().is_some_and(|overview| overview.state.is_unfinished()) {
            return None;
        }
        if overview.is_some() && directory.is_live() {
            self.ending.insert(run);
            return None;
        }
        self.forget(run);
        overview
    }

    fn forget(&mut self, run: RunId) {
        self.runs.remove(&run);
        let Some(inotify) = &self.inotify else { return };
        self.watches.retain(|watch, watched| {
            if *watched == run {
                inotify.remove(*watch);
            }
            *watched != run
        });
    }
}
