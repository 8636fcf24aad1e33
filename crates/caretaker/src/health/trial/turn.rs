//! What the journal of one run of a trial shows.

use admission::command_error::CommandError;
use agent_stream::{AgentStream, EventKind};
use public_events::as_raw_line;
use run_journal::{JournalEntry, Position, RunDirectory};
use run_protocol::{McpCallOutcome, NetRefusal, NetworkMode, Resumable, RunEvent, RunOutcome};

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
    /// True if the sandbox refused the unlisted host because it is not on the list.
    pub(crate) was_refused_host: bool,
    /// True if the list has that host.
    pub(crate) is_host_listed: bool,
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
            RunEvent::NetDenied { host: Some(host), reason, .. } if host == UNLISTED_HOST => {
                match reason {
                    NetRefusal::NotListed | NetRefusal::RegistryNotListed => {
                        self.was_refused_host = true
                    }
                    // It failed only later, so the list has it.
                    _ => self.is_host_listed = true,
                }
            }
            RunEvent::NetAllowed { host: Some(host), .. } if host == UNLISTED_HOST => {
                self.is_host_listed = true;
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

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use run_protocol::NetVia;

    use super::*;

    /// Whether the sandbox refused the unlisted host, and whether the list has it.
    fn seen(events: impl IntoIterator<Item = RunEvent>) -> (bool, bool) {
        let mut turn = Turn::default();
        events.into_iter().for_each(|event| turn.event(event));
        (turn.was_refused_host, turn.is_host_listed)
    }

    #[test]
    fn only_a_refusal_because_of_the_list_shows_that_the_list_works() {
        let (port, via, detail, count) = (None, NetVia::Dns, None, 1);
        let denied = |host: &str, reason: NetRefusal| {
            let (host, detail) = (Some(host.to_owned()), detail.clone());
            RunEvent::NetDenied { host, port, via, reason, detail, count }
        };
        let allowed = |host: &str| {
            let host = Some(host.to_owned());
            RunEvent::NetAllowed { host, port, via, count }
        };
        assert_eq!(seen([denied(UNLISTED_HOST, NetRefusal::NotListed)]), (true, false));
        assert_eq!(seen([denied(UNLISTED_HOST, NetRefusal::Unreachable)]), (false, true));
        assert_eq!(seen([allowed(UNLISTED_HOST)]), (false, true));
        let others = [denied("api2.cursor.sh", NetRefusal::NotListed), allowed("api2.cursor.sh")];
        assert_eq!(seen(others), (false, false));
    }
}
