//! A message while the reader builds it from the two histories of a conversation.

use super::turn_history::{ItemContent, TurnItem};
use crate::chat::messages::{CallResult, JsonMessage};
use crate::chat::store::BlobId;
use crate::model::{
    Confidence, Message, MessageKind, Moment, Part, Role, ToolCall, ToolResult, ToolState,
};
use crate::text::prompt_time::parse_prompt_time;

/// An unfinished message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Draft {
    pub(crate) id: Option<BlobId>,
    pub(crate) role: Role,
    pub(crate) kind: MessageKind,
    pub(crate) parts: Vec<DraftPart>,
    /// Results whose calls are in other messages.
    pub(crate) results: Vec<CallResult>,
    pub(crate) request_id: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) at: Option<Moment>,
    /// The message's position in the whole conversation, used to guess its time.
    pub(crate) ordinal: usize,
    /// The index of the message's turn among the turns read.
    pub(crate) turn: Option<usize>,
    /// All blobs that contributed to the message.
    pub(crate) sources: Vec<BlobId>,
    pub(crate) fate: Fate,
}

/// Does a message have anything to show?
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    #[default]
    Read,
    /// The prompt refers to the message, but the message cannot be read.
    Lost,
}

#[derive(Debug, Clone)]
pub(crate) struct DraftPart {
    pub(crate) part: Part,
    /// The step in the turns that records the same call.
    pub(crate) step: Option<BlobId>,
}

impl From<Part> for DraftPart {
    fn from(part: Part) -> Self {
        Self { part, step: None }
    }
}

impl Draft {
    pub(crate) fn new(role: Role, kind: MessageKind, ordinal: usize) -> Self {
        Self { role, kind, ordinal, ..Self::default() }
    }

    pub(crate) fn lost(id: BlobId, ordinal: usize) -> Self {
        Self {
            id: Some(id),
            fate: Fate::Lost,
            ..Self::new(Role::Unknown, MessageKind::Said, ordinal)
        }
    }

    pub(crate) fn of_message(id: Option<BlobId>, message: JsonMessage, ordinal: usize) -> Self {
        // A time without a zone may be off by half a day. A guess between the neighbouring times is better.
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

    /// True if the message begins a turn.
    pub(crate) fn is_prompt(&self) -> bool {
        self.role == Role::User
            && matches!(self.kind, MessageKind::Said | MessageKind::Simulated)
            && !self.parts.is_empty()
    }

    /// True if the message contains only results, which go to their calls.
    pub(crate) fn is_only_results(&self) -> bool {
        self.parts.is_empty() && !self.results.is_empty()
    }

    pub(crate) fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match &part.part {
            Part::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }

    /// Copies what only turns record: times and durations.
    pub(crate) fn annotate(&mut self, part: Option<usize>, item: &TurnItem) {
        self.turn = self.turn.or(Some(item.turn));
        self.sources.push(item.blob);
        self.sources.extend(item.also);
        let recorded = item.started_at_ms.or(item.completed_at_ms).map(Moment::recorded);
        // The time in the prompt's text is exact only to the minute.
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
                    // Providers redact thoughts that they send back to the model. The interface may have shown them.
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

    pub(crate) fn into_message(self) -> Message {
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

/// A command that the user ran with `!`, as a call by the user.
pub(crate) fn shell_turn(command: &str, output: Option<&crate::chat::schema::ShellOutput>) -> Part {
    let mut call = ToolCall::new("shell", serde_json::json!({ "command": command }));
    if let Some(output) = output {
        let state = if output.exit_code == 0 { ToolState::Succeeded } else { ToolState::Failed };
        call.state = state;
        call.result = Some(ToolResult::of(serde_json::json!({
            "stdout": output.stdout,
            "stderr": output.stderr,
            "exitCode": output.exit_code,
        })));
    }
    Part::ToolCall(call)
}
