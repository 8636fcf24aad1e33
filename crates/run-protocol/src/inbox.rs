//! Messages between agents and people: the entries of a session's inbox.

use serde::{Deserialize, Serialize};

use crate::RunId;

/// One line of a session's inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum InboxEntry {
    /// The session's agent asked a person a question.
    Asked(Question),
    /// A person, another agent or Caretaker sent a message to the session's agent.
    Posted(Message),
    /// A run took messages and may have shown them to its agent. If the run ends before it confirms the delivery, the
    /// messages are delivered again.
    Offered {
        /// Milliseconds since the epoch.
        at: u64,
        /// The run.
        run: RunId,
        /// How the run delivers them.
        by: HandOver,
        /// The messages' ids.
        messages: Vec<String>,
    },
    /// The agent's own output shows that it has the messages.
    Delivered {
        /// Milliseconds since the epoch.
        at: u64,
        /// The run that delivered them.
        run: RunId,
        /// How the run delivers them.
        by: HandOver,
        /// The messages' ids.
        messages: Vec<String>,
    },
}

/// An agent's question to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The question's id; short, because people type it.
    pub id: String,
    /// Milliseconds since the epoch.
    pub at: u64,
    /// The run that asks.
    pub run: RunId,
    /// The subject.
    pub about: QuestionAbout,
    /// The question, in the agent's words.
    pub text: String,
    /// Answers that the agent suggests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// The host that the agent wants to reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// The subject of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuestionAbout {
    /// The work.
    Work,
    /// Something that the sandbox does not allow. An answer does not change the sandbox.
    Access,
}

/// A message to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The message's id. An inbox accepts each id once.
    pub id: String,
    /// Milliseconds since the epoch.
    pub at: u64,
    /// The sender as Caretaker knows it, never as the message claims.
    pub from: MessageSender,
    /// The text.
    pub text: String,
    /// The question that the message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<String>,
}

/// The sender of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Correspondent)]
#[serde(tag = "who", rename_all = "snake_case")]
pub enum MessageSender {
    /// A person at this machine.
    Person,
    /// The agent of another run.
    Agent {
        /// The run.
        run: RunId,
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The sender's relation to the receiver.
        relation: Relation,
    },
    /// Caretaker, which reports the end of a child.
    End {
        /// The child.
        run: RunId,
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
}

/// The relation of one run to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// The run started the other run.
    Parent,
    /// The other run started the run.
    Child,
    /// The same run started both.
    Sibling,
}

/// How messages reach an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HandOver {
    /// The agent called `check_inbox`.
    CheckInbox,
    /// The messages are the prompt of a run.
    Turn,
}
