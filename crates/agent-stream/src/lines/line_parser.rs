//! One line → one event, in a single pass over the bytes.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use ground::surrogates;
use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

use crate::event::{
    AgentEvent, AssistantForm, EventKind, NoiseReason, Repair, ResultEvent, RetryPhase, Usage,
};
use crate::lines::lenient::{Lenient, Shape, next_key, next_value};
use crate::lines::line_splitter::RawLine;
use crate::lines::oversized::OversizedLine;
use crate::lines::token_line;
use crate::tools::interaction::Interaction;
use crate::tools::tool_call::ToolCall;

/// Parses lines. Keeps a buffer for the rare line that must be repaired first.
#[derive(Debug, Default)]
pub struct LineParser {
    mended: String,
}

impl LineParser {
    /// Parses one line. The event borrows from the line.
    pub fn parse<'a>(&'a mut self, line: RawLine<'a>) -> AgentEvent<'a> {
        let bytes = match line {
            RawLine::Whole(bytes) | RawLine::Unterminated(bytes) => bytes,
            RawLine::Oversized { head, length, sha256 } => {
                return bare(EventKind::Oversized(OversizedLine::read(head, length, sha256)));
            }
        };
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        if bytes.trim_ascii().is_empty() {
            return bare(EventKind::Blank);
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let text = surrogates::mend(&text).unwrap_or(text);
            return self.parse_mended(text, Repair::InvalidUtf8);
        };
        if let Some(event) = token_line::read(text) {
            return event;
        }
        match surrogates::mend(text) {
            Some(mended) => self.parse_mended(mended, Repair::LoneSurrogate),
            None => read_event(text)
                .unwrap_or_else(|error| unreadable(text, noise_reason(line, &error))),
        }
    }

    fn parse_mended(&mut self, mended: String, repair: Repair) -> AgentEvent<'_> {
        self.mended = mended;
        let reason = match repair {
            Repair::InvalidUtf8 => NoiseReason::InvalidUtf8,
            Repair::LoneSurrogate => NoiseReason::NotJson,
        };
        let event = read_event(&self.mended).unwrap_or_else(|_| unreadable(&self.mended, reason));
        AgentEvent { repaired: Some(repair), ..event }
    }
}

fn noise_reason(line: RawLine<'_>, error: &serde_json::Error) -> NoiseReason {
    match (line, error.classify()) {
        (RawLine::Unterminated(_), Category::Eof) => NoiseReason::CutOff,
        _ => NoiseReason::NotJson,
    }
}

/// The event for text that is not an event: JSON that is not an object, or not JSON at all.
fn unreadable<'a>(text: &'a str, reason: NoiseReason) -> AgentEvent<'a> {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(raw) => bare(EventKind::Unknown { kind: None, subtype: None, raw }),
        Err(_) => bare(EventKind::Noise { reason, text: Cow::Borrowed(text) }),
    }
}

fn bare(kind: EventKind<'_>) -> AgentEvent<'_> {
    AgentEvent { kind, session_id: None, timestamp_ms: None, repaired: None }
}

/// The top-level fields, in one struct on purpose: a tagged enum would buffer the line and could not hold a `RawValue`.
#[derive(Default)]
struct Envelope<'a> {
    kind: Option<Cow<'a, str>>,
    subtype: Option<Cow<'a, str>>,
    session_id: Option<Cow<'a, str>>,
    timestamp_ms: Option<u64>,
    // user, assistant, thinking, error
    message: Message<'a>,
    model_call_id: Option<Cow<'a, str>>,
    text: Option<Cow<'a, str>>,
    /// Created only for the few lines that have one of these fields. Most lines are thinking deltas: clearing the
    /// fields that they lack would cost as much as reading those that they have.
    rare: Option<Box<Rare<'a>>>,
}

/// The fields of the rarer kinds.
#[derive(Default)]
struct Rare<'a> {
    // init
    api_key_source: Option<Cow<'a, str>>,
    cwd: Option<Cow<'a, str>>,
    model: Option<Cow<'a, str>>,
    permission_mode: Option<Cow<'a, str>>,
    // error
    error: Option<Cow<'a, str>>,
    // tool_call
    call_id: Option<Cow<'a, str>>,
    tool_call: ToolCall<'a>,
    // interaction_query
    query_type: Option<Cow<'a, str>>,
    query: Option<&'a RawValue>,
    response: Option<&'a RawValue>,
    // connection, retry, background_shell_timeout
    attempt: Option<u64>,
    endpoint_url: Option<Cow<'a, str>>,
    is_resume: Option<bool>,
    checkpoint_turn_count: Option<u64>,
    aborted_count: Option<u64>,
    timeout_ms: Option<u64>,
    // result
    is_error: Option<bool>,
    result: Option<Cow<'a, str>>,
    duration_ms: Option<u64>,
    duration_api_ms: Option<u64>,
    request_id: Option<Cow<'a, str>>,
    usage: Option<Usage>,
}

impl<'a> Envelope<'a> {
    fn rare(&mut self) -> &mut Rare<'a> {
        self.rare.get_or_insert_default()
    }
}

