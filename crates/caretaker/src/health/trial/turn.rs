//! What the journal of one run of a trial shows.

use admission::command_error::CommandError;
use agent_stream::{AgentStream, EventKind};
use public_events::as_raw_line;
use run_journal::{JournalEntry, Position, RunDirectory};
use run_protocol::{McpCallOutcome, NetworkMode, Resumable, RunEvent, RunOutcome};

use super::prompts::{TOOL, UNLISTED_HOST};
use crate::running::following::{open_journal, read_to_end};

/// One run of the agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Turn {
    /// The agent's first line.
    pub(crate) init: Option<Init>,
    /// True if one of Caretaker's tools answered a call.
    pub(crate) has_called_tool: bool,
    /// The network that the sandbox had.
    pub(crate) network: Option<NetworkMode>,
    pub(crate) was_refused_host: bool,
    pub(crate) has_reached_host: bool,
    /// The text of the agent's result, which may be empty.
    pub(crate) answer: Option<String>,
    /// True if the agent's process did not end after the result.
    pub(crate) has_lingered: bool,
    /// The number of messages in the session's store, and why the session cannot be resumed.
    pub(crate) n_messages: u64,
    pub(crate) not_resumable: Option<String>,
    pub(crate) outcome: Option<RunOutcome>,
    pub(crate) exit_code: Option<i32>,
    /// Why the run ended as it did.
    pub(crate) why: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Init {
    pub(crate) session: Option<String>,
}

impl Turn {
    /// Reads the journal of a run that has ended.
    pub(crate) fn of(run: &RunDirectory) -> Result<Self, CommandError> {
        let mut reader = open_journal(run, Position::Start)?;
        let mut lines = AgentStream::default();
        let mut turn = Self { why: "its supervisor died".to_owned(), ..Self::default() };
        read_to_end(&mut reader, &mut |entry| match entry {
            JournalEntry::Agent { line, ending, .. } => {
                let line = lines.read_line(as_raw_line(&line, ending));
                match &line.event.kind {
                    EventKind::Init { .. } => {
                        let session = line.event.session_id.as_ref().map(ToString::to_string);
                        turn.init.get_or_insert(Init { session });
                    }
                    EventKind::Result(result) => {
                        let text = result.text.as_deref().unwrap_or_default();
                        turn.answer = Some(text.to_owned());
                    }
                    _ => {}
                }
            }
            JournalEntry::Run { event, .. } => turn.event(event),
            _ => {}
        })?;
        Ok(turn)
    }

    fn event(&mut self, event: RunEvent) {
        match event {
            RunEvent::SandboxReady { network, .. } => self.network = network,
            RunEvent::McpCall { tool, outcome: McpCallOutcome::Ok, .. } if tool == TOOL => {
                self.has_called_tool = true;
            }
            RunEvent::NetDenied { host: Some(host), .. } if host == UNLISTED_HOST => {
                self.was_refused_host = true;
            }
            RunEvent::NetAllowed { host: Some(host), .. } if host == UNLISTED_HOST => {
                self.has_reached_host = true;
            }
            RunEvent::Lingered { .. } => self.has_lingered = true,
            RunEvent::Checkpoint(checkpoint) => {
                self.n_messages = checkpoint.messages;
                self.not_resumable = match checkpoint.resumable {
                    Resumable::Yes => None,
                    Resumable::No { reason } => Some(reason),
                };
            }
            RunEvent::Ended { outcome, why, exit_code, .. } => {
                (self.outcome, self.why, self.exit_code) = (Some(outcome), why, exit_code);
            }
            _ => {}
        }
    }
}
