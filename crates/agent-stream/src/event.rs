//! The typed events of a stream. They borrow from the line.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::lines::lenient::{lenient, shape_of_object};
use crate::lines::oversized::OversizedLine;
use crate::tools::interaction::Interaction;
use crate::tools::tool_call::ToolCall;

/// The content of one line of agent output.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct AgentEvent<'a> {
    /// The kind of line, and its fields.
    #[serde(flatten)]
    pub kind: EventKind<'a>,
    /// The session that the agent names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<Cow<'a, str>>,
    /// The agent's own clock. Some kinds of line lack it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp_ms: Option<u64>,
    /// Set if the line had to be repaired before it could be parsed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repaired: Option<Repair>,
}

/// How a line was repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Repair {
    /// The parser replaced bytes that are not UTF-8 with U+FFFD.
    InvalidUtf8,
    /// The parser replaced half a surrogate pair (`\ud83d`), which JSON allows and Unicode does not, with U+FFFD.
    LoneSurrogate,
}

/// Every kind of line, including lines that cannot be parsed.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EventKind<'a> {
    /// `system/init`: the first line of a healthy run.
    Init {
        /// The source of the agent's key.
        api_key_source: Option<Cow<'a, str>>,
        /// The agent's working directory.
        cwd: Option<Cow<'a, str>>,
        /// The display name, never the slug that `--model` takes.
        model: Option<Cow<'a, str>>,
        /// The permission mode.
        permission_mode: Option<Cow<'a, str>>,
    },
    /// The prompt, repeated by the agent.
    User {
        /// The prompt.
        text: Cow<'a, str>,
    },
    /// A piece of the answer.
    Assistant {
        /// The form of the piece.
        form: AssistantForm,
        /// The text.
        text: Cow<'a, str>,
        /// The id of the model call that produced it.
        model_call_id: Option<Cow<'a, str>>,
    },
    /// A piece of the model's thinking.
    ThinkingDelta {
        /// The text.
        text: Cow<'a, str>,
    },
    /// The model has finished thinking.
    ThinkingCompleted,
    /// A tool call has started.
    ToolStarted(ToolCall<'a>),
    /// A tool call has ended.
    ToolCompleted(ToolCall<'a>),
    /// The agent asks for permission.
    QueryRequest(Interaction<'a>),
    /// The answer to that request.
    QueryResponse(Interaction<'a>),
    /// The agent lost its connection.
    Reconnecting {
        /// The number of the attempt.
        attempt: Option<u64>,
        /// The address that it connects to.
        endpoint_url: Option<Cow<'a, str>>,
    },
    /// The connection is back.
    Reconnected,
    /// The agent is retrying a turn.
    Retry {
        /// The phase of the retry.
        phase: RetryPhase,
        /// The number of the attempt.
        attempt: Option<u64>,
        /// True if the retry continues from a checkpoint.
        is_resume: Option<bool>,
        /// The turns in that checkpoint. Present only when resuming.
        #[serde(skip_serializing_if = "Option::is_none")]
        checkpoint_turn_count: Option<u64>,
    },
    /// A background task or shell has finished. Its fields are unknown, so the event keeps the whole line.
    TaskNotification {
        /// The line, unchanged.
        #[schema(value_type = serde_json::Value)]
        raw: &'a RawValue,
    },
    /// The agent ended background shells at the end of the run.
    BackgroundShellTimeout {
        /// The number of shells.
        aborted_count: Option<u64>,
        /// How long the agent waited for them.
        timeout_ms: Option<u64>,
    },
    /// The turn is over.
    Result(ResultEvent<'a>),
    /// A top-level `error`. No real agent has printed one yet.
    Error {
        /// The message.
        message: Option<Cow<'a, str>>,
        /// The line, unchanged.
        #[schema(value_type = serde_json::Value)]
        raw: &'a RawValue,
    },
    /// Valid JSON of a kind that this build does not know. Newer agents print such lines.
    Unknown {
        /// The line's `type`.
        #[serde(rename = "type")]
        kind: Option<Cow<'a, str>>,
        /// The line's `subtype`.
        subtype: Option<Cow<'a, str>>,
        /// The line, unchanged.
        #[schema(value_type = serde_json::Value)]
        raw: &'a RawValue,
    },
    /// Not JSON: a warning from node, a stray print, half a line.
    Noise {
        /// Why the line could not be parsed.
        reason: NoiseReason,
        /// The line.
        text: Cow<'a, str>,
    },
    /// A line over the ceiling. Only its beginning is kept.
    Oversized(OversizedLine),
    /// An empty line.
    Blank,
}

impl EventKind<'_> {
    /// The name of the kind.
    pub fn name(&self) -> EventName {
        match self {
            Self::Init { .. } => EventName::Init,
            Self::User { .. } => EventName::User,
            Self::Assistant { .. } => EventName::Assistant,
            Self::ThinkingDelta { .. } => EventName::ThinkingDelta,
            Self::ThinkingCompleted => EventName::ThinkingCompleted,
            Self::ToolStarted(_) => EventName::ToolStarted,
            Self::ToolCompleted(_) => EventName::ToolCompleted,
            Self::QueryRequest(_) => EventName::QueryRequest,
            Self::QueryResponse(_) => EventName::QueryResponse,
            Self::Reconnecting { .. } => EventName::Reconnecting,
            Self::Reconnected => EventName::Reconnected,
            Self::Retry { .. } => EventName::Retry,
            Self::TaskNotification { .. } => EventName::TaskNotification,
            Self::BackgroundShellTimeout { .. } => EventName::BackgroundShellTimeout,
            Self::Result(_) => EventName::Result,
            Self::Error { .. } => EventName::Error,
            Self::Unknown { .. } => EventName::Unknown,
            Self::Noise { .. } => EventName::Noise,
            Self::Oversized(_) => EventName::Oversized,
            Self::Blank => EventName::Blank,
        }
    }
}

/// The names of the kinds, as `--json` and the summary print them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventName {
    Init,
    User,
    Assistant,
    ThinkingDelta,
    ThinkingCompleted,
    ToolStarted,
    ToolCompleted,
    QueryRequest,
    QueryResponse,
    Reconnecting,
    Reconnected,
    Retry,
    TaskNotification,
    BackgroundShellTimeout,
    Result,
    Error,
    Unknown,
    Noise,
    Oversized,
    Blank,
}

/// The form of an assistant event, as far as its envelope shows it. A delta and a segment before a query look alike:
/// the [`TextReducer`](crate::TextReducer) tells them apart by the events around them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AssistantForm {
    /// `timestamp_ms` alone: a delta, or a whole segment before an `interaction_query`.
    DeltaOrBeforeQuery,
    /// `model_call_id`: a whole segment before a tool call.
    BeforeTool,
    /// Neither: the last segment of the turn.
    Last,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RetryPhase {
    Starting,
    Resuming,
}

/// Why a line could not be parsed as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoiseReason {
    NotJson,
    /// Neither JSON nor UTF-8.
    InvalidUtf8,
    /// The stream ended in the middle of the line.
    CutOff,
}

impl NoiseReason {
    pub fn name(self) -> &'static str {
        match self {
            Self::NotJson => "not_json",
            Self::InvalidUtf8 => "invalid_utf8",
            Self::CutOff => "cut_off",
        }
    }
}

