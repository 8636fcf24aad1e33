//! The queue: carries out each decision, and remembers why the other runs wait.
//!
//! The run directories are the queue: the last line of a queued run's journal is `queued`. After a restart, the daemon
//! finds the waiting runs there, but not their credentials, which are never on disk.

pub(crate) mod queue_file;
pub(crate) mod spending;
mod start;
pub(crate) mod why;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use admission::config::caps::{CapKind, Caps};
use admission::host::disk::free_bytes;
use ground::{lock, now_ms};
use run_journal::{EndQueued, RunOverview, RunState};
use run_protocol::{Credentials, FailureClass, RunId, RunOutcome};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::clock::until;
use crate::daemon::Daemon;
use crate::queue::queue_file::{QueueFile, QueueGate, QueueMemory};
use crate::queue::start::StartOutcome;
use crate::run_watch::{Change, Over, Standing, Tracked};
use crate::schedule::{
    Conditions, Decision, Dependency, DiskRoom, Gate, Hold, Lowered, Waiting, WaitingRun, decide,
};

/// How long a request waits for the decision that it causes.
const DECISION_PATIENCE: Duration = Duration::from_secs(5);
/// How soon the daemon repeats a failed start, unless another run ends first.
const RETRY: Duration = Duration::from_secs(15);
/// How long a new run waits for its credentials. The process that created it may have died before it sent them.
const CREDENTIALS_EXPECTED_MS: u64 = 2_000;

#[derive(Debug)]
pub(crate) struct Queue {
    file: QueueFile,
    configured: Caps,
    /// When the daemon started.
    opened_ms: u64,
    wake: Notify,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    memory: QueueMemory,
    holds: BTreeMap<RunId, Hold>,
    /// Runs whose shims are starting.
    starting: BTreeSet<RunId>,
    /// The waiting runs of the last decision, in the order in which they will start.
    waiting: Vec<(RunId, Waiting)>,
    /// Ended runs that a waiting run depends on.
    outcomes: BTreeMap<RunId, Dependency>,
    /// The credentials of waiting runs. They are never on disk.
    credentials: BTreeMap<RunId, Credentials>,
    /// Requests that are waiting for the next decision.
    asking: Vec<oneshot::Sender<()>>,
}

/// A view of the queue.
#[derive(Debug, Clone)]
pub(crate) struct QueueSight {
    pub(crate) gate: QueueGate,
    pub(crate) caps: Caps,
    pub(crate) waiting: Vec<(RunId, Waiting)>,
    pub(crate) starting: Vec<RunId>,
    /// Rate-limited accounts: each with its current cap and the end of its pause.
    pub(crate) lowered: Vec<(String, u32, u64)>,
}

