//! What a run is and how it stands, derived from the head and the tail of its journal and from its lock.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use ground::plain_file;
use run_protocol::{
    BytesPath, Checkpoint, Lineage, NoResult, ReportedStatus, RunEvent, RunId, RunOutcome, RunSpec,
    Spend, WorktreeOrigin,
};
use serde::{Deserialize, Serialize};

use crate::clock::boot_id;
use crate::journal_reader::{check_version, hand_on_line};
use crate::line_search::{self, read_piece};
use crate::run_standing::{Phase, RunStanding};
use crate::{EventNumber, JournalEntry, OpenJournalError, RunDirectory, WriterPresence};

/// A run is set up within its first lines.
const HEAD_BYTES: u64 = 64 * 1024;
/// A run ends with its last lines.
const TAIL_BYTES: u64 = 256 * 1024;

/// A run in brief.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunOverview {
    /// The run's id.
    pub run: RunId,
    /// When it was accepted, in milliseconds since 1970.
    pub created_ms: u64,
    /// The name to call it by.
    pub name: Option<String>,
    /// The user's own marks.
    pub labels: BTreeMap<String, String>,
    /// Cursor's session.
    pub session: String,
    /// The directory that it works in.
    pub workspace: BytesPath,
    /// The repository that the workspace is a worktree of, if we made it for this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeOrigin>,
    /// The sandbox profile.
    pub profile: String,
    /// The agent's program.
    pub agent: BytesPath,
    /// What the program says its version is.
    pub agent_version: Option<String>,
    /// The model that was asked for.
    pub model: Option<String>,
    /// The prompt's first line, cut.
    pub prompt_start: String,
    /// Bytes of the prompt.
    pub prompt_length: u64,
    /// The run that failed and was tried again with this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<RunId>,
    /// The runs that it is counted and shown with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Whose child it is, where another run asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<Lineage>,
    /// What it asked a person last and has no answer to; as far as the tail of the journal tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_human: Option<String>,
    /// How it stands.
    pub state: RunState,
    /// The last event that can be read.
    pub last_event: Option<EventNumber>,
    /// When it was written, in milliseconds since 1970.
    pub last_event_ms: u64,
    /// What the session's store held at the end.
    pub checkpoint: Option<Checkpoint>,
    /// What the agent said of its work; as far as the tail of the journal tells.
    pub reported: Option<Reported>,
    /// What it took, once it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Spend>,
    /// The size of its journal.
    pub journal_bytes: u64,
}

/// What the agent said of its own work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Reported {
    /// Its own verdict.
    pub status: ReportedStatus,
    /// In its words.
    pub summary: String,
}

/// How a run stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RunState {
    /// Its directory exists; nobody supervises it yet.
    Created,
    /// It waits in the queue; nobody supervises it.
    Queued {
        /// Milliseconds since 1970.
        since_ms: u64,
    },
    /// It waits for a session or a workspace.
    Waiting {
        /// What for, in a sentence.
        reason: String,
    },
    /// Its sandbox is being set up.
    Starting,
    /// The agent was let go.
    Running {
        /// When it was let go, in milliseconds since 1970.
        since_ms: u64,
        /// When the last event was written, in milliseconds since 1970.
        last_event_ms: u64,
        /// How far it says it is.
        progress: Option<String>,
    },
    /// It is over.
    Ended {
        /// How it came out.
        #[serde(flatten)]
        outcome: RunOutcome,
        /// Why, in one sentence.
        why: String,
        /// The agent's own exit code.
        exit_code: Option<i32>,
        /// From its creation to its end.
        duration_ms: u64,
    },
    /// It did not end as far as its record tells, and nobody supervises it any more.
    Lost {
        /// Why, in one sentence.
        why: String,
        /// The record cannot be read, or has no beginning: the run may have ended in any way.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unreadable: bool,
    },
}

impl RunState {
    /// How the run came out; `None` while it goes on.
    pub fn outcome(&self) -> Option<RunOutcome> {
        match self {
            Self::Ended { outcome, .. } => Some(outcome.clone()),
            Self::Lost { .. } => Some(RunOutcome::Unknown { why: NoResult::Lost }),
            Self::Created
            | Self::Queued { .. }
            | Self::Waiting { .. }
            | Self::Starting
            | Self::Running { .. } => None,
        }
    }

