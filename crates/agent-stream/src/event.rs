//! The events of a stream, typed, borrowing from the line they were read from.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::interaction::Interaction;
use crate::lenient::{lenient, shape_of_object};
use crate::oversized::OversizedLine;
use crate::tool_call::ToolCall;

/// What one line of agent output says.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct AgentEvent<'a> {
    /// What kind of line it is, and what it carries.
    #[serde(flatten)]
    pub kind: EventKind<'a>,
    /// The session that the agent names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<Cow<'a, str>>,
    /// The agent's own wall clock; absent on some kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp_ms: Option<u64>,
    /// Set when the line had to be mended before it could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repaired: Option<Repair>,
}

/// How a line was mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Repair {
    /// Bytes that are not UTF-8 were replaced by U+FFFD.
    InvalidUtf8,
    /// `\ud83d` without its other half, which JSON allows and Unicode does not, was replaced by U+FFFD.
    LoneSurrogate,
}

/// Every kind of line there is, the unreadable ones included.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EventKind<'a> {
    /// `system/init`: the first line of a healthy run.
    Init {
        /// Where the agent has its key from.
        api_key_source: Option<Cow<'a, str>>,
        /// The directory that it works in.
        cwd: Option<Cow<'a, str>>,
        /// The display name, never the slug that `--model` takes.
        model: Option<Cow<'a, str>>,
        /// How it treats permissions.
        permission_mode: Option<Cow<'a, str>>,
    },
    /// The prompt, echoed.
    User {
        /// The prompt.
        text: Cow<'a, str>,
    },
    /// A piece of the answer.
    Assistant {
        /// Which piece it is.
        form: AssistantForm,
        /// The words.
        text: Cow<'a, str>,
        /// The call of the model that gave it.
        model_call_id: Option<Cow<'a, str>>,
    },
    /// A piece of what the model thinks.
    ThinkingDelta {
        /// The words.
        text: Cow<'a, str>,
    },
    /// The model has thought.
    ThinkingCompleted,
    /// A tool was called.
    ToolStarted(ToolCall<'a>),
    /// A tool has come back.
    ToolCompleted(ToolCall<'a>),
    /// The agent asks for a permission.
    QueryRequest(Interaction<'a>),
    /// The answer to that.
    QueryResponse(Interaction<'a>),
    /// The agent lost its connection.
    Reconnecting {
        /// Which attempt it is.
        attempt: Option<u64>,
        /// Where it connects to.
        endpoint_url: Option<Cow<'a, str>>,
    },
    /// The connection is back.
    Reconnected,
    /// The agent tries a turn again.
    Retry {
        /// How far it is with that.
        phase: RetryPhase,
        /// Which attempt it is.
        attempt: Option<u64>,
        /// Whether it goes on from a checkpoint.
        is_resume: Option<bool>,
        /// Turns that the checkpoint holds from which the agent goes on; only when resuming.
        #[serde(skip_serializing_if = "Option::is_none")]
        checkpoint_turn_count: Option<u64>,
    },
    /// A background task or shell finished. Its fields are not known, so the line is kept as it came.
    TaskNotification {
        /// The line as it came.
        #[schema(value_type = serde_json::Value)]
        raw: &'a RawValue,
    },
    /// Background shells were ended with the run.
    BackgroundShellTimeout {
        /// How many.
        aborted_count: Option<u64>,
        /// How long they were waited for.
        timeout_ms: Option<u64>,
    },
    /// The turn is over.
    Result(ResultEvent<'a>),
    /// A top-level `error`: never captured from a real agent, tolerated all the same.
    Error {
        /// What it says.
        message: Option<Cow<'a, str>>,
        /// The line as it came.
        #[schema(value_type = serde_json::Value)]
        raw: &'a RawValue,
    },
    /// Valid JSON of a kind this build does not know. Newer agents send these.
    Unknown {
        /// The line's `type`.
        #[serde(rename = "type")]
        kind: Option<Cow<'a, str>>,
        /// The line's `subtype`.
        subtype: Option<Cow<'a, str>>,
        /// The line as it came.
        #[schema(value_type = serde_json::Value)]
        raw: &'a RawValue,
    },
    /// Not JSON: a warning of node's, a stray print, half a line.
    Noise {
        /// Why it could not be read.
        reason: NoiseReason,
        /// The line.
        text: Cow<'a, str>,
    },
    /// Longer than the ceiling: only its head was kept.
    Oversized(OversizedLine),
    /// A line with nothing on it.
    Blank,
}

impl EventKind<'_> {
    /// The kind without what it carries.
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

/// The kinds by name, as `--json` and the summary print them.
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

/// What the envelope alone says of an assistant event. A delta and a segment before a query look alike:
/// the [`TextReducer`](crate::TextReducer) tells them apart by what surrounds them.
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

/// Why a line could not be read as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoiseReason {
    NotJson,
    /// Not JSON, and not UTF-8 either.
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

/// The protocol's end of a turn.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct ResultEvent<'a> {
    /// `success`, or a word for what went wrong.
    pub subtype: Option<Cow<'a, str>>,
    /// Absent counts as "not an error" only together with `subtype: success`; the caller decides.
    pub is_error: Option<bool>,
    /// All text of the turn, joined without a separator.
    pub text: Option<Cow<'a, str>>,
    /// How long the turn took.
    pub duration_ms: Option<u64>,
    /// How much of that the server took.
    pub duration_api_ms: Option<u64>,
    /// The server's id of the turn.
    pub request_id: Option<Cow<'a, str>>,
    /// Tokens, where the agent says them.
    pub usage: Option<Usage>,
}

/// Tokens of the whole turn. A count the agent did not give is `None`, never zero. The agent writes `inputTokens`; our
/// own `input_tokens` is read as well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Usage {
    /// What the model read.
    #[serde(default, alias = "inputTokens", deserialize_with = "lenient")]
    pub input_tokens: Option<u64>,
    /// What the model wrote.
    #[serde(default, alias = "outputTokens", deserialize_with = "lenient")]
    pub output_tokens: Option<u64>,
    /// What came from a cache.
    #[serde(default, alias = "cacheReadTokens", deserialize_with = "lenient")]
    pub cache_read_tokens: Option<u64>,
    /// What went to a cache.
    #[serde(default, alias = "cacheWriteTokens", deserialize_with = "lenient")]
    pub cache_write_tokens: Option<u64>,
}

shape_of_object!(optional 'de, Usage);
