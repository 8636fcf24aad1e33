//! A fast path for the most frequent lines, which have one token of thinking or of partial output.
//!
//! The agent prints hundreds of these in a turn, always with the same keys in the same order, and most tokens need no
//! escape. This code reads a line that matches the layout to the last byte. The general parser reads all others.

use std::borrow::Cow;

use crate::event::{AgentEvent, AssistantForm, EventKind};

/// The text before the token, and between token and session.
struct Layout {
    before: &'static str,
    after: &'static str,
}

const THINKING: Layout = Layout {
    before: r#"{"type":"thinking","subtype":"delta","text":""#,
    after: r#"","session_id":""#,
};
const ASSISTANT: Layout = Layout {
    before: r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":""#,
    after: r#""}]},"session_id":""#,
};
/// Most tokens are shorter than this, and do not need a search optimised for long texts.
const SHORT: usize = 32;
const BEFORE_TIME: &str = r#"","timestamp_ms":"#;

/// The event of a line that matches one of the layouts to the last byte.
pub(crate) fn read(line: &str) -> Option<AgentEvent<'_>> {
    if let Some(rest) = line.strip_prefix(THINKING.before) {
        let (text, session_id, timestamp_ms) = fields(rest, &THINKING)?;
        return Some(event(EventKind::ThinkingDelta { text }, session_id, timestamp_ms));
    }
    let rest = line.strip_prefix(ASSISTANT.before)?;
    let (text, session_id, timestamp_ms) = fields(rest, &ASSISTANT)?;
    let form = AssistantForm::DeltaOrBeforeQuery;
    let kind = EventKind::Assistant { form, text, model_call_id: None };
    Some(event(kind, session_id, timestamp_ms))
}

fn event<'a>(kind: EventKind<'a>, session_id: Cow<'a, str>, timestamp_ms: u64) -> AgentEvent<'a> {
    AgentEvent {
        kind,
        session_id: Some(session_id),
        timestamp_ms: Some(timestamp_ms),
        repaired: None,
    }
}

fn fields<'a>(rest: &'a str, layout: &Layout) -> Option<(Cow<'a, str>, Cow<'a, str>, u64)> {
    let (text, rest) = plain_string(rest)?;
    let (session_id, rest) = plain_string(rest.strip_prefix(layout.after)?)?;
    let digits = rest.strip_prefix(BEFORE_TIME)?.strip_suffix('}')?;
    Some((text.into(), session_id.into(), number(digits)?))
}

/// The text before the next quote, if it has no escapes, and the rest from that quote on.
fn plain_string(text: &str) -> Option<(&str, &str)> {
    let end = end_of_plain(text.as_bytes())?;
    let (string, rest) = text.split_at(end);
    rest.starts_with('"').then_some((string, rest))
}

/// Where plain text ends: at a quote, a backslash or a control character.
fn end_of_plain(bytes: &[u8]) -> Option<usize> {
    let (first, rest) = bytes.split_at(bytes.len().min(SHORT));
    if let Some(end) = first.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1F)) {
        return Some(end);
    }
    let end = memchr::memchr2(b'"', b'\\', rest)?;
    // The loop has no early exit, so that the compiler checks many bytes at a time.
    let lowest = rest[..end].iter().fold(u8::MAX, |lowest, byte| lowest.min(*byte));
    (lowest > 0x1F).then_some(first.len() + end)
}

/// A whole number in JSON.
fn number(digits: &str) -> Option<u64> {
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let has_leading_zero = digits.len() > 1 && digits.starts_with('0');
    if is_plain && !has_leading_zero { digits.parse().ok() } else { None }
}

#[cfg(test)]
#[path = "token_line_tests.rs"]
mod tests;
