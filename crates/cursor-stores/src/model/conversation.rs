//! A conversation, whole.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::damage::Damage;
use super::head::Head;
use super::message::Message;
use super::moment::Moment;
use super::usage::TokenUsage;

/// The version of the JSON form.
pub const CONVERSATION_VERSION: u32 = 1;

/// Everything that is known of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Conversation {
    /// The version of this form.
    pub version: u32,
    /// What a list shows of it.
    pub head: Head,
    /// From prompt to prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turn>,
    /// What was said, in its order.
    pub messages: Vec<Message>,
    /// The todo list as it stands at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub todos: Vec<Todo>,
    /// The plan that the agent made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The files that the store says were changed, as it names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// What the store keeps besides and is only counted here, by the store's own name: `codeBlockPartialInlineDiffFates`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub also_kept: BTreeMap<String, u64>,
    /// What could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<Damage>,
}

/// From one prompt to the next.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct Turn {
    /// Cursor's id of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The model that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the model was set to, such as how hard it should think.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub model_params: BTreeMap<String, String>,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Moment>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Moment>,
    /// How it came out.
    pub state: TurnState,
    /// What went wrong, in the store's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The one word for what went wrong, where the store has one beside its message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// What it used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenUsage>,
}

impl Turn {
    /// What went wrong, in words: the message, and the code where it says something else.
    #[must_use]
    pub fn error_in_words(&self) -> Option<String> {
        match (&self.error, &self.error_code) {
            (Some(error), Some(code)) if error != code => Some(format!("{error} ({code})")),
            (error, code) => error.as_ref().or(code.as_ref()).cloned(),
        }
    }
}

/// How a turn came out.
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

/// One entry of a todo list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Todo {
    /// What is to do.
    pub text: String,
    /// How far it is.
    pub state: TodoState,
}

/// How far an entry of a todo list is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoState {
    Pending,
    InProgress,
    Completed,
    Cancelled,
    Unknown,
}

impl Conversation {
    #[must_use]
    pub fn new(head: Head) -> Self {
        Self {
            version: CONVERSATION_VERSION,
            head,
            turns: Vec::new(),
            messages: Vec::new(),
            todos: Vec::new(),
            plan: None,
            files: Vec::new(),
            also_kept: BTreeMap::new(),
            damage: Vec::new(),
        }
    }
}