/// Fills an envelope in place. A derived `Deserialize` would build it by value and move it several times, which costs
/// more than reading a short line.
struct Fill<'e, 'a, C> {
    envelope: &'e mut Envelope<'a>,
    care: PhantomData<C>,
}

/// How to read values. This is a type, not a run-time value, so that the common case has no branch.
trait Care {
    fn value<'de, A: MapAccess<'de>, T: Shape<'de>>(map: &mut A) -> Result<T, A::Error>;
}

/// Reads values one after the other, in a single pass.
struct InPassing;

impl Care for InPassing {
    #[inline]
    fn value<'de, A: MapAccess<'de>, T: Shape<'de>>(map: &mut A) -> Result<T, A::Error> {
        next_value(map)
    }
}

/// Reads each value separately. A value that no type can hold (a number with a thousand digits, a thousand nested
/// arrays) is then lost, but not the rest of its line.
struct EachByItself;

impl Care for EachByItself {
    fn value<'de, A: MapAccess<'de>, T: Shape<'de>>(map: &mut A) -> Result<T, A::Error> {
        let raw = map.next_value::<&'de RawValue>()?;
        let value = serde_json::from_str::<Lenient<T>>(raw.get());
        Ok(value.map(|Lenient(value)| value).unwrap_or_default())
    }
}

impl<'de, C: Care> Visitor<'de> for Fill<'_, 'de, C> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { envelope, .. } = self;
        while let Some(key) = next_key(&mut map)? {
            // The keys of the most frequent lines come first.
            match key.as_ref() {
                "type" => envelope.kind = C::value(&mut map)?,
                "subtype" => envelope.subtype = C::value(&mut map)?,
                "session_id" => envelope.session_id = C::value(&mut map)?,
                "timestamp_ms" => envelope.timestamp_ms = C::value(&mut map)?,
                "text" => envelope.text = C::value(&mut map)?,
                "message" => envelope.message = C::value(&mut map)?,
                "model_call_id" => envelope.model_call_id = C::value(&mut map)?,
                "apiKeySource" => envelope.rare().api_key_source = C::value(&mut map)?,
                "cwd" => envelope.rare().cwd = C::value(&mut map)?,
                "model" => envelope.rare().model = C::value(&mut map)?,
                "permissionMode" => envelope.rare().permission_mode = C::value(&mut map)?,
                "error" => envelope.rare().error = C::value(&mut map)?,
                "call_id" => envelope.rare().call_id = C::value(&mut map)?,
                "tool_call" => envelope.rare().tool_call = C::value(&mut map)?,
                "query_type" => envelope.rare().query_type = C::value(&mut map)?,
                "query" => envelope.rare().query = Some(map.next_value()?),
                "response" => envelope.rare().response = Some(map.next_value()?),
                "attempt" => envelope.rare().attempt = C::value(&mut map)?,
                "endpoint_url" => envelope.rare().endpoint_url = C::value(&mut map)?,
                "is_resume" => envelope.rare().is_resume = C::value(&mut map)?,
                "checkpoint_turn_count" => {
                    envelope.rare().checkpoint_turn_count = C::value(&mut map)?;
                }
                "aborted_count" => envelope.rare().aborted_count = C::value(&mut map)?,
                "timeout_ms" => envelope.rare().timeout_ms = C::value(&mut map)?,
                "is_error" => envelope.rare().is_error = C::value(&mut map)?,
                "result" => envelope.rare().result = C::value(&mut map)?,
                "duration_ms" => envelope.rare().duration_ms = C::value(&mut map)?,
                "duration_api_ms" => envelope.rare().duration_api_ms = C::value(&mut map)?,
                "request_id" => envelope.rare().request_id = C::value(&mut map)?,
                "usage" => envelope.rare().usage = C::value(&mut map)?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// The text of a message: `{"role":…,"content":[{"type":"text","text":…}, …]}`, a plain string, or a list of blocks.
#[derive(Default)]
struct Message<'a>(Option<Cow<'a, str>>);

impl<'de> Shape<'de> for Message<'de> {
    fn string(value: Cow<'de, str>) -> Self {
        Self(Some(value))
    }
    fn object<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let (mut content, mut text) = (Self(None), None);
        let mut kind: Option<Cow<'de, str>> = None;
        while let Some(key) = next_key(&mut map)? {
            match key.as_ref() {
                "type" => kind = next_value(&mut map)?,
                "content" => content = next_value(&mut map)?,
                "text" => text = next_value(&mut map)?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        // Blocks of other kinds may also have text, which is not part of the answer.
        let is_thought = matches!(kind.as_deref(), Some("thinking" | "reasoning"));
        Ok(Self(content.0.or(text).filter(|_| !is_thought)))
    }
    fn array<A: SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error> {
        let mut joined: Option<Cow<'de, str>> = None;
        while let Some(Lenient(Self(block))) = seq.next_element::<Lenient<Self>>()? {
            match (&mut joined, block) {
                (Some(text), Some(block)) => text.to_mut().push_str(&block),
                (None, block) => joined = block,
                (Some(_), None) => {}
            }
        }
        Ok(Self(joined))
    }
}

fn fill<'a, C: Care>(envelope: &mut Envelope<'a>, line: &'a str) -> Result<(), serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(line);
    deserializer.deserialize_map(Fill::<C> { envelope, care: PhantomData })?;
    deserializer.end()
}

