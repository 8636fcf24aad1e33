//! Every run that is not over, and word to whoever wants to know when one changes. Nothing is polled.
//!
//! ```text
//!   runs/            a new directory appears                      ─┐
//!   <run>/run.lock   somebody takes it, or lets it go             ─┼─► look at the run ─► changes (the scheduler)
//!   its holder       the process ends (pidfd)                     ─┘                  └─► mailboxes (readers)
//!   <run>/events…    written to; watched only while somebody reads along ────────────────► mailboxes
//! ```
//!
//! A run is live while its lock is held, whoever started it: so one that an earlier daemon started is adopted by looking.

mod following;

use std::collections::{BTreeMap, HashMap};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use run_journal::{
    IndexError, LockHolder, RunDirectory, RunFilter, RunOverview, RunState, StateRoot,
    WriterPresence, list_runs, session_of,
};
use run_protocol::{QueueTerms, RunId};
use tokio::sync::mpsc;

pub(crate) use self::following::Following;
use crate::clock::until;
use crate::inotify::{Happened, Inotify, Watch};
use crate::lock_holder::{open_process, wait_for_end};
use crate::mailbox::Mailbox;
use crate::postman::Errand;
use crate::schedule::Share;

/// How long a run that was not started through the queue may be without a supervisor before it is looked at again.
const START_EXPECTED_MS: u64 = 30_000;
/// How often a holder is looked at whose process cannot be watched: one in another container, say.
const FOREIGN_LOOK: Duration = Duration::from_secs(2);
/// News of a journal are gathered for so long: a fast run must not wake two hundred readers for each line.
const GATHER: Duration = Duration::from_millis(15);

/// What a run is called that nobody gave an account.
pub(crate) const DEFAULT_ACCOUNT: &str = "default";

/// A run that is not over.
#[derive(Debug, Clone)]
pub(crate) struct Tracked {
    pub(crate) share: Share,
    pub(crate) terms: Option<QueueTerms>,
    pub(crate) standing: Standing,
    lock_watch: Option<Watch>,
    journal_watch: Option<Watch>,
    /// Whether somebody waits for the end of its supervisor.
    is_attended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Its supervisor is on its way.
    Expected,
    Queued {
        since_ms: u64,
    },
    Live {
        since_ms: u64,
    },
}

/// What the scheduler wants to know.
#[derive(Debug)]
pub(crate) enum Change {
    /// Something about a run that is not over.
    Run,
    /// It is over, and was seen before.
    Over(Box<Over>),
}

#[derive(Debug)]
pub(crate) struct Over {
    pub(crate) run: RunId,
    pub(crate) overview: RunOverview,
    /// What was known of it.
    pub(crate) was: Tracked,
}

