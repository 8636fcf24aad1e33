//! The messages of a conversation.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::moment::Moment;
use super::tool::{ToolCall, ToolResult};

/// One message of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Message {
    /// The store's own id, if it identifies the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The author.
    pub role: Role,
    /// The kind of the message, besides its role.
    #[serde(default, skip_serializing_if = "MessageKind::is_said")]
    pub kind: MessageKind,
    /// The index of its turn in the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<usize>,
    /// The time of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Moment>,
    /// The model that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its parts, in order.
    pub parts: Vec<Part>,
}

/// The author of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    System,
    User,
    Assistant,
    /// A result whose call is not in the conversation.
    Tool,
    /// A role that this build does not know.
    #[default]
    Unknown,
}

/// The kind of a message, besides its role.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// An ordinary message from its author.
    #[default]
    Said,
    /// Only context that Cursor added. Folded when shown.
    Context,
    /// Replaces messages that were summarised. They come before it.
    Summary,
    /// Written by Cursor in the user's name, such as the notice that a background task ended.
    Simulated,
    /// Not committed yet: the writer is still writing it, or was killed.
    Pending,
    /// On an abandoned branch. Shown only on request.
    Orphan,
}

impl MessageKind {
    #[must_use]
    pub fn is_said(&self) -> bool {
        *self == Self::Said
    }
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// The model's thinking.
    Reasoning {
        /// Empty if the store keeps only a redacted form.
        text: String,
        /// The duration.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
        /// The store keeps only a redacted form.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_redacted: bool,
    },
    /// A tool call, with its result if the store has it.
    ToolCall(ToolCall),
    /// A result whose call is not in the conversation.
    ToolResult {
        /// The call's id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call_id: Option<String>,
        /// The tool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_name: Option<String>,
        /// The tool's result.
        result: ToolResult,
    },
    /// An image.
    Image {
        /// Its media type.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        media_type: Option<String>,
        /// The path of the image, if it is not in the store.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// The size of the image.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        n_bytes: Option<u64>,
    },
    /// An attachment: a file, a selection, a rule, a terminal.
    Attachment {
        /// `file`, `folder`, `selection`, `rule`, `terminal`, `doc`, `context`, …
        kind: String,
        /// The name of the attachment.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The content of the attachment.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// Code that the store keeps separately from the text.
    Code {
        /// The language of the code.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        language: Option<String>,
        /// The file that it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// The code.
        text: String,
    },
    /// The to-do list at this message.
    Todos {
        /// Its entries.
        todos: Vec<super::Todo>,
    },
    /// An error.
    Error {
        /// The error, in the store's words.
        text: String,
    },
    /// A part of an unknown kind, exactly as the store keeps it.
    Unknown {
        /// The store's name for it.
        kind: String,
        /// The store's value.
        #[serde(default, skip_serializing_if = "Json::is_null")]
        #[schema(value_type = serde_json::Value)]
        value: Json,
    },
}

impl Message {
    #[must_use]
    pub fn new(role: Role, parts: Vec<Part>) -> Self {
        Self { role, parts, ..Self::default() }
    }

    /// True if the message count includes this message. It leaves out context and system prompts.
    #[must_use]
    pub(crate) fn is_counted(&self) -> bool {
        matches!(self.role, Role::User | Role::Assistant) && self.kind.is_said()
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

    /// Damaged bytes, shown as text as far as possible, so that a search finds words in them.
    #[must_use]
    pub fn damaged(bytes: &[u8]) -> Self {
        const SHOWN: usize = 1024 * 1024;
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).into_owned();
        Self::Unknown { kind: "damaged".to_owned(), value: text.into() }
    }

    /// Context that Cursor put around a prompt: the tag's name, which may be empty, and its body.
    #[must_use]
    pub(crate) fn context(tag: &str, body: &str) -> Self {
        Self::Attachment {
            kind: "context".to_owned(),
            name: (!tag.is_empty()).then(|| tag.to_owned()),
            text: Some(body.to_owned()),
        }
    }

    #[must_use]
    pub fn reasoning(text: impl Into<String>) -> Self {
        Self::Reasoning { text: text.into(), duration_ms: None, is_redacted: false }
    }
}
