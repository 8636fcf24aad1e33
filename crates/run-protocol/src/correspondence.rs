//! What agents and people write to each other: the entries of a session's inbox, and whose child a run is.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::RunId;

/// By whom a run was started, where that was another run. Belongs to the session: every run that continues it has it too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Lineage {
    /// The run that asked for it.
    pub run: RunId,
    /// That run's session, which outlives it.
    pub session: Uuid,
    /// Generations between this run and one that a person started.
    pub depth: u32,
}

/// One line of a session's inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum InboxEntry {
    /// The session's agent asks a person.
    Asked(Question),
    /// Somebody writes to the session's agent.
    Posted(Message),
    /// A run has messages and may have passed them on. If it ends without saying more, they are to be passed on again.
    Offered {
        /// Milliseconds since the epoch.
        at: u64,
        /// The run.
        run: RunId,
        /// How.
        by: HandOver,
        /// Which.
        messages: Vec<String>,
    },
    /// The agent has them, as its own output shows.
    Delivered {
        /// Milliseconds since the epoch.
        at: u64,
        /// In which run.
        run: RunId,
        /// How.
        by: HandOver,
        /// Which.
        messages: Vec<String>,
    },
}

/// What an agent asks of a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Short, for people to type.
    pub id: String,
    /// Milliseconds since the epoch.
    pub at: u64,
    /// The run that asks.
    pub run: RunId,
    /// What it is about.
    pub about: QuestionAbout,
    /// In the agent's words.
    pub text: String,
    /// Answers that the agent suggests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// The host that it wants to reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// What a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuestionAbout {
    /// The work.
    Work,
    /// Something that the sandbox does not give. Nothing is granted by an answer.
    Access,
}

/// What somebody writes to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Posting the same twice is posting it once.
    pub id: String,
    /// Milliseconds since the epoch.
    pub at: u64,
    /// By whom; never taken from what the sender says.
    pub from: Correspondent,
    /// The words.
    pub text: String,
    /// The question that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<String>,
}

/// Who writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "who", rename_all = "snake_case")]
pub enum Correspondent {
    /// Somebody at this machine.
    Person,
    /// The agent of another run.
    Agent {
        /// The run.
        run: RunId,
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// What it is to whom it writes.
        relation: Relation,
    },
    /// We ourselves: a child is over.
    End {
        /// The child.
        run: RunId,
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
}

/// What one run is to another. There is no further relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// It started the other.
    Parent,
    /// It was started by the other.
    Child,
    /// Both were started by the same.
    Sibling,
}

/// How messages come to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HandOver {
    /// It asked for them.
    CheckInbox,
    /// As the prompt of a run.
    Turn,
}

/// What a parent asks of a child. Everything that is left out is as the parent has it; nothing may be more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChildRequest {
    /// What to do.
    pub prompt: String,
    /// A name to call it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `plan` or `ask`: it only reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The parent's sandbox profile, or `strict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// What of the network is inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Of the hosts that the parent may reach beside those of its profile, the ones that the child may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// How long it may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// Memory of all its processes together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// Processes and threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// What it may add to the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_mb: Option<u64>,
}
