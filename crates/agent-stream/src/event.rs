//! The events of a stream, typed, borrowing from the line they were read from.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::interaction::Interaction;
use crate::lenient::{lenient, shape_of_object};
use crate::oversized::OversizedLine;
use crate::tool_call::ToolCall;

/// What one line of agent output says.
#[derive(Debug, Clone, Serialize)]
pub struct AgentEvent<'a> {
    #[serde(flatten)]
    pub kind: EventKind<'a>,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Repair {
    /// Bytes that are not UTF-8 were replaced by U+FFFD.
    InvalidUtf8,
    /// `\ud83d` without its other half, which JSON allows and Unicode does not, was replaced by U+FFFD.
    LoneSurrogate,
}

/// Every kind of line there is, the unreadable ones included.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EventKind<'a> {
    /// `system/init`: the first line of a healthy run.
    Init {
        api_key_source: Option<Cow<'a, str>>,
        cwd: Option<Cow<'a, str>>,
        /// The display name, never the slug that `--model` takes.
        model: Option<Cow<'a, str>>,
        permission_mode: Option<Cow<'a, str>>,
    },
    /// The prompt, echoed.
    User {
        text: Cow<'a, str>,
    },
    Assistant {
        form: AssistantForm,
        text: Cow<'a, str>,
        model_call_id: Option<Cow<'a, str>>,
    },
    ThinkingDelta {
        text: Cow<'a, str>,
    },
    ThinkingCompleted,
    ToolStarted(ToolCall<'a>),
    ToolCompleted(ToolCall<'a>),
    QueryRequest(Interaction<'a>),
    QueryResponse(Interaction<'a>),
    Reconnecting {
        attempt: Option<u64>,
        endpoint_url: Option<Cow<'a, str>>,
    },
    Reconnected,
    Retry {
        phase: RetryPhase,
        attempt: Option<u64>,
        is_resume: Option<bool>,
        /// Turns that the checkpoint holds from which the agent goes on; only when resuming.
        #[serde(skip_serializing_if = "Option::is_none")]
        checkpoint_turn_count: Option<u64>,
    },
    /// A background task or shell finished. Its fields are not known, so the line is kept as it came.
    TaskNotification {
        raw: &'a RawValue,
    },
    /// Background shells were ended with the run.
    BackgroundShellTimeout {
        aborted_count: Option<u64>,
        timeout_ms: Option<u64>,
    },
    Result(ResultEvent<'a>),
    /// A top-level `error`: never captured from a real agent, tolerated all the same.
    Error {
        message: Option<Cow<'a, str>>,
        raw: &'a RawValue,
    },
    /// Valid JSON of a kind this build does not know. Newer agents send these.
    Unknown {
        #[serde(rename = "type")]
        kind: Option<Cow<'a, str>>,
        subtype: Option<Cow<'a, str>>,
        raw: &'a RawValue,
    },
    /// Not JSON: a warning of node's, a stray print, half a line.
    Noise {
        reason: NoiseReason,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AssistantForm {
    /// `timestamp_ms` alone: a delta, or a whole segment before an `interaction_query`.
    DeltaOrBeforeQuery,
    /// `model_call_id`: a whole segment before a tool call.
    BeforeTool,
    /// Neither: the last segment of the turn.
    Last,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryPhase {
    Starting,
    Resuming,
}

/// Why a line could not be read as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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
#[derive(Debug, Clone, Serialize)]
pub struct ResultEvent<'a> {
    pub subtype: Option<Cow<'a, str>>,
    /// Absent counts as "not an error" only together with `subtype: success`; the caller decides.
    pub is_error: Option<bool>,
    /// All text of the turn, joined without a separator.
    pub text: Option<Cow<'a, str>>,
    pub duration_ms: Option<u64>,
    pub duration_api_ms: Option<u64>,
    pub request_id: Option<Cow<'a, str>>,
    pub usage: Option<Usage>,
}

/// Tokens of the whole turn. A count the agent did not give is `None`, never zero. The agent writes `inputTokens`; our
/// own `input_tokens` is read as well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    #[serde(default, alias = "inputTokens", deserialize_with = "lenient")]
    pub input_tokens: Option<u64>,
    #[serde(default, alias = "outputTokens", deserialize_with = "lenient")]
    pub output_tokens: Option<u64>,
    #[serde(default, alias = "cacheReadTokens", deserialize_with = "lenient")]
    pub cache_read_tokens: Option<u64>,
    #[serde(default, alias = "cacheWriteTokens", deserialize_with = "lenient")]
    pub cache_write_tokens: Option<u64>,
}

shape_of_object!(optional 'de, Usage);
