//! Finds occasions in the journals of runs, and calls the hooks.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ground::{lock, now_ms};
use run_journal::{EventNumber, JournalEntry, JournalReader, Position, Progress, RunOverview};
use run_protocol::{RunEvent, RunId};
use serde::Serialize;
use tokio::sync::Semaphore;

use super::call::call;
use super::marker::{Marker, since};
use super::{Hook, Transition};
use crate::daemon::Daemon;
use crate::run_watch::subscriber::Interest;

/// How long to collect journal changes: hooks are not urgent.
const GATHER: Duration = Duration::from_millis(100);
/// The most hooks that run at once.
const AT_ONCE: usize = 8;
/// How much of a journal to read at once.
const PIECE: usize = 64 * 1024;

/// A moment in a run at which the daemon calls hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Occasion {
    run: RunId,
    transition: Transition,
    question: Option<Question>,
}

/// The agent's question to the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Question {
    question: String,
    text: String,
    options: Vec<String>,
}

/// The JSON that a hook gets.
#[derive(Debug, Serialize)]
struct Given<'a> {
    v: u32,
    transition: Transition,
    /// The question, if the run needs the user.
    question: Option<&'a Question>,
    run: &'a RunOverview,
}

/// Calls hooks until the daemon ends. `over`: the runs that had ended when the daemon started.
pub(crate) async fn work(daemon: Arc<Daemon>, over: Vec<RunOverview>) {
    let since_ms = match since(daemon.state(), now_ms()) {
        Ok(since_ms) => since_ms,
        Err(error) => {
            tracing::error!(%error, "hooks will not be called: cannot write their records");
            return;
        }
    };
    let hooks =
        Hooks { daemon, since_ms, places: Semaphore::new(AT_ONCE), lines: Lines::default() };
    let hooks = Arc::new(hooks);
    // These runs ended while no daemon ran. It is too late to report that they started.
    for run in over.into_iter().filter(|run| run.created_ms >= since_ms) {
        let (run, transition) = (run.run, Transition::Ended);
        hooks.tell(run, vec![Occasion { run, transition, question: None }]);
    }
    let following = hooks.daemon.watch.follow(Interest::All);
    // The last event that was read from each journal.
    let mut places: BTreeMap<RunId, EventNumber> = BTreeMap::new();
    let mut news: Vec<RunId> = hooks.daemon.watch.runs().into_iter().map(|(run, _)| run).collect();
    loop {
        for run in std::mem::take(&mut news) {
            hooks.look(run, &mut places).await;
        }
        news.extend(following.subscriber().next().await);
        tokio::time::sleep(GATHER).await;
        news.extend(following.subscriber().take());
    }
}

struct Hooks {
    daemon: Arc<Daemon>,
    since_ms: u64,
    places: Semaphore,
    lines: Lines,
}

/// The pending occasions of each run, in their order. A run is in the map while a task calls its hooks.
#[derive(Debug, Default)]
struct Lines(Mutex<BTreeMap<RunId, VecDeque<Occasion>>>);

impl Lines {
    /// Adds occasions of a run. Returns true if no task handles this run yet. Then the caller must start one.
    fn add(&self, run: RunId, occasions: Vec<Occasion>) -> bool {
        let mut lines = lock(&self.0);
        let is_told = lines.contains_key(&run);
        lines.entry(run).or_default().extend(occasions);
        !is_told
    }

    /// Takes the next occasion of a run. Removes the run after its last occasion.
    fn next(&self, run: RunId) -> Option<Occasion> {
        let mut lines = lock(&self.0);
        let next = lines.get_mut(&run).and_then(VecDeque::pop_front);
        if next.is_none() {
            lines.remove(&run);
        }
        next
    }
}

impl Hooks {
    /// Reads the new events of a run's journal.
    async fn look(self: &Arc<Self>, run: RunId, places: &mut BTreeMap<RunId, EventNumber>) {
        if run.created_ms() < self.since_ms {
            return;
        }
        let Some(directory) = self.daemon.directory(run) else {
            places.remove(&run);
            return;
        };
        let from = places.get(&run).copied();
        let is_over = self.daemon.watch.is_over(run);
        let read = tokio::task::spawn_blocking(move || {
            let position = from.map_or(Position::Start, Position::After);
            let mut reader = JournalReader::open(&directory, position).ok()?.in_pieces_of(PIECE);
            let mut seen = Seen { run, last: from, occasions: Vec::new() };
            while reader.next_batch(&mut |entry| seen.see(&entry)).ok()? == Progress::Advanced {}
            Some(seen)
        });
        let Ok(Some(mut seen)) = read.await else { return };
        let has_ended = seen.occasions.iter().any(|it| it.transition == Transition::Ended);
        if is_over {
            places.remove(&run);
            // The journal of an interrupted run has no event for its end.
            if !has_ended {
                let transition = Transition::Ended;
                seen.occasions.push(Occasion { run, transition, question: None });
            }
        } else {
            places.extend(seen.last.map(|last| (run, last)));
            // The run counts as ended when its shim is gone.
            seen.occasions.retain(|it| it.transition != Transition::Ended);
        }
        self.tell(run, seen.occasions);
    }