    /// Tells whether the run goes on.
    pub fn is_unfinished(&self) -> bool {
        self.outcome().is_none()
    }

    /// Tells whether the run was cut off by something that nobody asked of it. A run whose record cannot be read may have
    /// succeeded, so it does not count.
    pub fn is_interrupted(&self) -> bool {
        matches!(
            self,
            Self::Lost { unreadable: false, .. }
                | Self::Ended { outcome: RunOutcome::Interrupted, .. }
        )
    }
}

impl RunOverview {
    /// Reads how a run stands now. Fails if the run was removed; one whose files are damaged is
    /// lost, and says so, unless its writer is alive.
    pub fn read(directory: &RunDirectory) -> io::Result<Self> {
        // First the lock, then the journal: where the lock was free, the journal is final.
        let presence = directory.writer();
        let spec = directory.spec().ok();
        let mut standing = RunStanding::default();
        let journal = read_journal(directory, &mut standing);
        let mut overview = Self::unread(directory.run_id());
        overview.describe(spec.as_ref(), standing.created.as_ref());
        if journal.is_err() {
            std::fs::symlink_metadata(directory.path())?;
        }
        overview.state = match (&presence, &journal) {
            // The writer may be of a newer version, whose journal this build cannot read.
            (Ok(WriterPresence::Live(_)), Err(_)) if !standing.has_ended() => RunState::Running {
                since_ms: overview.created_ms,
                last_event_ms: standing.last.map_or(overview.created_ms, |(_, at)| at),
                progress: None,
            },
            (Err(err), _) | (_, Err(err)) if !standing.has_ended() => {
                RunState::Lost { why: format!("its files cannot be read: {err}"), unreadable: true }
            }
            (Ok(presence), _) => state(&standing, presence),
            (Err(_), _) => state(&standing, &WriterPresence::Gone(None)),
        };
        overview.spent = (!overview.state.is_unfinished()).then(|| standing.spend());
        overview.journal_bytes = journal.unwrap_or_default();
        overview.last_event = standing.last.map(|(number, _)| number);
        overview.last_event_ms = standing.last.map_or(overview.created_ms, |(_, at)| at);
        overview.checkpoint = standing.checkpoint;
        overview.reported = standing.reported;
        overview.needs_human = standing.questions.last().map(|(_, text)| text.clone());
        Ok(overview)
    }

    fn unread(run: RunId) -> Self {
        Self {
            run,
            created_ms: run.created_ms(),
            name: None,
            labels: BTreeMap::new(),
            session: String::new(),
            workspace: BytesPath::from(""),
            worktree: None,
            profile: String::new(),
            agent: BytesPath::from(""),
            agent_version: None,
            model: None,
            prompt_start: String::new(),
            prompt_length: 0,
            retry_of: None,
            group: None,
            lineage: None,
            needs_human: None,
            state: RunState::Created,
            last_event: None,
            last_event_ms: 0,
            checkpoint: None,
            reported: None,
            spent: None,
            journal_bytes: 0,
        }
    }

    /// Tells what the run was asked to do. The journal knows nearly all of it, and stays readable to older builds when
    /// the spec does not.
    fn describe(&mut self, spec: Option<&RunSpec>, created: Option<&RunEvent>) {
        if let Some(spec) = spec {
            self.created_ms = spec.created_ms;
            self.name.clone_from(&spec.name);
            self.labels.clone_from(&spec.labels);
            self.session = spec.session.to_string();
            self.workspace = BytesPath::from(&spec.workspace);
            self.worktree.clone_from(&spec.worktree);
            self.profile.clone_from(&spec.profile);
            self.agent = spec.agent.program.clone();
            self.agent_version.clone_from(&spec.agent.version);
            self.model.clone_from(&spec.model);
            self.retry_of = spec.retry_of;
            self.group.clone_from(&spec.group);
            self.lineage.clone_from(&spec.lineage);
        }
        if let Some(RunEvent::Created {
            session,
            workspace,
            profile,
            agent,
            agent_version,
            model,
            name,
            prompt_length,
            prompt_start,
        }) = created
        {
            self.session.clone_from(session);
            self.workspace = workspace.clone();
            self.profile.clone_from(profile);
            self.agent = agent.clone();
            self.agent_version.clone_from(agent_version);
            self.model.clone_from(model);
            self.name.clone_from(name);
            self.prompt_length = *prompt_length;
            self.prompt_start.clone_from(prompt_start);
        }
    }
}

