//! Keeps track of all runs that have not ended, and tells the scheduler and the readers when one changes. It does not
//! poll.
//!
//! ```text
//!   runs/            a new directory appears                      ─┐
//!   <run>/run.lock   a process takes or releases it               ─┼─► look at the run ─► changes (the scheduler)
//!   its holder       the process ends (pidfd)                     ─┘                  └─► subscribers (readers)
//!   <run>/events…    written; watched only while it has readers ────────────────────────► subscribers
//! ```
//!
//! A run is live while a process holds its lock, no matter what started it. So a new daemon finds the live runs of an
//! earlier daemon by their locks.

mod async_inotify;
mod following;
mod lock_holder;
mod pollable;
pub(crate) mod subscriber;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use ground::inotify::{self, Watch, WatchFlags};
use ground::{lock, make_private_dir};
use run_journal::{
    IndexError, LockHolder, RunDirectory, RunFilter, RunOverview, RunState, StateRoot,
    WriterPresence, list_runs, session_of,
};
use run_protocol::{QueueTerms, RunId};
use tokio::sync::mpsc;

pub(crate) use self::following::Following;
use crate::clock::until;
use crate::messages::deliver::DeliveryCheck;
use crate::run_watch::async_inotify::Inotify;
use crate::run_watch::lock_holder::{open_process, wait_for_end};
use crate::run_watch::subscriber::Subscriber;
use crate::schedule::Share;

/// How long a run outside the queue may lack a shim before the daemon checks it again.
const START_EXPECTED_MS: u64 = 30_000;
/// How often to check a lock holder that the daemon cannot watch, for example in another container.
const FOREIGN_LOOK: Duration = Duration::from_secs(2);
/// How long to collect journal changes: a fast run must not wake two hundred readers for each line.
const GATHER: Duration = Duration::from_millis(15);

/// Directories that are renamed into `runs/`.
const ARRIVALS: WatchFlags = WatchFlags::MOVED_TO.union(WatchFlags::ONLYDIR);
/// Writes to any file in a directory.
const WRITES_IN: WatchFlags = WatchFlags::MODIFY.union(WatchFlags::ONLYDIR);
/// Writes to a lock's note, and the end of a process that may have held the lock.
const LOCK_CHANGES: WatchFlags = WatchFlags::MODIFY.union(WatchFlags::CLOSE_WRITE);

/// The account of a run that names none.
pub(crate) const DEFAULT_ACCOUNT: &str = "default";

/// A run that has not ended.
#[derive(Debug, Clone)]
pub(crate) struct Tracked {
    pub(crate) share: Share,
    pub(crate) terms: Option<QueueTerms>,
    pub(crate) standing: Standing,
    lock_watch: Option<Watch>,
    journal_watch: Option<Watch>,
    /// True while a task is waiting for its shim to end.
    is_attended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Its shim is about to start.
    Expected,
    Queued {
        since_ms: u64,
    },
    Live {
        since_ms: u64,
    },
}

/// News for the scheduler.
#[derive(Debug)]
pub(crate) enum Change {
    /// A run that has not ended changed.
    Run,
    /// A run that the daemon knew has ended.
    Over(Box<Over>),
}

#[derive(Debug)]
pub(crate) struct Over {
    pub(crate) run: RunId,
    pub(crate) overview: RunOverview,
    /// Its last known state.
    pub(crate) was: Tracked,
}