    /// Calls the hooks of a run's occasions, one after the other.
    fn tell(self: &Arc<Self>, run: RunId, occasions: Vec<Occasion>) {
        let wanted = |occasion: &Occasion| {
            let hooks = &self.daemon.config.hooks;
            hooks.iter().any(|hook| hook.on.contains(&occasion.transition))
        };
        let occasions: Vec<Occasion> = occasions.into_iter().filter(wanted).collect();
        if occasions.is_empty() {
            return;
        }
        if !self.lines.add(run, occasions) {
            return;
        }
        let hooks = Arc::clone(self);
        tokio::spawn(async move {
            while let Some(occasion) = hooks.lines.next(run) {
                let Ok(_place) = hooks.places.acquire().await else { return };
                tell(&hooks.daemon, &occasion).await;
            }
        });
    }
}

#[derive(Debug)]
struct Seen {
    run: RunId,
    last: Option<EventNumber>,
    occasions: Vec<Occasion>,
}

impl Seen {
    fn see(&mut self, entry: &JournalEntry<'_>) {
        let (transition, question) = match entry {
            JournalEntry::Agent { number, .. } | JournalEntry::UnknownRun { number, .. } => {
                self.last = Some(*number);
                return;
            }
            JournalEntry::Run { number, event, .. } => {
                self.last = Some(*number);
                match event {
                    RunEvent::Released => (Transition::Started, None),
                    RunEvent::NeedsHuman { question, text, options, .. } => {
                        let (question, text) = (question.clone(), text.clone());
                        let options = options.clone();
                        (Transition::NeedsHuman, Some(Question { question, text, options }))
                    }
                    RunEvent::Ended { .. } => (Transition::Ended, None),
                    _ => return,
                }
            }
            _ => return,
        };
        self.occasions.push(Occasion { run: self.run, transition, question });
    }
}

/// Claims the occasion and calls every hook for it.
async fn tell(daemon: &Arc<Daemon>, occasion: &Occasion) {
    let Occasion { run, transition, question } = occasion.clone();
    let prepared = {
        let daemon = Arc::clone(daemon);
        tokio::task::spawn_blocking(move || {
            let overview = RunOverview::read(&daemon.directory(run)?).ok()?;
            let key = question.as_ref().map(|it| it.question.as_str());
            let n_hooks = hooks_for(&daemon, transition).count();
            let claimed = Marker::claim(daemon.state(), run, transition, key, now_ms(), n_hooks);
            let marker = match claimed {
                Ok(marker) => marker?,
                Err(error) => {
                    tracing::error!(%error, %run, "a hook was not called: cannot write its record");
                    return None;
                }
            };
            let given = Given { v: 1, transition, question: question.as_ref(), run: &overview };
            Some((marker, serde_json::to_vec(&given).ok()?, overview))
        })
    };
    let Ok(Some((mut marker, json, overview))) = prepared.await else { return };
    let variables = variables(transition, &overview);
    for hook in hooks_for(daemon, transition) {
        let outcome = call(hook, &variables, &json).await;
        let transition = transition.name();
        match &outcome.problem {
            None => tracing::info!(%run, transition, hook = outcome.hook, "a hook was called"),
            Some(problem) => {
                tracing::warn!(%run, transition, hook = outcome.hook, problem, "a hook failed");
            }
        }
        // After each hook: if the daemon is killed during the next one, this result is on disk.
        let noted = tokio::task::spawn_blocking(move || {
            let noted = marker.note(outcome);
            (marker, noted)
        });
        let Ok((same, noted)) = noted.await else { return };
        marker = same;
        if let Err(error) = noted {
            tracing::warn!(%error, %run, "the result of a hook could not be recorded");
        }
    }
}

fn hooks_for(daemon: &Daemon, transition: Transition) -> impl Iterator<Item = &Hook> {
    daemon.config.hooks.iter().filter(move |hook| hook.on.contains(&transition))
}

fn variables(transition: Transition, run: &RunOverview) -> Vec<(&'static str, String)> {
    let outcome = run.state.outcome();
    let status = outcome.as_ref().map(|outcome| crate::queue::outcome_name(Some(outcome)));
    vec![
        ("CARETAKER_TRANSITION", transition.name().to_owned()),
        ("CARETAKER_RUN_ID", run.run.to_string()),
        ("CARETAKER_SESSION_ID", run.session.clone()),
        ("CARETAKER_RUN_NAME", run.name.clone().unwrap_or_default()),
        ("CARETAKER_OUTCOME", status.unwrap_or_default()),
    ]
}

#[cfg(test)]
#[path = "watcher_tests.rs"]
mod tests;
