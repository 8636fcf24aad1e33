//! The only table of fields that refer to blobs, and the kinds of those blobs.

use std::fmt;

use prost::Message;
use serde::de::IgnoredAny;

use crate::chat::schema::{
    AgentConversationTurnStructure, ConversationPlan, ConversationStateStructure, ConversationStep,
    ConversationSummary, ConversationSummaryArchive, ConversationTurnStructure, FileState,
    ReadOutcome, ReadOutput, SelectedContextImages, ShellCommand, ShellConversationTurnStructure,
    ShellOutput, Step, SubagentPersistedState, TaskOutcome, TodoItem, Tool, ToolCall, Turn,
    UserMessage,
};

/// The kind of a blob. Only the field that refers to a blob knows its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BlobKind {
    Root,
    /// A message of the prompt: one JSON object.
    PromptMessage,
    Turn,
    /// A turn of a 2025 build, without the union around it.
    OldTurn,
    UserMessage,
    Step,
    ShellCommand,
    ShellOutput,
    Todo,
    Summary,
    Plan,
    Archive,
    FileState,
    SubagentState,
    Text,
    /// Raw bytes, or a message with unknown fields.
    Opaque,
}

impl BlobKind {
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) const ALL: [Self; 16] = [
        Self::Root,
        Self::PromptMessage,
        Self::Turn,
        Self::OldTurn,
        Self::UserMessage,
        Self::Step,
        Self::ShellCommand,
        Self::ShellOutput,
        Self::Todo,
        Self::Summary,
        Self::Plan,
        Self::Archive,
        Self::FileState,
        Self::SubagentState,
        Self::Text,
        Self::Opaque,
    ];

    /// True if a blob of this kind can refer to others.
    pub(crate) fn leads_on(self) -> bool {
        matches!(
            self,
            Self::Root
                | Self::Turn
                | Self::OldTurn
                | Self::UserMessage
                | Self::Step
                | Self::Archive
                | Self::SubagentState
        )
    }
}

/// The root field whose blobs are the model's prompt.
pub const PROMPT_MESSAGES_FIELD: &str = "root_prompt_messages_json";

/// A blob id inside a message, and its place there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference<'a> {
    /// The bytes of the field. A valid id has 32.
    pub id: &'a [u8],
    pub kind: BlobKind,
    pub field: Field<'a>,
}

/// A place in a message. Shown as `turns[3]`, or `plan of subagent explore`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    pub name: &'static str,
    pub position: Position<'a>,
    /// The subagent whose nested state holds the field.
    pub subagent: Option<&'a str>,
}

impl Field<'_> {
    /// True for a message in the prompt of the conversation itself, not of a sub-agent.
    pub(crate) fn is_prompt(&self) -> bool {
        self.name == PROMPT_MESSAGES_FIELD && self.subagent.is_none()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position<'a> {
    Single,
    Index(usize),
    Key(&'a str),
}

/// Says why a blob is not of the kind that the referring field requires.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotOfKind {
    #[error("not the expected message: {0}")]
    Message(#[from] prost::DecodeError),
    #[error("not a JSON object")]
    Json,
    #[error("not UTF-8 text")]
    Text,
}

impl fmt::Display for Field<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)?;
        match self.position {
            Position::Single => {}
            Position::Index(index) => write!(formatter, "[{index}]")?,
            Position::Key(key) => write!(formatter, "[{key}]")?,
        }
        self.subagent.map_or(Ok(()), |subagent| write!(formatter, " of subagent {subagent}"))
    }
}