impl Queue {
    pub(crate) fn new(state: &Path, configured: Caps) -> Self {
        let file = QueueFile::new(state);
        let inner = Inner { memory: file.read(), ..Inner::default() };
        Self {
            file,
            configured,
            opened_ms: now_ms(),
            wake: Notify::new(),
            inner: Mutex::new(inner),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// Causes a new decision.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    pub(crate) fn caps(&self) -> Caps {
        self.inner().memory.caps.clone().unwrap_or_else(|| self.configured.clone())
    }

    pub(crate) fn gate(&self) -> QueueGate {
        self.inner().memory.gate
    }

    pub(crate) fn set_gate(&self, gate: QueueGate) -> std::io::Result<()> {
        self.remember(|memory| memory.gate = gate)
    }

    pub(crate) fn set_cap(
        &self,
        kind: CapKind,
        name: &str,
        cap: Option<u32>,
    ) -> std::io::Result<()> {
        let mut caps = self.caps();
        caps.set(kind, name, cap);
        self.remember(|memory| memory.caps = Some(caps))
    }

    fn remember(&self, change: impl FnOnce(&mut QueueMemory)) -> std::io::Result<()> {
        let mut inner = self.inner();
        let mut memory = inner.memory.clone();
        change(&mut memory);
        // Write to disk first: a confirmed change must survive the daemon.
        self.file.write(&memory)?;
        inner.memory = memory;
        drop(inner);
        self.wake();
        Ok(())
    }

    /// Keeps the credentials of a run until it starts.
    pub(crate) fn keep_credentials(&self, run: RunId, credentials: Credentials) {
        let mut inner = self.inner();
        inner.credentials.insert(run, credentials);
        if matches!(inner.holds.get(&run), Some(Hold::Keys { .. })) {
            inner.holds.remove(&run);
        }
        drop(inner);
        self.wake();
    }

    pub(crate) fn credentials(&self, run: RunId) -> Option<Credentials> {
        self.inner().credentials.get(&run).cloned()
    }

    /// The reason to hold back this one run. The daemon sees a run before it has the run's credentials, and must not
    /// start it without them. For runs that are older than this daemon, no credentials will come.
    fn hold(&self, inner: &Inner, run: RunId, since_ms: u64) -> Option<Hold> {
        let is_expected = since_ms >= self.opened_ms && !inner.credentials.contains_key(&run);
        let bringing =
            || Hold::Credentials { until_ms: since_ms.saturating_add(CREDENTIALS_EXPECTED_MS) };
        inner.holds.get(&run).cloned().or_else(|| is_expected.then(bringing))
    }

    /// Records the result of a start that used the credentials `given`.
    fn settle_start(&self, run: RunId, given: Option<&Credentials>, hold: Option<Hold>) {
        let mut inner = self.inner();
        match hold {
            // The missing keys have arrived in the meantime.
            Some(Hold::Keys { .. }) if inner.credentials.get(&run) != given => {}
            Some(hold) => drop(inner.holds.insert(run, hold)),
            None => {
                inner.holds.remove(&run);
                inner.credentials.remove(&run);
            }
        }
        inner.starting.remove(&run);
        drop(inner);
        self.wake();
    }

    /// Waits for a decision that begins after this call.
    pub(crate) async fn next_decision(&self) {
        let (sender, decided) = oneshot::channel();
        self.inner().asking.push(sender);
        self.wake();
        // Decisions take milliseconds. If the deciding task is gone, the client gets the current state.
        tokio::time::timeout(DECISION_PATIENCE, decided).await.ok();
    }

    /// Why a run is waiting; `None` if it is not.
    pub(crate) fn waiting(&self, run: RunId) -> Option<Waiting> {
        let inner = self.inner();
        if inner.starting.contains(&run) {
            return Some(Waiting::Start);
        }
        inner.waiting.iter().find(|(of, _)| *of == run).map(|(_, reason)| reason.clone())
    }

    pub(crate) fn sight(&self) -> QueueSight {
        let caps = self.caps();
        let now = now_ms();
        let inner = self.inner();
        let lowered = inner.memory.lowered.iter().map(|(account, lowered)| {
            let full = full_cap(&caps, account);
            (account.clone(), lowered.cap(full, now), lowered.pause_until_ms())
        });
        QueueSight {
            gate: inner.memory.gate,
            waiting: inner.waiting.clone(),
            starting: inner.starting.iter().copied().collect(),
            lowered: lowered.collect(),
            caps,
        }
    }
}

/// Decides which runs to start, and starts them, until the daemon ends.
pub(crate) async fn work(daemon: Arc<Daemon>, mut changes: mpsc::UnboundedReceiver<Change>) {
    loop {
        let decision = daemon.decide();
        let next_look = decision.next_look_ms;
        daemon.act(decision);
        let look = async {
            match next_look {
                Some(at) => tokio::time::sleep(until(at)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = daemon.queue.wake.notified() => {}
            () = look => {}
            change = changes.recv() => match change {
                Some(change) => daemon.note_change(change),
                None => return,
            },
        }
        // One decision covers everything that has happened so far.
        while let Ok(change) = changes.try_recv() {
            daemon.note_change(change);
        }
    }
}

impl Daemon {
    fn decide(&self) -> Decision {
        let began = Instant::now();
        // Requests that come after this point may need a newer decision.
        let asking = std::mem::take(&mut self.queue.inner().asking);
        let caps = self.queue.caps();
        let mut waiting = Vec::new();
        let mut live = Vec::new();
        {
            let inner = self.queue.inner();
            for (run, tracked) in self.watch.runs() {
                match (tracked.standing, &tracked.terms) {
                    (Standing::Queued { since_ms }, Some(_)) if !inner.starting.contains(&run) => {
                        let hold = self.queue.hold(&inner, run, since_ms);
                        waiting.push(as_waiting(run, tracked, since_ms, hold));
                    }
                    _ => live.push((run, tracked.share)),
                }
            }
        }
        let dependencies = self.dependencies(&waiting);
        let budgets = self.budgets(&waiting);
        let disk = if waiting.is_empty() { DiskRoom::Enough } else { self.disk() };
        let mut inner = self.queue.inner();
        let gate = match inner.memory.gate {
            QueueGate::Paused => Gate::Paused,
            QueueGate::Open | QueueGate::Draining => Gate::Open,
        };
        let conditions = Conditions {
            gate,
            disk,
            lowered: &inner.memory.lowered,
            budgets: &budgets,
            dependencies: &dependencies,
            ageing_ms: self.config.ageing_ms,
        };
        let decision = decide(now_ms(), &waiting, &live, &caps, &conditions);
        inner.waiting.clone_from(&decision.waiting);
        inner.starting.extend(&decision.starts);
        drop(inner);
        for asker in asking {
            // The client may have disconnected.
            asker.send(()).ok();
        }
        self.counters.decisions.one();
        let took = began.elapsed().as_micros();
        self.counters.decision_us.add(u64::try_from(took).unwrap_or(u64::MAX));
        decision
    }

    fn act(self: &Arc<Self>, decision: Decision) {
        for run in decision.starts {
            let daemon = Arc::clone(self);
            tokio::spawn(async move { daemon.start(run).await });
        }
        for (run, why) in decision.ends {
            let daemon = Arc::clone(self);
            tokio::task::spawn_blocking(move || {
                daemon.end_queued(run, RunOutcome::DependencyFailed, why);
            });
        }
    }

    /// The state of each run that a waiting run depends on.
    fn dependencies(&self, waiting: &[WaitingRun]) -> BTreeMap<RunId, Dependency> {
        let wanted: BTreeSet<RunId> =
            waiting.iter().flat_map(|run| run.after.iter().chain(&run.after_ok)).copied().collect();
        self.queue.inner().outcomes.retain(|run, _| wanted.contains(run));
        wanted.into_iter().map(|run| (run, self.dependency(run))).collect()
    }

    fn dependency(&self, run: RunId) -> Dependency {
        if let Some(known) = self.queue.inner().outcomes.get(&run) {
            return *known;
        }
        if !self.watch.is_over(run) {
            return Dependency::Unfinished;
        }
        let Some(directory) = self.directory(run) else { return Dependency::Removed };
        match RunOverview::read(&directory) {
            Ok(overview) => {
                let dependency = as_dependency(&overview.state);
                if dependency != Dependency::Unfinished {
                    self.queue.inner().outcomes.insert(run, dependency);
                }
                dependency
            }
            Err(_) => Dependency::Removed,
        }
    }

    fn disk(&self) -> DiskRoom {
        let needed_bytes = self.config.min_free_bytes;
        // If the free space is unknown, assume enough: on a full disk, the first write fails.
        let free_bytes = free_bytes(self.state().path()).unwrap_or(u64::MAX);
        if free_bytes >= needed_bytes {
            DiskRoom::Enough
        } else {
            DiskRoom::Short { free_bytes, needed_bytes }
        }
    }

    fn note_change(&self, change: Change) {
        let Change::Over(over) = change else { return };
        let Over { run, overview, was } = *over;
        self.spent.add(&overview);
        let mut inner = self.queue.inner();
        inner.credentials.remove(&run);
        inner.holds.remove(&run);
        let dependency = as_dependency(&overview.state);
        // The obstacle to a start may be gone now.
        for hold in inner.holds.values_mut() {
            if let Hold::Retry { until_ms, .. } = hold {
                *until_ms = 0;
            }
        }
        drop(inner);
        if dependency == Dependency::Unfinished {
            return;
        }
        let outcome = overview.state.outcome();
        self.counters.ended(&outcome_name(outcome.as_ref()));
        if let Some(RunOutcome::Failed { class: FailureClass::RateLimited }) = outcome {
            self.slow_down(&was);
        }
    }

    /// Reacts to a rate limit: a pause, and then fewer runs of the account at once.
    fn slow_down(&self, was: &Tracked) {
        let Standing::Live { since_ms } = was.standing else { return };
        let account = was.share.account.clone();
        let caps = self.queue.caps();
        let now = now_ms();
        // Accounts that hit the limit together should not come back together.
        let jitter = now ^ u64::from(std::process::id());
        let remembered = self.queue.remember(|memory| {
            memory.lowered.retain(|name, lowered| !lowered.is_over(full_cap(&caps, name), now));
            let before = memory.lowered.get(&account).copied();
            let full = full_cap(&caps, &account);
            let lowered = Lowered::after_refusal(before, full, since_ms, now, jitter % 1001);
            memory.lowered.insert(account.clone(), lowered);
        });
        if let Err(error) = remembered {
            tracing::warn!(%error, account, "a rate limit could not be saved");
        }
        tracing::info!(account, "the account is rate limited; starting fewer runs at once");
    }

    /// Starts one run.
    async fn start(self: Arc<Self>, run: RunId) {
        let daemon = Arc::clone(&self);
        let credentials = self.queue.credentials(run);
        let given = credentials.clone();
        let start = move || start::start(&daemon, run, given.as_ref());
        let started = tokio::task::spawn_blocking(start).await;
        let started = started.unwrap_or_else(|error| StartOutcome::Later(error.to_string()));
        let hold = match started {
            StartOutcome::Started => {
                self.counters.starts.one();
                tracing::info!(%run, "started");
                None
            }
            StartOutcome::Over => None,
            StartOutcome::KeysMissing(names) => Some(Hold::Keys { names }),
            StartOutcome::Later(problem) => {
                self.counters.failed_starts.one();
                tracing::warn!(%run, problem, "the run could not be started; the daemon will try again");
                let until_ms = now_ms() + u64::try_from(RETRY.as_millis()).unwrap_or(u64::MAX);
                Some(Hold::Retry { problem, until_ms })
            }
        };
        // First the new state, then the end of the start: in between the run counts twice, which is safer than not at
        // all.
        self.watch.look(run);
        self.queue.settle_start(run, credentials.as_ref(), hold);
    }

    /// Ends a queued run. Returns `false` if the run is no longer waiting.
    pub(crate) fn end_queued(&self, run: RunId, outcome: RunOutcome, why: String) -> bool {
        let Some(directory) = self.directory(run) else { return false };
        match directory.end_queued(outcome, why) {
            Ok(ended) => ended == EndQueued::Ended,
            Err(error) => {
                tracing::error!(%error, %run, "a queued run could not be ended");
                false
            }
        }
    }
}

fn as_waiting(run: RunId, tracked: Tracked, since_ms: u64, hold: Option<Hold>) -> WaitingRun {
    let Tracked { share, terms, .. } = tracked;
    let terms = terms.unwrap_or_default();
    WaitingRun {
        run,
        share,
        since_ms,
        priority: terms.priority,
        not_before_ms: terms.not_before_ms,
        after: terms.after,
        after_ok: terms.after_ok,
        hold,
    }
}

fn as_dependency(state: &RunState) -> Dependency {
    match state.outcome() {
        None => Dependency::Unfinished,
        Some(RunOutcome::Succeeded) => Dependency::Succeeded,
        Some(_) => Dependency::Failed,
    }
}

fn full_cap(caps: &Caps, account: &str) -> u32 {
    caps.of(CapKind::Account, account).unwrap_or(caps.total).min(caps.total)
}

/// The outcome's name, as in the journal.
pub(crate) fn outcome_name(outcome: Option<&RunOutcome>) -> String {
    let Some(outcome) = outcome else { return "unfinished".to_owned() };
    let json = serde_json::to_value(outcome).unwrap_or_default();
    json.get("outcome").and_then(|name| name.as_str()).unwrap_or("unknown").to_owned()
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
