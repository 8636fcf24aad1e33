//! A whole conversation.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::damage::Damage;
use super::head::Head;
use super::message::Message;
use super::moment::Moment;
use super::usage::TokenUsage;

/// The version of the JSON form.
pub const CONVERSATION_VERSION: u32 = 1;

/// Everything known about a conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Conversation {
    /// The version of this format.
    pub version: u32,
    /// The facts that a list shows.
    pub head: Head,
    /// The turns, each from one prompt to the next.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turn>,
    /// The messages, in order.
    pub messages: Vec<Message>,
    /// The todo list at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub todos: Vec<Todo>,
    /// The agent's plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The files that the store lists as changed, under the store's names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// How many other records the store has, by its own name for them: `codeBlockPartialInlineDiffFates`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub also_kept: BTreeMap<String, u64>,
    /// The parts that could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<Damage>,
}

/// A turn: from one prompt to the next.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct Turn {
    /// Cursor's id for the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The model that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model's settings, such as how hard it should think.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub model_params: BTreeMap<String, String>,
    /// When the turn began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Moment>,
    /// When the turn ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Moment>,
    /// How the turn ended.
    pub state: TurnState,
    /// The error, in the store's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The error code, if the store has one besides its message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// The tokens that the turn used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenUsage>,
}

impl Turn {
    /// Returns the message, and the code if it differs.
    #[must_use]
    pub fn error_in_words(&self) -> Option<String> {
        match (&self.error, &self.error_code) {
            (Some(error), Some(code)) if error != code => Some(format!("{error} ({code})")),
            (error, code) => error.as_ref().or(code.as_ref()).cloned(),
        }
    }
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnState {
    Running,
    Finished,
    Failed,
    Cancelled,
    /// The store does not say.
    #[default]
    Unknown,
}

/// One entry of a to-do list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Todo {
    /// The task.
    pub text: String,
    /// The progress of the task.
    pub state: TodoState,
}

/// The progress of a to-do entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoState {
    Pending,
    InProgress,
    Completed,
    Cancelled,
    Unknown,
}

impl TodoState {
    /// Reads a store's word for it: `in_progress`, `inProgress`, `IN_PROGRESS`, …
    pub(crate) fn of(word: &str) -> Self {
        let letters: String = word.chars().filter(char::is_ascii_alphanumeric).collect();
        match letters.to_ascii_lowercase().as_str() {
            "pending" => Self::Pending,
            "inprogress" => Self::InProgress,
            "completed" | "done" => Self::Completed,
            "cancelled" | "canceled" => Self::Cancelled,
            _ => Self::Unknown,
        }
    }
}

impl Conversation {
    #[must_use]
    pub fn new(head: Head) -> Self {
        Self { version: CONVERSATION_VERSION, head, ..Self::default() }
    }
}