/// Decodes a blob as `kind` and calls `visit` with every reference in it, the root's prompt messages first.
///
/// Recursion is bounded: decoding refuses messages nested more than a hundred deep.
pub fn visit_references(
    kind: BlobKind,
    data: &[u8],
    visit: &mut dyn FnMut(Reference<'_>),
) -> Result<(), NotOfKind> {
    let mut sink = Sink { visit, subagent: None };
    match kind {
        BlobKind::Root => sink.root(&ConversationStateStructure::decode(data)?),
        BlobKind::PromptMessage => check_json_object(data)?,
        BlobKind::Turn => match ConversationTurnStructure::decode(data)?.turn {
            Some(Turn::AgentConversationTurn(turn)) => sink.agent_turn(&turn),
            Some(Turn::ShellConversationTurn(turn)) => sink.shell_turn(&turn),
            // A kind of turn this build does not know.
            None => {}
        },
        BlobKind::OldTurn => sink.agent_turn(&AgentConversationTurnStructure::decode(data)?),
        BlobKind::UserMessage => sink.user_message(&UserMessage::decode(data)?),
        BlobKind::Step => sink.step(&ConversationStep::decode(data)?),
        BlobKind::ShellCommand => drop(ShellCommand::decode(data)?),
        BlobKind::ShellOutput => drop(ShellOutput::decode(data)?),
        BlobKind::Todo => drop(TodoItem::decode(data)?),
        BlobKind::Summary => drop(ConversationSummary::decode(data)?),
        BlobKind::Plan => drop(ConversationPlan::decode(data)?),
        BlobKind::Archive => sink.archive(&ConversationSummaryArchive::decode(data)?),
        BlobKind::FileState => drop(FileState::decode(data)?),
        BlobKind::SubagentState => {
            if let Some(state) = SubagentPersistedState::decode(data)?.conversation_state {
                sink.root(&state);
            }
        }
        BlobKind::Text => std::str::from_utf8(data).map(drop).map_err(|_| NotOfKind::Text)?,
        BlobKind::Opaque => {}
    }
    Ok(())
}

pub(crate) fn check_json_object(data: &[u8]) -> Result<(), NotOfKind> {
    let is_object = data.trim_ascii_start().first() == Some(&b'{');
    if is_object && serde_json::from_slice::<IgnoredAny>(data).is_ok() {
        Ok(())
    } else {
        Err(NotOfKind::Json)
    }
}

struct Sink<'v, 's> {
    visit: &'v mut dyn FnMut(Reference<'_>),
    subagent: Option<&'s str>,
}

impl Sink<'_, '_> {
    fn root(&mut self, root: &ConversationStateStructure) {
        let prompt = &root.root_prompt_messages_json;
        self.each(PROMPT_MESSAGES_FIELD, BlobKind::PromptMessage, prompt);
        self.each("turns_old", BlobKind::OldTurn, &root.turns_old);
        self.each("turns", BlobKind::Turn, &root.turns);
        self.each("todos", BlobKind::Todo, &root.todos);
        self.maybe("summary", BlobKind::Summary, &root.summary);
        self.maybe("plan", BlobKind::Plan, &root.plan);
        self.maybe("summary_archive", BlobKind::Archive, &root.summary_archive);
        self.each("summary_archives", BlobKind::Archive, &root.summary_archives);
        for (path, id) in &root.file_states {
            self.at("file_states", Position::Key(path), BlobKind::FileState, id);
        }
        for (path, state) in &root.file_states_v2 {
            for (name, id) in [
                ("file_states_v2.content", &state.content),
                ("file_states_v2.initial_content", &state.initial_content),
            ] {
                if let Some(id) = id.as_ref().filter(|id| !id.is_empty()) {
                    self.at(name, Position::Key(path), BlobKind::Text, id);
                }
            }
        }
        for (key, id) in &root.subagent_state_refs {
            self.at("subagent_state_refs", Position::Key(key), BlobKind::SubagentState, id);
        }
        if let Some(tokens) = &root.token_details {
            self.maybe(
                "token_details.prompt_context_usage_snapshot_blob_id",
                BlobKind::Opaque,
                &tokens.prompt_context_usage_snapshot_blob_id,
            );
        }
        for (key, subagent) in &root.subagent_states {
            if let Some(state) = &subagent.conversation_state {
                Sink { visit: &mut *self.visit, subagent: Some(key) }.root(state);
            }
        }
    }

