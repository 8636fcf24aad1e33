//! The overview of a run, derived from the head and the tail of its journal and from its lock.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use ground::plain_file;
use run_protocol::{
    BytesPath, Checkpoint, Lineage, NoResult, ReportedStatus, RunEvent, RunId, RunOutcome, RunSpec,
    Spend, WorktreeOrigin,
};
use serde::{Deserialize, Serialize};

use crate::index::standing::{Phase, RunStanding};
use crate::journal::line_search::{self, read_piece};
use crate::reader::{check_version, hand_on_line};
use crate::runs::boot::boot_id;
use crate::{EventNumber, JournalEntry, OpenJournalError, RunDirectory, WriterPresence};

/// The first lines describe the run's set-up.
const HEAD_BYTES: u64 = 64 * 1024;
/// The last lines describe the run's end.
const TAIL_BYTES: u64 = 256 * 1024;

/// An overview of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunOverview {
    /// The run's id.
    pub run: RunId,
    /// When it was accepted, in milliseconds since 1970.
    pub created_ms: u64,
    /// The run's name.
    pub name: Option<String>,
    /// The user's labels.
    pub labels: BTreeMap<String, String>,
    /// Cursor's session.
    pub session: String,
    /// The directory that the agent works in.
    pub workspace: BytesPath,
    /// The repository that the workspace is a worktree of, if Caretaker made the worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeOrigin>,
    /// The sandbox profile.
    pub profile: String,
    /// The agent's program.
    pub agent: BytesPath,
    /// The version that the program reports.
    pub agent_version: Option<String>,
    /// The model that the user asked for.
    pub model: Option<String>,
    /// The prompt's first line, shortened.
    pub prompt_start: String,
    /// The length of the prompt in bytes.
    pub prompt_length: u64,
    /// The failed run that this run repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<RunId>,
    /// The group of runs that this run belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The parent, if another run asked for this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<Lineage>,
    /// The last open question to a person, if the tail of the journal has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_human: Option<String>,
    /// The state.
    pub state: RunState,
    /// The last readable event.
    pub last_event: Option<EventNumber>,
    /// When the last event was written, in milliseconds since 1970.
    pub last_event_ms: u64,
    /// The state of the session's store at the end.
    pub checkpoint: Option<Checkpoint>,
    /// The agent's report on its work, if the tail of the journal has it.
    pub reported: Option<Reported>,
    /// The tool calls, time and tokens that the run used, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Spend>,
    /// The size of its journal.
    pub journal_bytes: u64,
}

/// The agent's report on its own work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Reported {
    /// The agent's verdict.
    pub status: ReportedStatus,
    /// A summary in the agent's words.
    pub summary: String,
}

/// The state of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RunState {
    /// The run's directory exists, but it has no shim yet.
    Created,
    /// The run is waiting in the queue and has no shim.
    Queued {
        /// Milliseconds since 1970.
        since_ms: u64,
    },
    /// The run is waiting for a session or a workspace.
    Waiting {
        /// Why the run is waiting, in one sentence.
        reason: String,
    },
    /// The shim is setting up the sandbox.
    Starting,
    /// The agent is running.
    Running {
        /// When the agent started, in milliseconds since 1970.
        since_ms: u64,
        /// When the last event was written, in milliseconds since 1970.
        last_event_ms: u64,
        /// The progress that the agent reported last.
        progress: Option<String>,
    },
    /// The run has ended.
    Ended {
        /// The outcome.
        #[serde(flatten)]
        outcome: RunOutcome,
        /// Why, in one sentence.
        why: String,
        /// The agent's own exit code.
        exit_code: Option<i32>,
        /// The time from the run's creation to its end.
        duration_ms: u64,
    },
    /// The journal does not record an end, but the run no longer has a shim.
    Lost {
        /// Why, in one sentence.
        why: String,
        /// True if the record cannot be read or has no beginning. Then the run may have had any outcome.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unreadable: bool,
    },
}

impl RunState {
    /// The outcome; `None` while the run continues.
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

    /// True if the run has neither ended nor been lost.
    pub fn is_unfinished(&self) -> bool {
        self.outcome().is_none()
    }

    /// True if a crash or a shutdown cut the run off. A run with an unreadable record may have succeeded, so it does
    /// not count.
    pub fn is_interrupted(&self) -> bool {
        matches!(
            self,
            Self::Lost { unreadable: false, .. }
                | Self::Ended { outcome: RunOutcome::Interrupted, .. }
        )
    }
}

impl RunOverview {
    /// Reads the current state of a run. Fails if the run was removed. A run with damaged files is lost, unless its
    /// writer is alive.
    pub fn read(directory: &RunDirectory) -> io::Result<Self> {
        // First the lock, then the journal: if the lock was free, the journal is final.
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
            // The writer may be a newer version, whose journal this build cannot read.
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

    /// Fills in the run's request. Nearly all of it is in the journal, which older builds can read even if they cannot
    /// read the spec.
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
        // A shim took the lock, but died before it began the run.
        (Phase::Queued { since_ms }, _) => RunState::Queued { since_ms: *since_ms },
        (_, WriterPresence::Gone(_)) if standing.created.is_none() => RunState::Lost {
            why: "its journal was emptied or has lost its beginning".to_owned(),
            unreadable: true,
        },
        (_, WriterPresence::Gone(None)) if !standing.has_begun => {
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

/// Reads the head and the tail of a journal into `standing`; returns the journal's length.
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
        // One line fills the whole tail. Its payload does not matter: the shim writes no event that long.
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

/// Reads the whole lines between two offsets; returns where they end. `start` is the start of a line.
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
#[path = "overview_tests.rs"]
mod tests;