#[derive(Debug, Clone)]
pub(crate) struct RunWatch(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: StateRoot,
    inotify: Inotify,
    changes: mpsc::UnboundedSender<Change>,
    errands: mpsc::UnboundedSender<Errand>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    runs: BTreeMap<RunId, Tracked>,
    watched: HashMap<Watch, (RunId, Watched)>,
    arrivals: Option<Watch>,
    inboxes: Option<Watch>,
    mailboxes: Vec<Weak<Mailbox>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watched {
    Lock,
    Journal,
}

/// Says why runs cannot be watched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    #[error("the directory of runs cannot be watched")]
    Watch(#[from] std::io::Error),
    #[error("the runs cannot be listed")]
    List(#[from] IndexError),
}

impl RunWatch {
    /// Begins to watch. Nothing is known before [`adopt`](Self::adopt).
    pub(crate) fn new(
        state: &StateRoot,
        changes: mpsc::UnboundedSender<Change>,
        errands: mpsc::UnboundedSender<Errand>,
    ) -> Result<Self, WatchError> {
        let inotify = Inotify::new()?;
        // First the watch, then the look: what appears in between is seen twice, not never.
        let arrivals = Some(inotify.watch_arrivals(&state.runs())?);
        DirBuilder::new().recursive(true).mode(0o700).create(state.inboxes())?;
        let inboxes = Some(inotify.watch_writes_in(&state.inboxes())?);
        let table = Mutex::new(Table { arrivals, inboxes, ..Table::default() });
        Ok(Self(Arc::new(Inner { state: state.clone(), inotify, changes, errands, table })))
    }

    /// Finds every run that is not over; returns the others.
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
                self.0.errands.send(Errand::Over { run, session }).ok();
            }
        }
        Ok(over)
    }

    /// Watches until the end of the program.
    pub(crate) async fn watch(self) {
        loop {
            match self.0.inotify.next().await {
                Ok(happened) => self.sort_out(happened),
                Err(error) => {
                    tracing::error!(%error, "changes of files cannot be read");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
            tokio::time::sleep(GATHER).await;
        }
    }

    fn sort_out(&self, happened: Vec<Happened>) {
        for news in happened {
            match news {
                Happened::Change { watch, name: Some(name) } => {
                    if self.table().inboxes == Some(watch) {
                        let session = session_of(&name);
                        session.map(|session| self.0.errands.send(Errand::Letter(session)));
                        continue;
                    }
                    let is_arrival = self.table().arrivals == Some(watch);
                    let run = name.to_str().and_then(|name| name.parse().ok());
                    if let (true, Some(run)) = (is_arrival, run) {
                        self.look(run);
                    }
                }
                Happened::Change { watch, name: None } => {
                    let watched = self.table().watched.get(&watch).copied();
                    match watched {
                        Some((run, Watched::Lock)) => self.look(run),
                        Some((run, Watched::Journal)) => self.tell(run),
                        None => {}
                    }
                }
                Happened::Gone(watch) => {
                    let gone = self.table().watched.remove(&watch);
                    if let Some((run, _)) = gone {
                        self.look(run);
                    }
                }
                Happened::Overflow => {
                    self.0.errands.send(Errand::All).ok();
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
            }
        }
    }

    /// Looks at one run, and sees to it that its next change is noticed.
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
                // Its supervisor cleans up; it is over when that is gone.
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
        // A run that is not in the table yet is entered by the look that follows, with this watch.
        if let Ok(watch) = self.0.inotify.watch_lock(&directory.lock_path()) {
            table.watched.insert(watch, (run, Watched::Lock));
            if let Some(tracked) = table.runs.get_mut(&run) {
                tracked.lock_watch = Some(watch);
            }
        }
    }

    /// Puts a run into the table, or what is new about it.
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

    /// Waits for the end of the run's supervisor, in a task of its own.
    fn attend(&self, directory: &RunDirectory, holder: Option<LockHolder>) {
        // Whoever took the lock is about to say who it is, and that is a change of the file.
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
        self.0.errands.send(Errand::Over { run, session }).ok();
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

    /// A copy of the table, in the order of the runs' ids.
    pub(crate) fn runs(&self) -> Vec<(RunId, Tracked)> {
        self.table().runs.iter().map(|(run, tracked)| (*run, tracked.clone())).collect()
    }

    pub(crate) fn run(&self, run: RunId) -> Option<Tracked> {
        self.table().runs.get(&run).cloned()
    }

    /// Whether nothing more comes of a run. One that is not known is looked at: it may have appeared just now.
    pub(crate) fn is_over(&self, run: RunId) -> bool {
        let is_known = || self.table().runs.contains_key(&run);
        if is_known() {
            return false;
        }
        let Ok(directory) = RunDirectory::open(&self.0.state, run) else { return true };
        let is_live = matches!(directory.writer(), Ok(WriterPresence::Live(_)));
        let is_over = |overview: RunOverview| !overview.state.is_unfinished();
        // A look tells the readers of the run, and it is a reader who asks: a run that is over would be news for ever.
        if !is_live && RunOverview::read(&directory).is_ok_and(is_over) {
            return true;
        }
        self.look(run);
        !is_known()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