/// The end of a turn.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct ResultEvent<'a> {
    /// `success`, or a word for the error.
    pub subtype: Option<Cow<'a, str>>,
    /// If it is absent, the caller should treat only `subtype: success` as "no error".
    pub is_error: Option<bool>,
    /// All text of the turn, joined without a separator.
    pub text: Option<Cow<'a, str>>,
    /// The duration of the turn.
    pub duration_ms: Option<u64>,
    /// The server's part of that duration.
    pub duration_api_ms: Option<u64>,
    /// The server's id for the turn.
    pub request_id: Option<Cow<'a, str>>,
    /// Tokens, if the agent reports them.
    pub usage: Option<Usage>,
}

/// Tokens of the whole turn. A count that the agent does not give is `None`, never zero. The agent writes
/// `inputTokens`; this type also reads Caretaker's own `input_tokens`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Usage {
    /// Tokens that the model read.
    #[serde(default, alias = "inputTokens", deserialize_with = "lenient")]
    pub input_tokens: Option<u64>,
    /// Tokens that the model wrote.
    #[serde(default, alias = "outputTokens", deserialize_with = "lenient")]
    pub output_tokens: Option<u64>,
    /// Tokens that came from a cache.
    #[serde(default, alias = "cacheReadTokens", deserialize_with = "lenient")]
    pub cache_read_tokens: Option<u64>,
    /// Tokens that went to a cache.
    #[serde(default, alias = "cacheWriteTokens", deserialize_with = "lenient")]
    pub cache_write_tokens: Option<u64>,
}

shape_of_object!(optional 'de, Usage);
