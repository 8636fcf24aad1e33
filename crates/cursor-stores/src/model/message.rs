//! What was said.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::moment::Moment;
use super::tool::{ToolCall, ToolResult};

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Message {
    /// The store's own, where it has one that tells messages apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Who says it.
    pub role: Role,
    /// What it is besides.
    #[serde(default, skip_serializing_if = "MessageKind::is_said")]
    pub kind: MessageKind,
    /// The index of its turn in the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<usize>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Moment>,
    /// The model that said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its pieces, in their order.
    pub parts: Vec<Part>,
}

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    System,
    User,
    Assistant,
    /// A result whose call is not in the conversation.
    Tool,
    /// A role that this build does not know.
    Unknown,
}

/// What a message is besides its role.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// Said by the one whose role it has.
    #[default]
    Said,
    /// Nothing but context that Cursor added: folded when shown.
    Context,
    /// Takes the place of messages that were summarised; those come before it.
    Summary,
    /// Written by Cursor in the user's name, such as the end of a background task.
    Simulated,
    /// Not committed yet: its writer is at it, or was killed.
    Pending,
    /// On a branch that was abandoned. Only shown on request.
    Orphan,
}

impl MessageKind {
    #[must_use]
    pub fn is_said(&self) -> bool {
        *self == Self::Said
    }
}

/// A piece of a message, in the order of the message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// What the model thought.
    Reasoning {
        /// Empty where the store keeps only a redacted form.
        text: String,
        /// How long it took.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
        /// The store keeps only a redacted form.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_redacted: bool,
    },
    /// With its result, where the store has it anywhere.
    ToolCall(ToolCall),
    /// A result whose call is not in the conversation.
    ToolResult {
        /// The call's id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call_id: Option<String>,
        /// The tool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_name: Option<String>,
        /// What the tool gave back.
        result: ToolResult,
    },
    /// A picture.
    Image {
        /// Its media type.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        media_type: Option<String>,
        /// Where the picture lies, if not in the store.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// Its size.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        n_bytes: Option<u64>,
    },
    /// Something that was attached: a file, a selection, a rule, a terminal.
    Attachment {
        /// `file`, `folder`, `selection`, `rule`, `terminal`, `doc`, `context`, …
        kind: String,
        /// What it is called.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// What is in it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// Code that the store keeps apart from the text.
    Code {
        /// The language that it is written in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        language: Option<String>,
        /// The file that it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// The code.
        text: String,
    },
    /// The todo list as of this message.
    Todos {
        /// Its entries.
        todos: Vec<super::Todo>,
    },
    /// Something went wrong.
    Error {
        /// What, in the store's words.
        text: String,
    },
    /// A piece of a kind that this build does not know, as the store has it.
    Unknown {
        /// The store's word for it.
        kind: String,
        /// What the store has.
        #[serde(default, skip_serializing_if = "Json::is_null")]
        #[schema(value_type = serde_json::Value)]
        value: Json,
    },
}

impl Message {
    #[must_use]
    pub fn new(role: Role, parts: Vec<Part>) -> Self {
        Self { id: None, role, kind: MessageKind::Said, turn: None, at: None, model: None, parts }
    }

    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// The text parts, joined.
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self
            .parts
            .iter()
            .filter_map(|part| match part {
                Part::Text { text } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        texts.join("\n\n")
    }
}

impl Part {
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Bytes that are damaged beyond reading, as far as they are text: who looks for a word finds it there.
    #[must_use]
    pub fn damaged(bytes: &[u8]) -> Self {
        const SHOWN: usize = 1024 * 1024;
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).into_owned();
        Self::Unknown { kind: "damaged".to_owned(), value: text.into() }
    }

    #[must_use]
    pub fn reasoning(text: impl Into<String>) -> Self {
        Self::Reasoning { text: text.into(), duration_ms: None, is_redacted: false }
    }
}
