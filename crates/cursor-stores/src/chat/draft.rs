//! A message while it is put together from the two histories of a conversation.

use super::blob_id::BlobId;
use super::json_message::JsonMessage;
use super::tool_result::CallResult;
use super::turn_history::{ItemContent, TurnItem};
use crate::model::{
    Confidence, Message, MessageKind, Moment, Part, Role, ToolCall, ToolResult, ToolState,
};
use crate::prompt_time::parse_prompt_time;

/// A message in the making.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) id: Option<BlobId>,
    pub(super) role: Role,
    pub(super) kind: MessageKind,
    pub(super) parts: Vec<DraftPart>,
    /// Results in it whose calls are in other messages.
    pub(super) results: Vec<CallResult>,
    pub(super) request_id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) at: Option<Moment>,
    /// Where it stands among all messages of the conversation, for guessing its time.
    pub(super) ordinal: usize,
    /// The index of its turn among those that were read.
    pub(super) turn: Option<usize>,
    /// All blobs that it is made of.
    pub(super) sources: Vec<BlobId>,
    pub(super) fate: Fate,
}

/// Whether there is anything to show of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Read,
    /// The prompt refers to it, and it cannot be read.
    Lost,
}

#[derive(Debug, Clone)]
pub(super) struct DraftPart {
    pub(super) part: Part,
    /// The step of the turns that is the same call.
    pub(super) step: Option<BlobId>,
}

impl From<Part> for DraftPart {
    fn from(part: Part) -> Self {
        Self { part, step: None }
    }
}

impl Draft {
    pub(super) fn new(role: Role, kind: MessageKind, ordinal: usize) -> Self {
        Self {
            id: None,
            role,
            kind,
            parts: Vec::new(),
            results: Vec::new(),
            request_id: None,
            model: None,
            at: None,
            ordinal,
            turn: None,
            sources: Vec::new(),
            fate: Fate::Read,
        }
    }

    pub(super) fn lost(id: BlobId, ordinal: usize) -> Self {
        Self {
            id: Some(id),
            fate: Fate::Lost,
            ..Self::new(Role::Unknown, MessageKind::Said, ordinal)
        }
    }

    pub(super) fn of_message(id: Option<BlobId>, message: JsonMessage, ordinal: usize) -> Self {
        // One without a zone may be off by half a day, which is worse than one between its neighbours'.
        let said_at = message
            .timestamp
            .as_deref()
            .and_then(parse_prompt_time)
            .filter(|at| at.confidence == Confidence::Recorded);
        let started = message.started_at_ms.map(Moment::recorded);
        Self {
            id,
            parts: message.parts.into_iter().map(DraftPart::from).collect(),
            results: message.results,
            request_id: message.request_id,
            model: message.model,
            at: said_at.or(started),
            sources: id.into_iter().collect(),
            ..Self::new(message.role, message.kind, ordinal)
        }
    }

    /// Tells whether a turn begins with it.
    pub(super) fn is_prompt(&self) -> bool {
        self.role == Role::User
            && matches!(self.kind, MessageKind::Said | MessageKind::Simulated)
            && !self.parts.is_empty()
    }

    /// Tells whether it holds nothing but results, which go to their calls.
    pub(super) fn is_only_results(&self) -> bool {
        self.parts.is_empty() && !self.results.is_empty()
    }

    pub(super) fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match &part.part {
            Part::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }

    /// Takes from a step, or from the prompt of a turn, what only turns know: times and durations.
    pub(super) fn annotate(&mut self, part: Option<usize>, item: &TurnItem) {
        self.turn = self.turn.or(Some(item.turn));
        self.sources.push(item.blob);
        self.sources.extend(item.also);
        let recorded = item.started_at_ms.or(item.completed_at_ms).map(Moment::recorded);
        // What is said in so many words in the prompt is only as exact as a minute.
        let is_exact = self.role == Role::User && recorded.is_some();
        self.at = if is_exact { recorded } else { self.at.or(recorded) };
        let between = item
            .started_at_ms
            .zip(item.completed_at_ms)
            .and_then(|(started, completed)| u64::try_from(completed - started).ok());
        if let ItemContent::Prompt { is_simulated: true, .. } = item.content
            && self.kind == MessageKind::Said
        {
            self.kind = MessageKind::Simulated;
        }
        let Some(part) = part.and_then(|part| self.parts.get_mut(part)) else { return };
        match &mut part.part {
            Part::Reasoning { text, duration_ms, is_redacted } => {
                if let ItemContent::Thinking { text: thought, duration_ms: thought_for } =
                    &item.content
                {
                    *duration_ms = thought_for.or(between);
                    // Providers redact what goes back to the model; the interface may have shown it.
                    if text.is_empty() && !thought.is_empty() {
                        text.clone_from(thought);
                        *is_redacted = false;
                    }
                }
            }
            Part::ToolCall(call) => {
                part.step = Some(item.blob);
                call.started = call.started.or(item.started_at_ms.map(Moment::recorded));
                call.duration_ms = call.duration_ms.or(between);
            }
            _ => {}
        }
    }

    pub(super) fn into_message(self) -> Message {
        Message {
            id: self.id.map(|id| id.to_string()),
            role: self.role,
            kind: self.kind,
            turn: None,
            at: self.at,
            model: self.model,
            parts: self.parts.into_iter().map(|part| part.part).collect(),
        }
    }
}

/// A command that the user ran with `!`: a call of the user's own.
pub(super) fn shell_turn(command: &str, output: Option<&super::turn_schema::ShellOutput>) -> Part {
    let mut call = ToolCall::new("shell", serde_json::json!({ "command": command }));
    if let Some(output) = output {
        let state = if output.exit_code == 0 { ToolState::Succeeded } else { ToolState::Failed };
        call.state = state;
        call.result = Some(ToolResult {
            output: serde_json::json!({
                "stdout": output.stdout,
                "stderr": output.stderr,
                "exitCode": output.exit_code,
            }),
            error: None,
            is_truncated: false,
        });
    }
    Part::ToolCall(call)
}