#[derive(Debug, Clone)]
pub(crate) struct RunWatch(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: StateRoot,
    inotify: Inotify,
    changes: mpsc::UnboundedSender<Change>,
    checks: mpsc::UnboundedSender<DeliveryCheck>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    runs: BTreeMap<RunId, Tracked>,
    watched: HashMap<Watch, (RunId, Watched)>,
    arrivals: Option<Watch>,
    inboxes: Option<Watch>,
    subscribers: Vec<Weak<Subscriber>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watched {
    Lock,
    Journal,
}

/// Why runs cannot be watched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    #[error("cannot watch the runs directory")]
    Watch(#[from] std::io::Error),
    #[error("cannot list the runs")]
    List(#[from] IndexError),
}

impl RunWatch {
    /// Starts watching. The table is empty before [`adopt`](Self::adopt).
    pub(crate) fn new(
        state: &StateRoot,
        changes: mpsc::UnboundedSender<Change>,
        checks: mpsc::UnboundedSender<DeliveryCheck>,
    ) -> Result<Self, WatchError> {
        let inotify = Inotify::new()?;
        // First the watch, then the look, so that a run that appears in between is not missed.
        let arrivals = Some(inotify.watch(&state.runs(), ARRIVALS)?);
        make_private_dir(state.inboxes())?;
        let inboxes = Some(inotify.watch(&state.inboxes(), WRITES_IN)?);
        let table = Mutex::new(Table { arrivals, inboxes, ..Table::default() });
        Ok(Self(Arc::new(Inner { state: state.clone(), inotify, changes, checks, table })))
    }

    /// Finds every run that has not ended; returns the others.
    pub(crate) async fn adopt(&self) -> Result<Vec<RunOverview>, WatchError> {
        let state = self.0.state.clone();
        let listed = tokio::task::spawn_blocking(move || list_runs(&state, &RunFilter::default()));
        let listed = listed.await.map_err(std::io::Error::other)??;
        let (unfinished, over) =
            listed.into_iter().partition::<Vec<_>, _>(|run| run.state.is_unfinished());
        unfinished.iter().for_each(|run| self.look(run.run));
        for overview in &over {
            if matches!(overview.state, RunState::Lost { .. }) && overview.lineage.is_some() {
                let (run, session) = (overview.run, overview.session.clone());
                self.0.checks.send(DeliveryCheck::RunEnded { run, session }).ok();
            }
        }
        Ok(over)
    }

    /// Watches until the daemon ends.
    pub(crate) async fn watch(self) {
        loop {
            match self.0.inotify.next().await {
                Ok(changes) => changes.iter().for_each(|change| self.sort_out(change)),
                Err(error) => {
                    tracing::error!(%error, "cannot read file changes");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
            tokio::time::sleep(GATHER).await;
        }
    }

    fn sort_out(&self, change: &inotify::Change) {
        if change.is_overflow() {
            return self.look_everywhere();
        }
        let watch = change.watch;
        if change.is_end_of_watch() {
            let gone = self.table().watched.remove(&watch);
            return gone.into_iter().for_each(|(run, _)| self.look(run));
        }
        let (inboxes, arrivals, watched) = {
            let table = self.table();
            (table.inboxes, table.arrivals, table.watched.get(&watch).copied())
        };
        match (&change.name, watched) {
            (Some(name), _) if inboxes == Some(watch) => {
                let session = session_of(name);
                session.map(|session| self.0.checks.send(DeliveryCheck::Session(session)));
            }
            (Some(name), _) if arrivals == Some(watch) => {
                let run = name.to_str().and_then(|name| name.parse().ok());
                run.into_iter().for_each(|run| self.look(run));
            }
            (None, Some((run, Watched::Lock))) => self.look(run),
            (None, Some((run, Watched::Journal))) => self.tell(run),
            _ => {}
        }
    }

    /// The kernel lost changes: anything may have changed.
    fn look_everywhere(&self) {
        self.0.checks.send(DeliveryCheck::All).ok();
        let runs: Vec<RunId> = self.table().runs.keys().copied().collect();
        for run in runs {
            self.look(run);
            self.tell(run);
        }
        let again = self.clone();
        tokio::spawn(async move {
            if let Err(error) = again.adopt().await {
                tracing::error!(%error, "runs may have been overlooked");
            }
        });
    }

    /// Reads the state of one run, and watches for its next change.
    pub(crate) fn look(&self, run: RunId) {
        let Ok(directory) = RunDirectory::open(&self.0.state, run) else {
            self.forget(run);
            return;
        };
        self.watch_lock(&directory);
        let presence = directory.writer();
        let Ok(overview) = RunOverview::read(&directory) else {
            self.forget(run);
            return;
        };
        let standing = match (&overview.state, presence) {
            (RunState::Ended { .. } | RunState::Lost { .. }, Ok(WriterPresence::Live(holder))) => {
                // Its shim is still cleaning up. The run counts as ended when the shim is gone.
                self.attend(&directory, holder);
                return;
            }
            (RunState::Ended { .. } | RunState::Lost { .. }, _) => {
                self.over(overview);
                return;
            }
            (RunState::Queued { since_ms }, _) => Standing::Queued { since_ms: *since_ms },
            (RunState::Created, _) => Standing::Expected,
            (_, Ok(WriterPresence::Live(holder))) => {
                let since_ms = holder.as_ref().map_or(overview.created_ms, |it| it.since_ms);
                self.enter(&directory, &overview, Standing::Live { since_ms });
                self.attend(&directory, holder);
                return;
            }
            _ => Standing::Expected,
        };
        self.enter(&directory, &overview, standing);
        if standing == Standing::Expected {
            let deadline = overview.created_ms.saturating_add(START_EXPECTED_MS + 100);
            let again = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(until(deadline).max(Duration::from_millis(100))).await;
                again.look_if_expected(run);
            });
        }
    }

    fn look_if_expected(&self, run: RunId) {
        let standing = self.table().runs.get(&run).map(|tracked| tracked.standing);
        if standing == Some(Standing::Expected) {
            self.look(run);
        }
    }

    fn watch_lock(&self, directory: &RunDirectory) {
        let run = directory.run_id();
        let mut table = self.table();
        if table.runs.get(&run).is_some_and(|tracked| tracked.lock_watch.is_some()) {
            return;
        }
        // If the run is not in the table yet, `look` adds it with this watch.
        if let Ok(watch) = self.0.inotify.watch(&directory.lock_path(), LOCK_CHANGES) {
            table.watched.insert(watch, (run, Watched::Lock));
            if let Some(tracked) = table.runs.get_mut(&run) {
                tracked.lock_watch = Some(watch);
            }
        }
    }

    /// Adds a run to the table, or updates it.
    fn enter(&self, directory: &RunDirectory, overview: &RunOverview, standing: Standing) {
        let run = overview.run;
        let known = self.table().runs.contains_key(&run);
        let terms = if known { None } else { directory.spec().ok().and_then(|spec| spec.queue) };
        let mut guard = self.table();
        let table = &mut *guard;
        let lock_watch = || {
            let is_it =
                |(_, watched): &(&Watch, &(RunId, Watched))| **watched == (run, Watched::Lock);
            table.watched.iter().find(is_it).map(|(watch, _)| *watch)
        };
        let has_changed = match table.runs.get_mut(&run) {
            Some(tracked) => {
                let before = std::mem::replace(&mut tracked.standing, standing);
                before != standing
            }
            None => {
                let account = terms.as_ref().and_then(|terms| terms.account.clone());
                let share = Share {
                    group: overview.group.clone(),
                    model: overview.model.clone(),
                    account: account.unwrap_or_else(|| DEFAULT_ACCOUNT.to_owned()),
                    workspace: overview.workspace.0.clone(),
                    session: overview.session.clone(),
                };
                let lock_watch = lock_watch();
                let journal_watch = None;
                let is_attended = false;
                let tracked =
                    Tracked { share, terms, standing, lock_watch, journal_watch, is_attended };
                table.runs.insert(run, tracked);
                true
            }
        };
        let is_followed = table.is_followed(run);
        drop(guard);
        if is_followed {
            self.watch_journal(run);
        }
        self.tell(run);
        if has_changed {
            self.0.changes.send(Change::Run).ok();
        }
    }

    /// Waits for the end of the run's shim, in its own task.
    fn attend(&self, directory: &RunDirectory, holder: Option<LockHolder>) {
        // The holder is about to write its note; the daemon looks again when the file changes.
        let Some(holder) = holder else { return };
        let run = directory.run_id();
        match self.table().runs.get_mut(&run) {
            Some(tracked) if tracked.is_attended => return,
            Some(tracked) => tracked.is_attended = true,
            None => {}
        }
        let process = open_process(&holder);
        let again = self.clone();
        tokio::spawn(async move {
            match process {
                Some((process, pid)) => wait_for_end(process, pid).await,
                None => tokio::time::sleep(FOREIGN_LOOK).await,
            }
            if let Some(tracked) = again.table().runs.get_mut(&run) {
                tracked.is_attended = false;
            }
            again.look(run);
        });
    }

    fn over(&self, overview: RunOverview) {
        let run = overview.run;
        let Some(was) = self.take(run) else {
            self.tell(run);
            return;
        };
        self.tell(run);
        let session = overview.session.clone();
        self.0.checks.send(DeliveryCheck::RunEnded { run, session }).ok();
        self.0.changes.send(Change::Over(Box::new(Over { run, overview, was }))).ok();
    }

    /// The run's directory is gone.
    fn forget(&self, run: RunId) {
        if self.take(run).is_some() {
            self.tell(run);
            self.0.changes.send(Change::Run).ok();
        }
    }

    fn take(&self, run: RunId) -> Option<Tracked> {
        let mut table = self.table();
        let watches: Vec<Watch> = table
            .watched
            .iter()
            .filter(|(_, (of, _))| *of == run)
            .map(|(watch, _)| *watch)
            .collect();
        for watch in watches {
            table.watched.remove(&watch);
            self.0.inotify.forget(watch);
        }
        table.runs.remove(&run)
    }

    /// A copy of the table, ordered by run id.
    pub(crate) fn runs(&self) -> Vec<(RunId, Tracked)> {
        self.table().runs.iter().map(|(run, tracked)| (*run, tracked.clone())).collect()
    }

    pub(crate) fn run(&self, run: RunId) -> Option<Tracked> {
        self.table().runs.get(&run).cloned()
    }

    /// True if the run has ended. Looks at an unknown run: it may have appeared just now.
    pub(crate) fn is_over(&self, run: RunId) -> bool {
        let is_known = || self.table().runs.contains_key(&run);
        if is_known() {
            return false;
        }
        let Ok(directory) = RunDirectory::open(&self.0.state, run) else { return true };
        let is_live = matches!(directory.writer(), Ok(WriterPresence::Live(_)));
        let is_over = |overview: RunOverview| !overview.state.is_unfinished();
        // `look` wakes the run's readers, and the caller is one of them: for an ended run that would loop forever.
        if !is_live && RunOverview::read(&directory).is_ok_and(is_over) {
            return true;
        }
        self.look(run);
        !is_known()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.0.table)
    }
}