pub(crate) fn read_event<'a>(line: &'a str) -> Result<AgentEvent<'a>, serde_json::Error> {
    let mut envelope = Envelope::default();
    if fill::<InPassing>(&mut envelope, line).is_err() {
        envelope = Envelope::default();
        fill::<EachByItself>(&mut envelope, line)?;
    }
    let kind = match (envelope.kind.as_deref(), envelope.subtype.as_deref()) {
        (Some("assistant"), _) => EventKind::Assistant {
            form: match (&envelope.model_call_id, envelope.timestamp_ms) {
                (Some(_), _) => AssistantForm::BeforeTool,
                (None, Some(_)) => AssistantForm::DeltaOrBeforeQuery,
                (None, None) => AssistantForm::Last,
            },
            text: envelope.message.0.unwrap_or_default(),
            model_call_id: envelope.model_call_id,
        },
        (Some("thinking"), Some("delta")) => {
            EventKind::ThinkingDelta { text: envelope.text.unwrap_or_default() }
        }
        (Some("thinking"), Some("completed")) => EventKind::ThinkingCompleted,
        // Adapters for early agents describe this form, without a subtype.
        (Some("thinking"), None) => match envelope.text {
            Some(text) => EventKind::ThinkingDelta { text },
            None => EventKind::ThinkingCompleted,
        },
        (Some("user"), _) => EventKind::User { text: envelope.message.0.unwrap_or_default() },
        _ => rare_kind(&mut envelope, line)?,
    };
    Ok(AgentEvent {
        kind,
        session_id: envelope.session_id,
        timestamp_ms: envelope.timestamp_ms,
        repaired: None,
    })
}

/// The kinds that have fields of their own.
fn rare_kind<'a>(
    envelope: &mut Envelope<'a>,
    line: &'a str,
) -> Result<EventKind<'a>, serde_json::Error> {
    let rare = *envelope.rare.take().unwrap_or_default();
    let raw = || serde_json::from_str::<&'a RawValue>(line);
    let kind = match (envelope.kind.as_deref(), envelope.subtype.as_deref()) {
        (Some("tool_call"), Some(phase @ ("started" | "completed"))) => {
            let call = ToolCall {
                call_id: rare.call_id.or(rare.tool_call.call_id),
                model_call_id: envelope.model_call_id.take(),
                ..rare.tool_call
            };
            match phase {
                "started" => EventKind::ToolStarted(call),
                _ => EventKind::ToolCompleted(call),
            }
        }
        (Some("system"), Some("init")) => EventKind::Init {
            api_key_source: rare.api_key_source,
            cwd: rare.cwd,
            model: rare.model,
            permission_mode: rare.permission_mode,
        },
        (Some("system"), Some("task_notification")) => EventKind::TaskNotification { raw: raw()? },
        (Some("system"), Some("background_shell_timeout")) => EventKind::BackgroundShellTimeout {
            aborted_count: rare.aborted_count,
            timeout_ms: rare.timeout_ms,
        },
        (Some("interaction_query"), Some("request")) => {
            EventKind::QueryRequest(Interaction::request(rare.query_type, rare.query))
        }
        (Some("interaction_query"), Some("response")) => {
            EventKind::QueryResponse(Interaction::response(rare.query_type, rare.response))
        }
        (Some("connection"), Some("reconnecting")) => {
            EventKind::Reconnecting { attempt: rare.attempt, endpoint_url: rare.endpoint_url }
        }
        (Some("connection"), Some("reconnected")) => EventKind::Reconnected,
        (Some("retry"), Some(phase @ ("starting" | "resuming"))) => EventKind::Retry {
            phase: if phase == "starting" { RetryPhase::Starting } else { RetryPhase::Resuming },
            attempt: rare.attempt,
            is_resume: rare.is_resume,
            checkpoint_turn_count: rare.checkpoint_turn_count,
        },
        (Some("result"), _) => EventKind::Result(ResultEvent {
            subtype: envelope.subtype.clone(),
            is_error: rare.is_error,
            text: rare.result,
            duration_ms: rare.duration_ms,
            duration_api_ms: rare.duration_api_ms,
            request_id: rare.request_id,
            usage: rare.usage,
        }),
        (Some("error"), _) => {
            EventKind::Error { message: envelope.message.0.take().or(rare.error), raw: raw()? }
        }
        _ => EventKind::Unknown {
            kind: envelope.kind.clone(),
            subtype: envelope.subtype.clone(),
            raw: raw()?,
        },
    };
    Ok(kind)
}

#[cfg(test)]
#[path = "line_parser_tests.rs"]
mod tests;
