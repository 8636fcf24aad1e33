//! Reads the lines of a journal.
//!
//! **Invariant:** reading never fails. A line in an unknown format is an entry too.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use run_protocol::{JournalHeader, RunEvent};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::journal::line_encoding::CutLine;
use crate::{AgentLine, EventNumber, JournalEntry, LineEnding, Redaction};

/// The number of bytes that always contain a line's number.
pub(crate) const HEAD_LENGTH: usize = 160;

/// A line whose payload is not parsed yet.
#[derive(Debug)]
pub(crate) enum Line<'a> {
    Header(JournalHeader),
    Event(EventLine<'a>),
    Unreadable,
}

/// A numbered line.
#[derive(Debug)]
pub(crate) struct EventLine<'a> {
    pub(crate) head: LineHead,
    payload: Payload<'a>,
}

/// The fields of a numbered line that precede its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineHead {
    pub(crate) number: EventNumber,
    pub(crate) at: u64,
    ending: LineEnding,
    redaction: Redaction,
}

#[derive(Debug)]
enum Payload<'a> {
    Agent(&'a [u8]),
    AgentText(&'a [u8]),
    AgentBase64(&'a [u8]),
    AgentCut(&'a [u8]),
    Run(&'a [u8]),
}

/// Reads the beginning of a numbered line. The first [`HEAD_LENGTH`] bytes are enough.
pub(crate) fn parse_head(line: &[u8]) -> Option<LineHead> {
    split_head(line).map(|(head, _)| head)
}

/// True if the line begins an epoch.
pub(crate) fn is_header(line: &[u8]) -> bool {
    line.starts_with(b"{\"journal\":")
}

/// Reads a line, without its line feed.
pub(crate) fn parse_line(line: &[u8]) -> Line<'_> {
    if is_header(line) {
        return serde_json::from_slice(line).map_or(Line::Unreadable, Line::Header);
    }
    match as_written(line).or_else(|| in_any_order(line)) {
        Some(event_line) => Line::Event(event_line),
        None => Line::Unreadable,
    }
}

impl EventLine<'_> {
    /// Passes the entry on, if the payload has the form that its key promises.
    pub(crate) fn hand_on(&self, on_entry: &mut dyn FnMut(JournalEntry<'_>)) -> Readable {
        self.try_hand_on(on_entry).map_or(Readable::No, |()| Readable::Yes)
    }

    fn try_hand_on(&self, on_entry: &mut dyn FnMut(JournalEntry<'_>)) -> Option<()> {
        let LineHead { number, at, ending, redaction } = self.head;
        let mut agent = |line: AgentLine<'_>| {
            on_entry(JournalEntry::Agent { number, at, line, ending, redaction });
        };
        match self.payload {
            Payload::Agent(bytes) => agent(AgentLine::Json(bytes)),
            Payload::AgentText(value) => agent(AgentLine::Text(&json_string(value)?)),
            Payload::AgentBase64(value) => agent(AgentLine::Bytes(&base64_string(value)?)),
            Payload::AgentCut(value) => {
                let cut: CutLine = serde_json::from_slice(value).ok()?;
                let head = match (&cut.text, &cut.b64) {
                    (Some(text), None) => Cow::Borrowed(text.as_bytes()),
                    (None, Some(b64)) => Cow::Owned(STANDARD.decode(b64.as_bytes()).ok()?),
                    _ => return None,
                };
                let mut sha256 = [0; 32];
                hex::decode_to_slice(cut.sha256.as_bytes(), &mut sha256).ok()?;
                agent(AgentLine::Cut { head: &head, length: cut.length, sha256 });
            }
            Payload::Run(value) => {
                let raw = str::from_utf8(value).ok()?;
                on_entry(match serde_json::from_str::<RunEvent>(raw) {
                    Ok(event) => JournalEntry::Run { number, at, event, raw, redaction },
                    Err(_) => {
                        serde_json::from_str::<&RawValue>(raw).ok()?;
                        JournalEntry::UnknownRun { number, at, raw }
                    }
                });
            }
        }
        Some(())
    }
}

/// Whether a payload could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readable {
    Yes,
    No,
}

fn json_string(value: &[u8]) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    serde_json::from_slice::<Text>(value).ok().map(|text| text.0)
}

fn base64_string(value: &[u8]) -> Option<Vec<u8>> {
    STANDARD.decode(json_string(value)?.as_bytes()).ok()
}

/// Lines as this build writes them: the head, then the payload as the last member.
fn as_written(line: &[u8]) -> Option<EventLine<'_>> {
    let (head, rest) = split_head(line)?;
    let member = rest.strip_prefix(b",\"")?.strip_suffix(b"}")?;
    let name_end = memchr::memchr(b'"', member)?;
    let value = member[name_end..].strip_prefix(b"\":")?;
    let payload = match &member[..name_end] {
        b"agent" => Payload::Agent(value),
        b"agent_text" => Payload::AgentText(value),
        b"agent_b64" => Payload::AgentBase64(value),
        b"agent_cut" => Payload::AgentCut(value),
        b"run" => Payload::Run(value),
        _ => return None,
    };
    Some(EventLine { head, payload })
}

