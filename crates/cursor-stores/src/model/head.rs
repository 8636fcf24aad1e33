//! What a list shows of a conversation.

use std::collections::BTreeMap;

use std::fmt;
use std::str::FromStr;

use run_protocol::BytesPath;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::moment::Moment;
use super::usage::TokenUsage;

/// A conversation without what was said in it. What is not known is absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Head {
    /// Cursor's: the same conversation has the same id in all stores.
    pub id: String,
    /// Where it was found; the richest first.
    pub origins: Vec<Origin>,
    /// What Cursor or the user calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is about.
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
    /// Those that are known to have answered, each once, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// Of users and assistants; context and system prompts are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_messages: Option<u64>,
    /// The count is that of the richest store, or of what it says it has: who reads everything may find others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_count_estimated: bool,
    /// What it takes on disk, as far as that can be told cheaply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_bytes: Option<u64>,
    /// What goes on in it.
    pub activity: Activity,
    /// Where the user put it.
    #[serde(default, skip_serializing_if = "Shelf::is_shown")]
    pub shelf: Shelf,
    /// Whose sub-agent it is; such conversations are listed on request only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The conversations of its sub-agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subagents: Vec<String>,
    /// `None`: unknown, never zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenUsage>,
    /// What the agent was doing when its state was last written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<PendingCall>,
    /// What tells the conversation from another of the same id, where ids are the caller's choice: turn → run, and under
    /// [`Head::BEGINNING`] where and when it began. Not a part of the JSON.
    #[serde(skip)]
    pub lineage: BTreeMap<i64, String>,
}

/// A store that holds a conversation, and what the conversation is called there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Origin {
    /// The kind of store.
    pub store: StoreKind,
    /// The database or the file.
    pub path: BytesPath,
    /// The key of the conversation in that store, where it is not the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The kinds of places where Cursor keeps conversations; the richest first.
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
    /// `chats/<md5>/<uuid>/store.db` of the command line agent.
    Cli,
    /// `acp-sessions/<uuid>/store.db`.
    Acp,
    /// `globalStorage/state.vscdb` of the IDE.
    Ide,
    /// `workspaceStorage/<hash>/state.vscdb` of older IDEs.
    IdeOld,
    /// `sdk-agent-store/<hash>/index.db`.
    Sdk,
    /// `agent-transcripts`.
    Transcript,
    /// A JSON file that `sessions export` wrote.
    Export,
}

/// What goes on in a conversation, as far as its store tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// Somebody is writing it.
    Live,
    Idle,
    /// Its last turn did not come to its end, and nobody is at it.
    Interrupted,
    /// Its last turn ended with an error.
    Failed,
    /// There is a store, and no checkpoint in it that a resume could continue.
    NoCheckpoint,
    /// Its store is sound, and a resume would refuse it all the same: its workspace is gone, for instance.
    NotResumable,
    /// Parts of it cannot be read.
    Damaged,
    /// Another process keeps others from reading it.
    Locked,
}

/// Where the user put it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Shelf {
    #[default]
    Shown,
    Archived,
    /// Text that was typed and not sent.
    Draft,
    /// Opened, and nothing in it.
    Empty,
}

impl Shelf {
    #[must_use]
    pub fn is_shown(&self) -> bool {
        *self == Self::Shown
    }
}

/// The place in another conversation that a sub-agent was started from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Parent {
    /// The other conversation.
    pub id: String,
    /// The call that started the sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// What kind of sub-agent it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub type_name: Option<String>,
}

/// A tool call without a result. Its side effects may have happened or not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PendingCall {
    /// The tool.
    pub name: String,
    /// The call's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What the tool was called with.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    #[schema(value_type = serde_json::Value)]
    pub input: Json,
    /// When it was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Moment>,
}

/// What a conversation is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Workspace {
    /// A path as its own machine writes it; the `.code-workspace` file where there are several folders.
    pub path: String,
    /// On which machine it lies.
    #[serde(default, skip_serializing_if = "WorkspacePlace::is_here")]
    pub place: WorkspacePlace,
}

/// On which machine a workspace lies.
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

    /// A head of which nothing is known but where it is.
    #[must_use]
    pub fn new(id: impl Into<String>, origin: Origin) -> Self {
        Self {
            id: id.into(),
            origins: vec![origin],
            title: None,
            workspace: None,
            created: None,
            updated: None,
            mode: None,
            models: Vec::new(),
            n_messages: None,
            is_count_estimated: false,
            n_bytes: None,
            activity: Activity::Idle,
            shelf: Shelf::Shown,
            parent: None,
            subagents: Vec::new(),
            tokens: None,
            pending: Vec::new(),
            lineage: BTreeMap::new(),
        }
    }

    /// Adds a model unless it is there already, or says nothing.
    pub fn add_model(&mut self, model: &str) {
        let says_nothing = model.is_empty() || model == "default";
        if !says_nothing && !self.models.iter().any(|known| known == model) {
            self.models.push(model.to_owned());
        }
    }
}

impl Origin {
    /// What the conversation is called in this store.
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

/// Says that a word names no kind of store.
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
