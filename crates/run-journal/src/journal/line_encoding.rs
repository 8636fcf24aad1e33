//! Writes the lines of a journal.
//!
//! **Invariant:** the payload is the last member of a line, so that a reader finds its end without parsing it.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use run_protocol::{JournalHeader, RunEvent};
use serde::{Deserialize, Serialize};

use crate::{AgentLine, EventNumber, LineEnding, Redaction};

/// The JSON form of a line that is too long to keep whole.
#[derive(Serialize, Deserialize)]
pub(crate) struct CutLine<'a> {
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<Cow<'a, str>>,
    /// Instead of `text`, if the head is not UTF-8.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(crate) b64: Option<Cow<'a, str>>,
    pub(crate) length: u64,
    #[serde(borrow)]
    pub(crate) sha256: Cow<'a, str>,
}

pub(crate) fn push_header(buffer: &mut Vec<u8>, header: &JournalHeader) {
    push_json(buffer, header);
    buffer.push(b'\n');
}

/// Appends a line that the agent printed.
pub(crate) fn push_agent_line(
    buffer: &mut Vec<u8>,
    number: EventNumber,
    at: u64,
    line: AgentLine<'_>,
    ending: LineEnding,
    redaction: Redaction,
) {
    push_head(buffer, number, at, redaction);
    if ending == LineEnding::Missing {
        buffer.extend_from_slice(b",\"unterminated\":true");
    }
    push_payload(buffer, line);
    buffer.extend_from_slice(b"}\n");
}

/// Appends an event that the shim recorded.
pub(crate) fn push_event(
    buffer: &mut Vec<u8>,
    number: EventNumber,
    at: u64,
    event: &RunEvent,
    redaction: Redaction,
) {
    push_head(buffer, number, at, redaction);
    buffer.extend_from_slice(b",\"run\":");
    push_json(buffer, event);
    buffer.extend_from_slice(b"}\n");
}

fn push_head(buffer: &mut Vec<u8>, number: EventNumber, at: u64, redaction: Redaction) {
    buffer.extend_from_slice(b"{\"seq\":");
    push_decimal(buffer, number.seq);
    if number.epoch != EventNumber::FIRST_EPOCH {
        buffer.extend_from_slice(b",\"epoch\":");
        push_decimal(buffer, u64::from(number.epoch));
    }
    buffer.extend_from_slice(b",\"at\":");
    push_decimal(buffer, at);
    if redaction == Redaction::Redacted {
        buffer.extend_from_slice(b",\"redacted\":true");
    }
}

fn push_payload(buffer: &mut Vec<u8>, line: AgentLine<'_>) {
    match line {
        AgentLine::Json(bytes) => match str::from_utf8(bytes) {
            // A line feed inside would split the line in two, and an empty line is not a JSON value.
            Ok(text) if bytes.is_empty() || memchr::memchr(b'\n', bytes).is_some() => {
                push_payload(buffer, AgentLine::Text(text));
            }
            Ok(_) => {
                buffer.extend_from_slice(b",\"agent\":");
                buffer.extend_from_slice(bytes);
            }
            Err(_) => push_payload(buffer, AgentLine::Bytes(bytes)),
        },
        AgentLine::Text(text) => {
            buffer.extend_from_slice(b",\"agent_text\":");
            push_json(buffer, text);
        }
        AgentLine::Bytes(bytes) => {
            buffer.extend_from_slice(b",\"agent_b64\":\"");
            push_base64(buffer, bytes);
            buffer.push(b'"');
        }
        AgentLine::Cut { head, length, sha256 } => {
            buffer.extend_from_slice(b",\"agent_cut\":");
            let (text, b64) = match str::from_utf8(head) {
                Ok(text) => (Some(Cow::Borrowed(text)), None),
                Err(_) => (None, Some(Cow::Owned(STANDARD.encode(head)))),
            };
            push_json(buffer, &CutLine { text, b64, length, sha256: hex::encode(sha256).into() });
        }
    }
}

/// Serialising into memory fails only for maps whose keys are not strings. None of our types has such a map.
fn push_json<T: Serialize + ?Sized>(buffer: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(buffer, value).unwrap_or_default();
}

fn push_base64(buffer: &mut Vec<u8>, bytes: &[u8]) {
    let start = buffer.len();
    buffer.resize(start + bytes.len().div_ceil(3) * 4, 0);
    // The line above made the buffer exactly this long.
    let length = STANDARD.encode_slice(bytes, &mut buffer[start..]).unwrap_or_default();
    buffer.truncate(start + length);
}

fn push_decimal(buffer: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    buffer.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
#[path = "line_encoding_tests.rs"]
pub(crate) mod tests;