fn split_head(line: &[u8]) -> Option<(LineHead, &[u8])> {
    let (seq, rest) = take_decimal(line.strip_prefix(b"{\"seq\":")?)?;
    let (epoch, rest) = match rest.strip_prefix(b",\"epoch\":") {
        Some(rest) => take_decimal(rest)?,
        None => (u64::from(EventNumber::FIRST_EPOCH), rest),
    };
    let (at, rest) = take_decimal(rest.strip_prefix(b",\"at\":")?)?;
    let (redaction, rest) = match rest.strip_prefix(b",\"redacted\":true") {
        Some(rest) => (Redaction::Redacted, rest),
        None => (Redaction::Untouched, rest),
    };
    let (ending, rest) = match rest.strip_prefix(b",\"unterminated\":true") {
        Some(rest) => (LineEnding::Missing, rest),
        None => (LineEnding::LineFeed, rest),
    };
    let number = EventNumber { epoch: u32::try_from(epoch).ok()?, seq };
    Some((LineHead { number, at, ending, redaction }, rest))
}

fn take_decimal(text: &[u8]) -> Option<(u64, &[u8])> {
    let n_digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(n_digits);
    // If the line was cut here, more digits may have followed.
    rest.first()?;
    Some((str::from_utf8(digits).ok()?.parse().ok()?, rest))
}

/// Lines with a different order or spacing: edited by hand, or written by another program.
#[derive(Deserialize)]
struct AnyOrder<'a> {
    seq: u64,
    epoch: Option<u32>,
    at: u64,
    #[serde(default)]
    redacted: bool,
    #[serde(default)]
    unterminated: bool,
    #[serde(borrow, default, deserialize_with = "present")]
    agent: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    agent_text: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    agent_b64: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    agent_cut: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    run: Option<&'a RawValue>,
}

/// A member that exists, even if it is `null`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

fn in_any_order(line: &[u8]) -> Option<EventLine<'_>> {
    let line: AnyOrder = serde_json::from_slice(line).ok()?;
    let payloads = [
        line.agent.map(|value| Payload::Agent(value.get().as_bytes())),
        line.agent_text.map(|value| Payload::AgentText(value.get().as_bytes())),
        line.agent_b64.map(|value| Payload::AgentBase64(value.get().as_bytes())),
        line.agent_cut.map(|value| Payload::AgentCut(value.get().as_bytes())),
        line.run.map(|value| Payload::Run(value.get().as_bytes())),
    ];
    let payload = payloads.into_iter().flatten().next()?;
    let epoch = line.epoch.unwrap_or(EventNumber::FIRST_EPOCH);
    let redaction = if line.redacted { Redaction::Redacted } else { Redaction::Untouched };
    let ending = if line.unterminated { LineEnding::Missing } else { LineEnding::LineFeed };
    let number = EventNumber { epoch, seq: line.seq };
    let head = LineHead { number, at: line.at, ending, redaction };
    Some(EventLine { head, payload })
}