    fn agent_turn(&mut self, turn: &AgentConversationTurnStructure) {
        self.one("user_message", BlobKind::UserMessage, &turn.user_message);
        self.each("steps", BlobKind::Step, &turn.steps);
    }

    fn shell_turn(&mut self, turn: &ShellConversationTurnStructure) {
        self.one("shell_command", BlobKind::ShellCommand, &turn.shell_command);
        self.one("shell_output", BlobKind::ShellOutput, &turn.shell_output);
    }

    fn user_message(&mut self, message: &UserMessage) {
        self.one("conversation_state_blob_id", BlobKind::Root, &message.conversation_state_blob_id);
        self.maybe("text_blob_id", BlobKind::Text, &message.text_blob_id);
        self.maybe("rich_text_blob_id", BlobKind::Text, &message.rich_text_blob_id);
        // Attachments are the least certain part of the schema. A failure to decode them does not count as damage.
        let context = message.selected_context.as_deref().unwrap_or_default();
        let images = SelectedContextImages::decode(context).unwrap_or_default().selected_images;
        for (index, image) in images.iter().enumerate() {
            if !image.blob_id.is_empty() {
                let name = "selected_context.selected_images.blob_id";
                self.at(name, Position::Index(index), BlobKind::Opaque, &image.blob_id);
            }
        }
    }

    fn step(&mut self, step: &ConversationStep) {
        if let Some(Step::ToolCall(call)) = &step.message {
            self.tool_call(call);
        }
    }

    fn tool_call(&mut self, call: &ToolCall) {
        match &call.tool {
            Some(Tool::Truncated(truncated)) => {
                self.one(
                    "truncated.original_step_blob_id",
                    BlobKind::Step,
                    &truncated.original_step_blob_id,
                );
            }
            Some(Tool::Read(read)) => {
                let outcome = read.result.as_ref().and_then(|result| result.result.as_ref());
                let Some(ReadOutcome::Success(success)) = outcome else { return };
                match &success.output {
                    Some(ReadOutput::DataBlobId(id)) => {
                        self.one("read.data_blob_id", BlobKind::Opaque, id)
                    }
                    Some(ReadOutput::ContentBlobId(id)) => {
                        self.one("read.content_blob_id", BlobKind::Text, id)
                    }
                    _ => {}
                }
            }
            Some(Tool::Task(task)) => {
                let outcome = task.result.as_ref().and_then(|result| result.result.as_ref());
                let Some(TaskOutcome::Success(success)) = outcome else { return };
                for step in &success.conversation_steps {
                    self.step(step);
                }
            }
            _ => {}
        }
    }

    fn archive(&mut self, archive: &ConversationSummaryArchive) {
        self.each("summarized_messages", BlobKind::PromptMessage, &archive.summarized_messages);
        self.one("summary_message", BlobKind::PromptMessage, &archive.summary_message);
    }

    fn each(&mut self, name: &'static str, kind: BlobKind, ids: &[Vec<u8>]) {
        for (index, id) in ids.iter().enumerate() {
            self.at(name, Position::Index(index), kind, id);
        }
    }

    fn maybe(&mut self, name: &'static str, kind: BlobKind, id: &Option<Vec<u8>>) {
        self.one(name, kind, id.as_deref().unwrap_or_default());
    }

    /// An empty field refers to nothing.
    fn one(&mut self, name: &'static str, kind: BlobKind, id: &[u8]) {
        if !id.is_empty() {
            self.at(name, Position::Single, kind, id);
        }
    }

    fn at(&mut self, name: &'static str, position: Position<'_>, kind: BlobKind, id: &[u8]) {
        (self.visit)(Reference {
            id,
            kind,
            field: Field { name, position, subagent: self.subagent },
        });
    }
}
