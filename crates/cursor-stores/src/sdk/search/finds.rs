//! Searches every field of an agent's records.
//!
//! The store splits a model's text into pieces at arbitrary points. The search joins the pieces first.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::ControlFlow;

use serde::Deserialize;
use serde_json::Value as Json;

use crate::lenient_json;
use crate::sdk::history::run_story::event_id;
use crate::sdk::records::fields::words;
use crate::search::{FieldMatch, Matcher, Search, Snippet, search_bytes, search_json, search_text};

/// A piece of a model's text is never as large as a tool result.
const LARGEST_PIECE: usize = 64 * 1024;
/// Longer joined text is searched in parts.
const MAX_JOINED_BYTES: usize = 16 * 1024 * 1024;

/// With more matches than this, some may be reported twice.
const MAX_SURROUNDINGS: usize = 10_000;

/// The matches in one agent. They are reported when all of them come from the same state of the store.
pub(crate) struct Finds<'a> {
    matcher: &'a Matcher,
    key: &'a str,
    found: Vec<(Option<String>, FieldMatch)>,
    /// The text around matches in the events, because the blobs repeat it.
    surroundings: HashSet<String>,
}

impl<'a> Finds<'a> {
    pub(crate) fn new(matcher: &'a Matcher, key: &'a str) -> Self {
        Self { matcher, key, found: Vec::new(), surroundings: HashSet::new() }
    }

    pub(crate) fn report(&mut self, search: &Search<'_>) -> ControlFlow<()> {
        let mut found = self.found.drain(..);
        found.try_for_each(|(message_id, found)| search.report(self.key, message_id, None, found))
    }

    fn add(&mut self, message_id: Option<String>, found: FieldMatch) {
        self.found.push((message_id, found));
    }

    /// Searches one value: JSON or text.
    fn look(&self, value: &[u8]) -> Option<FieldMatch> {
        match value.first() {
            Some(b'{' | b'[') => search_json(self.matcher, value),
            _ => search_bytes(self.matcher, "", value),
        }
    }

    /// Searches one value. Calls `place` only for a match, to name the message and the field.
    pub(crate) fn value(&mut self, value: &[u8], place: impl FnOnce() -> (Option<String>, String)) {
        if let Some(found) = self.look(value) {
            let (message_id, field) = place();
            self.add(message_id, found.below(&field));
        }
    }

    /// Searches a blob. Skips matches that the events also had.
    pub(crate) fn blob(&mut self, id: &str, data: &[u8]) {
        if let Some(found) = self.look(data)
            && self.is_new(&found.snippet)
        {
            self.add(Some(id.to_owned()), found.below("blobs"));
        }
    }

    /// True if no earlier match had the same text around it.
    fn is_new(&mut self, snippet: &Snippet) -> bool {
        let surroundings = snippet.surroundings();
        let is_new = !self.surroundings.contains(&surroundings);
        if self.surroundings.len() < MAX_SURROUNDINGS {
            self.surroundings.insert(surroundings);
        }
        is_new
    }
}

/// The events of one run, in order.
pub(crate) struct RunSearch {
    run_id: String,
    joined: Option<Joined>,
    calls: HashSet<(String, String)>,
}

/// Pieces of one text.
struct Joined {
    field: &'static str,
    first_seq: i64,
    text: String,
    /// The first match in a single piece: a regular expression may match there but not in the whole text.
    in_piece: Option<(i64, FieldMatch)>,
}

impl RunSearch {
    pub(crate) fn new(run_id: &str) -> Self {
        Self { run_id: run_id.to_owned(), joined: None, calls: HashSet::new() }
    }

