//! The facts about a conversation that a list shows.

use std::collections::BTreeMap;

use std::fmt;
use std::str::FromStr;

use run_protocol::BytesPath;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::moment::Moment;
use super::tool::ToolCall;
use super::usage::TokenUsage;

/// A conversation without its messages. Unknown fields are absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Head {
    /// Cursor's id. The same conversation has the same id in all stores.
    pub id: String,
    /// The stores that hold it, richest first.
    pub origins: Vec<Origin>,
    /// Cursor's or the user's title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The folder where it took place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Workspace>,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Moment>,
    /// When it last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated: Option<Moment>,
    /// `agent`, `ask`, `plan`, `debug`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The models that are known to have answered, each once, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// The number of user and assistant messages, without context and system prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_messages: Option<u64>,
    /// The count comes from the richest store, or from the store's own count. A full read may find more messages.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_count_estimated: bool,
    /// The size on disk, if it is cheap to find.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_bytes: Option<u64>,
    /// The current activity.
    pub activity: Activity,
    /// Where the user filed it.
    #[serde(default, skip_serializing_if = "Shelf::is_shown")]
    pub shelf: Shelf,
    /// The parent, for a sub-agent. Sub-agents are listed only on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The conversations of its sub-agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subagents: Vec<String>,
    /// The tokens used. Absent if unknown, never zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenUsage>,
    /// The tool calls that were open when the state was last written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<PendingCall>,
    /// Distinguishes conversations with the same id, in stores where callers choose ids: turn → run, and under
    /// [`Head::BEGINNING`] where and when the conversation began. Not part of the JSON.
    #[serde(skip)]
    pub lineage: BTreeMap<i64, String>,
}

/// A store that holds a conversation, and the conversation's name in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Origin {
    /// The kind of store.
    pub store: StoreKind,
    /// The database or the file.
    pub path: BytesPath,
    /// The key of the conversation in that store, if it is not the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The kinds of places where Cursor keeps conversations, richest first.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum StoreKind {
    /// `chats/<md5>/<uuid>/store.db`, which the command line agent writes.
    Cli,
    /// `acp-sessions/<uuid>/store.db`.
    Acp,
    /// `globalStorage/state.vscdb`, which the IDE writes.
    Ide,
    /// `workspaceStorage/<hash>/state.vscdb`, which older IDEs wrote.
    IdeOld,
    /// `sdk-agent-store/<hash>/index.db`.
    Sdk,
    /// `agent-transcripts`.
    Transcript,
    /// A JSON file that `sessions export` wrote.
    Export,
}

/// The activity of a conversation, as far as its store shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// A process is writing it.
    Live,
    #[default]
    Idle,
    /// Its last turn did not finish, and no process is working on it.
    Interrupted,
    /// Its last turn ended with an error.
    Failed,
    /// Its store has no checkpoint that a resume could continue.
    NoCheckpoint,
    /// Its store is intact, but a resume would refuse it, for example because its workspace is gone.
    NotResumable,
    /// Parts of it cannot be read.
    Damaged,
    /// Another process has locked the store.
    Locked,
}

/// Where the user filed a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Shelf {
    #[default]
    Shown,
    Archived,
    /// The user typed text but did not send it.
    Draft,
    /// The user opened it, but it is empty.
    Empty,
}

impl Shelf {
    #[must_use]
    pub fn is_shown(&self) -> bool {
        *self == Self::Shown
    }
}

/// The conversation that started a sub-agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Parent {
    /// The id of the parent.
    pub id: String,
    /// The call that started the sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The type of the sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub type_name: Option<String>,
}

/// A tool call without a result. Its side effects may or may not have happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PendingCall {
    /// The tool.
    pub name: String,
    /// The call's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The input of the tool.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    #[schema(value_type = serde_json::Value)]
    pub input: Json,
    /// The time of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Moment>,
}

impl From<&ToolCall> for PendingCall {
    fn from(call: &ToolCall) -> Self {
        Self {
            name: call.name.clone(),
            id: call.id.clone(),
            input: call.input.clone(),
            started: call.started,
        }
    }
}

/// The folder where a conversation took place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Workspace {
    /// The path on its own machine. The `.code-workspace` file if the workspace has several folders.
    pub path: String,
    /// The machine of the workspace.
    #[serde(default, skip_serializing_if = "WorkspacePlace::is_here")]
    pub place: WorkspacePlace,
}

/// The machine of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkspacePlace {
    #[default]
    Here,
    /// `wsl+ubuntu`, `ssh-remote+host`, `dev-container+…`, decoded.
    Remote(String),
}

impl WorkspacePlace {
    #[must_use]
    pub fn is_here(&self) -> bool {
        *self == Self::Here
    }
}

impl Workspace {
    #[must_use]
    pub fn here(path: impl Into<String>) -> Self {
        Self { path: path.into(), place: WorkspacePlace::Here }
    }
}

impl Head {
    /// No turn has this number.
    pub const BEGINNING: i64 = i64::MIN;

    /// Creates a head with only its id and its store.
    #[must_use]
    pub fn new(id: impl Into<String>, origin: Origin) -> Self {
        Self { id: id.into(), origins: vec![origin], ..Self::default() }
    }

    /// Adds a model, unless it is already there or blank.
    pub fn add_model(&mut self, model: &str) {
        let says_nothing = model.is_empty() || model == "default";
        if !says_nothing && !self.models.iter().any(|known| known == model) {
            self.models.push(model.to_owned());
        }
    }
}

impl Origin {
    /// Returns the conversation's key in this store.
    #[must_use]
    pub fn key<'a>(&'a self, head: &'a Head) -> &'a str {
        self.key.as_deref().unwrap_or(&head.id)
    }
}

impl StoreKind {
    pub const ALL: [Self; 7] =
        [Self::Cli, Self::Acp, Self::Ide, Self::IdeOld, Self::Sdk, Self::Transcript, Self::Export];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cli => "cli",
            Self::Acp => "acp",
            Self::Ide => "ide",
            Self::IdeOld => "ide-old",
            Self::Sdk => "sdk",
            Self::Transcript => "transcript",
            Self::Export => "export",
        }
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

/// The word does not name a kind of store.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a kind of store: cli, acp, ide, ide-old, sdk, transcript or export")]
pub struct UnknownStoreKind(String);

impl FromStr for StoreKind {
    type Err = UnknownStoreKind;

    fn from_str(word: &str) -> Result<Self, UnknownStoreKind> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == word)
            .ok_or_else(|| UnknownStoreKind(word.to_owned()))
    }
}