fn state(standing: &RunStanding, presence: &WriterPresence) -> RunState {
    let last_event_ms = standing.last.map_or(0, |(_, at)| at);
    match (&standing.phase, presence) {
        (Phase::Ended(ended), _) => ended.clone(),
        (Phase::Queued { .. }, WriterPresence::Live(_)) => RunState::Starting,
        // Whoever took its lock and died had not begun.
        (Phase::Queued { since_ms }, _) => RunState::Queued { since_ms: *since_ms },
        (_, WriterPresence::Gone(_)) if standing.created.is_none() => RunState::Lost {
            why: "its journal was emptied or has lost its beginning".to_owned(),
            unreadable: true,
        },
        (_, WriterPresence::Gone(None)) if standing.n_events < 2 => {
            RunState::Lost { why: "its supervisor never started".to_owned(), unreadable: false }
        }
        (_, WriterPresence::Gone(_)) => {
            RunState::Lost { why: why_lost(standing).to_owned(), unreadable: false }
        }
        (Phase::Created, WriterPresence::NotYet) => RunState::Created,
        (Phase::Created | Phase::Starting, _) => RunState::Starting,
        (Phase::Waiting { reason }, _) => RunState::Waiting { reason: reason.clone() },
        (Phase::Running { since_ms }, _) => RunState::Running {
            since_ms: *since_ms,
            last_event_ms,
            progress: standing.progress.clone(),
        },
    }
}

fn why_lost(standing: &RunStanding) -> &'static str {
    match (&standing.boot, boot_id()) {
        (Some(then), Some(now)) if *then != now => "the machine was restarted while it ran",
        _ => "its supervisor died",
    }
}

/// Reads the head and the tail of a journal into `standing`; returns how long it is.
fn read_journal(directory: &RunDirectory, standing: &mut RunStanding) -> io::Result<u64> {
    let file = plain_file::open(&directory.journal_path())?;
    check_version(&file).map_err(|error| match error {
        OpenJournalError::Open(source) => source,
        newer @ OpenJournalError::Newer { .. } => io::Error::other(newer),
    })?;
    let length = file.metadata()?.len();
    let end = line_search::end_of_whole_lines(&file, length)?;
    let head_end = read_lines(&file, 0, end.min(HEAD_BYTES), standing)?;
    let tail_start = match end.saturating_sub(TAIL_BYTES) {
        start if start <= head_end => Some(head_end),
        start => line_search::next_line(&file, start, end)?.filter(|start| *start < end),
    };
    match tail_start {
        Some(tail_start) => {
            if tail_start > head_end {
                standing.skipped();
            }
            read_lines(&file, tail_start, end, standing)?;
        }
        // One line fills the whole tail; its payload does not matter, for nothing that long is of our making.
        None => {
            standing.skipped();
            let start = line_search::start_of_line(&file, end)?;
            if let Some(head) = line_search::head_at(&file, start)? {
                standing.see_agent_line(head.number, head.at);
            }
        }
    }
    Ok(length)
}

/// Reads the whole lines between two offsets, of which the first begins a line; returns where they end.
fn read_lines(file: &File, start: u64, end: u64, standing: &mut RunStanding) -> io::Result<u64> {
    let mut buffer = vec![0; usize::try_from(end.saturating_sub(start)).unwrap_or_default()];
    let mut rest = read_piece(file, &mut buffer, start, end)?;
    let mut offset = start;
    while let Some(length) = memchr::memchr(b'\n', rest) {
        hand_on_line(&rest[..length], offset, &mut None, &mut |entry: JournalEntry<'_>| {
            standing.see(&entry);
        });
        rest = &rest[length + 1..];
        offset += length as u64 + 1;
    }
    Ok(offset)
}

#[cfg(test)]
#[path = "run_overview_tests.rs"]
mod tests;
