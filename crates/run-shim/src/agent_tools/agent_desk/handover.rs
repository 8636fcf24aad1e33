//! Delivers messages to the agent: takes them from the inbox, passes them on, and confirms them when the agent's output
//! shows them.
//!
//! The agent may never read an answer on a socket. So a message counts as delivered only when the agent's own output
//! proves it: the end of the call that returned it, the first word after a prompt, or the result.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use agent_stream::{EventKind, StreamLine};
use run_journal::{Inbox, InboxError, StateRoot};
use run_protocol::{HandOver, Message, RunEvent, RunId, RunSpec};

/// The tool's name in the agent's output.
const TOOL: &[u8] = b"check_inbox";

/// Keeps at most this many calls whose end is not visible. If a program that the agent started calls the tool directly,
/// the agent's output never shows the call.
const MOST_CALLS: usize = 256;

#[derive(Debug)]
pub(crate) struct Handover {
    inbox: Inbox,
    run: RunId,
    underway: Mutex<Underway>,
}

#[derive(Debug, Default)]
struct Underway {
    /// The messages in the prompt.
    turn: Vec<String>,
    /// The messages that each open call returned, possibly none. A call is open until the shim sees its end.
    calls: VecDeque<Vec<String>>,
}

impl Underway {
    /// Remembers a call. If there are too many open calls, it adds the messages to the latest one.
    fn remember(&mut self, ids: Vec<String>) {
        let is_full = self.calls.len() >= MOST_CALLS;
        match self.calls.back_mut() {
            Some(latest) if is_full => latest.extend(ids),
            _ => self.calls.push_back(ids),
        }
    }
}

/// Messages that reached the agent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    by: HandOver,
    messages: Vec<String>,
}

impl Handover {
    pub(crate) fn new(state: &StateRoot, spec: &RunSpec) -> Self {
        Self::of(Inbox::of(state, spec.session), spec.run)
    }

    pub(super) fn of(inbox: Inbox, run: RunId) -> Self {
        Self { inbox, run, underway: Mutex::default() }
    }

    /// Takes waiting messages, so that a tool call can return them.
    pub(crate) fn offer(
        &self,
        most_messages: usize,
        most_bytes: usize,
    ) -> Result<Vec<Message>, InboxError> {
        let messages =
            self.inbox.offer(self.run, HandOver::CheckInbox, most_messages, most_bytes)?;
        let ids = messages.iter().map(|message| message.id.clone()).collect();
        self.underway().remember(ids);
        Ok(messages)
    }

    /// Takes the messages that make up the run's prompt. Returns `false` if another run already got one of them.
    pub(crate) fn offer_as_turn(&self, messages: &[String]) -> Result<bool, InboxError> {
        let is_taken = self.inbox.offer_as_turn(self.run, messages)?.is_some();
        if is_taken {
            self.underway().turn = messages.to_vec();
        }
        Ok(is_taken)
    }

    /// Examines a line of the agent's output, and returns the messages that this line proves were delivered.
    pub(crate) fn see(&self, line: &StreamLine<'_>) -> Vec<Arrived> {
        let mut underway = self.underway();
        if underway.turn.is_empty() && underway.calls.is_empty() {
            return Vec::new();
        }
        let (has_begun, ended) = match &line.event.kind {
            EventKind::Result(_) => (true, underway.calls.len()),
            EventKind::ToolCompleted(_)
                if memchr::memmem::find(line.raw.bytes(), TOOL).is_some() =>
            {
                (true, 1)
            }
            EventKind::ToolCompleted(_)
            | EventKind::ToolStarted(_)
            | EventKind::User { .. }
            | EventKind::Assistant { .. } => (true, 0),
            _ => (false, 0),
        };
        let mut arrived = Vec::new();
        if has_begun && !underway.turn.is_empty() {
            let messages = std::mem::take(&mut underway.turn);
            arrived.push(Arrived { by: HandOver::Turn, messages });
        }
        let ended = ended.min(underway.calls.len());
        let messages: Vec<String> = underway.calls.drain(..ended).flatten().collect();
        if !messages.is_empty() {
            arrived.push(Arrived { by: HandOver::CheckInbox, messages });
        }
        arrived
    }

    /// Records that the messages reached the agent. May block for a moment.
    pub(crate) fn confirm(&self, arrived: &Arrived) -> Result<RunEvent, InboxError> {
        let delivered = self.inbox.confirm(self.run, arrived.by, &arrived.messages)?;
        Ok(RunEvent::MessagesDelivered {
            by: arrived.by,
            messages: arrived.messages.clone(),
            answers: delivered.into_iter().filter_map(|message| message.answers).collect(),
        })
    }

    fn underway(&self) -> MutexGuard<'_, Underway> {
        self.underway.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "handover_tests.rs"]
mod tests;
