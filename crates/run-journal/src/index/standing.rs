//! The state of a run after each entry of its journal. A pure fold.

use run_protocol::{RunEvent, Spend};

use crate::{EventNumber, JournalEntry, Reported, RunState};

/// The state after the entries so far.
#[derive(Debug, Default)]
pub(crate) struct RunStanding {
    /// The `created` event.
    pub(crate) created: Option<RunEvent>,
    pub(crate) phase: Phase,
    pub(crate) progress: Option<String>,
    pub(crate) reported: Option<Reported>,
    /// The open questions to people: id and text.
    pub(crate) questions: Vec<(String, String)>,
    pub(crate) checkpoint: Option<run_protocol::Checkpoint>,
    pub(crate) spent: Option<Spend>,
    /// When the agent started, or printed its first line.
    pub(crate) released_ms: Option<u64>,
    /// The last event, and its time.
    pub(crate) last: Option<(EventNumber, u64)>,
    /// True if the shim wrote something. Until then, the journal has only the events from its creation.
    pub(crate) has_begun: bool,
    /// The boot in which the last writer wrote.
    pub(crate) boot: Option<String>,
}

/// The phase of a run.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) enum Phase {
    #[default]
    Created,
    Queued {
        since_ms: u64,
    },
    Waiting {
        reason: String,
    },
    Starting,
    Running {
        since_ms: u64,
    },
    /// Holds a [`RunState::Ended`].
    Ended(RunState),
}

impl RunStanding {
    pub(crate) fn see(&mut self, entry: &JournalEntry<'_>) {
        match entry {
            JournalEntry::Header(header) => {
                self.boot.clone_from(&header.boot);
                if header.epoch > EventNumber::FIRST_EPOCH {
                    self.phase = Phase::Starting;
                    self.progress = None;
                }
            }
            JournalEntry::Agent { number, at, .. } => self.see_agent_line(*number, *at),
            JournalEntry::Run { number, at, event, .. } => {
                self.last = Some((*number, *at));
                self.has_begun |= !is_of_creation(event);
                self.see_event(*at, event);
            }
            JournalEntry::UnknownRun { number, at, .. } => self.begin(*number, *at),
            JournalEntry::Unreadable { .. } => {}
        }
    }

    /// Records an agent's line, which shows that the agent is running.
    pub(crate) fn see_agent_line(&mut self, number: EventNumber, at: u64) {
        self.begin(number, at);
        self.released_ms.get_or_insert(at);
        if !matches!(self.phase, Phase::Running { .. } | Phase::Ended(_)) {
            self.phase = Phase::Running { since_ms: at };
        }
    }

    /// Records that the reader skipped entries. Nearly all of them are the agent's lines.
    pub(crate) fn skipped(&mut self) {
        self.released_ms = self.released_ms.or(self.last.map(|(_, at)| at));
        let is_early =
            matches!(self.phase, Phase::Created | Phase::Queued { .. } | Phase::Waiting { .. });
        if let (true, Some((_, at))) = (is_early, self.last) {
            self.phase = Phase::Running { since_ms: at };
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended(_))
    }

    /// The tool calls, time and tokens of an ended run. If no event has them, derives them as far as possible.
    pub(crate) fn spend(&self) -> Spend {
        match (self.spent, self.released_ms, self.last) {
            (Some(spent), _, _) => spent,
            (None, None, _) => Spend::NOTHING,
            (None, Some(released), last) => Spend {
                time_ms: last.map(|(_, at)| at.saturating_sub(released)),
                ..Spend::default()
            },
        }
    }

    fn begin(&mut self, number: EventNumber, at: u64) {
        self.last = Some((number, at));
        self.has_begun = true;
    }

    fn see_event(&mut self, at: u64, event: &RunEvent) {
        match event {
            RunEvent::Created { .. } => self.created = Some(event.clone()),
            RunEvent::Queued { .. } => self.phase = Phase::Queued { since_ms: at },
            RunEvent::Attempt { .. } => self.phase = Phase::Starting,
            RunEvent::Waiting { reason } => {
                self.phase = Phase::Waiting { reason: reason.clone() };
            }
            RunEvent::SandboxReady { .. } => self.phase = Phase::Starting,
            RunEvent::Released => {
                self.released_ms.get_or_insert(at);
                self.phase = Phase::Running { since_ms: at };
            }
            RunEvent::Spent(spent) => self.spent = Some(*spent),
            RunEvent::Progress { text, .. } => self.progress = Some(text.clone()),
            RunEvent::Reported { status, summary, .. } => {
                self.reported = Some(Reported { status: *status, summary: summary.clone() });
            }
            RunEvent::NeedsHuman { question, text, .. } => {
                self.questions.push((question.clone(), text.clone()));
            }
            RunEvent::MessagesDelivered { answers, .. } => {
                self.questions.retain(|(question, _)| !answers.contains(question));
            }
            RunEvent::Checkpoint(checkpoint) => self.checkpoint = Some(checkpoint.clone()),
            RunEvent::Ended { outcome, why, exit_code, duration_ms, .. } => {
                self.phase = Phase::Ended(RunState::Ended {
                    outcome: outcome.clone(),
                    why: why.clone(),
                    exit_code: *exit_code,
                    duration_ms: *duration_ms,
                });
            }
            _ => {}
        }
    }
}

/// Returns true if the event is written together with the run's directory, before there is a shim.
fn is_of_creation(event: &RunEvent) -> bool {
    matches!(event, RunEvent::Created { .. } | RunEvent::Widened { .. } | RunEvent::Queued { .. })
}