    pub(crate) fn event(&mut self, finds: &mut Finds<'_>, seq: i64, payload: &[u8]) {
        let piece = piece_of(payload);
        let is_same = |joined: &Joined, field: &str| {
            joined.field == field && joined.text.len() < MAX_JOINED_BYTES
        };
        match (&mut self.joined, &piece) {
            (Some(joined), Piece::Of { field, text }) if is_same(joined, field) => {
                joined.text += text
            }
            (_, Piece::Of { field, text }) => {
                self.finish(finds);
                self.joined =
                    Some(Joined { field, first_seq: seq, text: text.to_string(), in_piece: None });
            }
            (_, Piece::Between) => {}
            (_, Piece::Other) => self.finish(finds),
        }
        if !finds.matcher.may_match_json(payload) {
            return;
        }
        let (call, own) = without_known_ids(payload, finds.key, &self.run_id);
        let Some(found) = search_json(finds.matcher, &own) else { return };
        if let (Piece::Of { .. }, Some(joined)) = (piece, &mut self.joined) {
            joined.in_piece.get_or_insert((seq, found));
        // Every event of a call repeats its input.
        } else if call.is_none_or(|call| self.calls.insert((call, found.field.clone()))) {
            self.add(finds, seq, found);
        }
    }

    /// Searches the text joined so far. Call it again at the end.
    pub(crate) fn finish(&mut self, finds: &mut Finds<'_>) {
        let Some(joined) = self.joined.take() else { return };
        match (search_text(finds.matcher, joined.field, &joined.text), joined.in_piece) {
            (Some(found), _) => self.add(finds, joined.first_seq, found),
            (None, Some((seq, found))) => self.add(finds, seq, found),
            (None, None) => {}
        }
    }

    fn add(&self, finds: &mut Finds<'_>, seq: i64, found: FieldMatch) {
        finds.is_new(&found.snippet);
        finds.add(Some(event_id(&self.run_id, seq)), found);
    }
}

enum Piece<'a> {
    Of {
        field: &'static str,
        text: Cow<'a, str>,
    },
    /// An event between two pieces that does not separate them.
    Between,
    Other,
}

/// The fields that tell whether an event is a piece of text. Everything else is skipped, not parsed: most events are
/// pieces, and there are many.
#[derive(Deserialize)]
struct LightEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    message: Option<LightMessage<'a>>,
}

#[derive(Deserialize)]
struct LightMessage<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    message: Option<LightContent<'a>>,
}

#[derive(Deserialize)]
struct LightContent<'a> {
    #[serde(borrow)]
    content: Vec<LightBlock<'a>>,
}

#[derive(Deserialize)]
struct LightBlock<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
}

/// Recognises a piece of text by the shape that the SDK writes. Other shapes are searched event by event.
fn piece_of(payload: &[u8]) -> Piece<'_> {
    if payload.len() > LARGEST_PIECE {
        return Piece::Other;
    }
    let Ok(LightEvent { kind, message: Some(message) }) = serde_json::from_slice(payload) else {
        return Piece::Other;
    };
    match (kind.as_ref(), message.kind.as_ref(), message.message) {
        ("sdk_message", "assistant", Some(LightContent { mut content })) => {
            match content.as_mut_slice() {
                [LightBlock { kind, text: Some(text) }] if kind == "text" => {
                    Piece::Of { field: "message.message.content.text", text: std::mem::take(text) }
                }
                _ => Piece::Other,
            }
        }
        ("sdk_message", "thinking", _) => {
            Piece::Of { field: "message.text", text: message.text.unwrap_or_default() }
        }
        ("sdk_message", "status" | "request" | "usage" | "system", _) => Piece::Between,
        _ => Piece::Other,
    }
}

/// Removes the agent and run ids, which every event repeats. Also returns the id of the tool call.
fn without_known_ids(payload: &[u8], agent_id: &str, run_id: &str) -> (Option<String>, Vec<u8>) {
    let Ok(mut envelope) = lenient_json::parse(payload) else {
        return (None, payload.to_vec());
    };
    let is_known = |name: &str, value: &Json| {
        matches!(name, "agentId" | "runId" | "agent_id" | "run_id")
            && (value == agent_id || value == run_id)
    };
    let call = words(envelope["message"].get("call_id"));
    if let Some(fields) = envelope.as_object_mut() {
        fields.retain(|name, value| !is_known(name, value));
        if let Some(message) = fields.get_mut("message").and_then(Json::as_object_mut) {
            message.retain(|name, value| !is_known(name, value));
        }
    }
    (call, envelope.to_string().into_bytes())
}
