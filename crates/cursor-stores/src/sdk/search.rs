//! Finding a pattern in every field of what belongs to an agent.
//!
//! What a model says is stored in pieces that end anywhere, so the pieces are joined before they are looked through.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::ControlFlow;

use serde::Deserialize;
use serde_json::Value as Json;

use super::fields::words;
use super::run_story::event_id;
use crate::lenient_json;
use crate::search::{FieldMatch, Matcher, Snippet, search_bytes, search_json, search_text};
use crate::store::Hit;

/// What a model says at once is never as large as the results of tools are.
const LARGEST_PIECE: usize = 64 * 1024;
/// Pieces that are joined to more than this are looked through in parts.
const MAX_JOINED_BYTES: usize = 16 * 1024 * 1024;

/// With more finds than that nobody minds to see one twice.
const MAX_SURROUNDINGS: usize = 10_000;

/// Hands finds over to whoever asked for them.
pub(super) struct Finds<'a> {
    pub(super) matcher: &'a Matcher,
    pub(super) found: &'a (dyn Fn(Hit) -> ControlFlow<()> + Sync),
    pub(super) key: &'a str,
    /// How many were handed over before, by an attempt that has to be repeated.
    pub(super) n_known: usize,
    n_found: usize,
    /// What surrounds finds in the events: the same stands once more in the blobs.
    surroundings: HashSet<String>,
}

impl<'a> Finds<'a> {
    pub(super) fn new(
        matcher: &'a Matcher,
        found: &'a (dyn Fn(Hit) -> ControlFlow<()> + Sync),
        key: &'a str,
    ) -> Self {
        Self { matcher, found, key, n_known: 0, n_found: 0, surroundings: HashSet::new() }
    }

    /// Begins anew; what was found already is not handed over again.
    pub(super) fn restart(&mut self) {
        self.n_known = self.n_known.max(self.n_found);
        self.n_found = 0;
        self.surroundings.clear();
    }

    fn hand_over(&mut self, message_id: Option<String>, found: FieldMatch) -> ControlFlow<()> {
        self.n_found += 1;
        if self.n_found <= self.n_known {
            return ControlFlow::Continue(());
        }
        let FieldMatch { field, snippet } = found;
        (self.found)(Hit { key: self.key.to_owned(), message_id, position: None, field, snippet })
    }

    /// Looks through one value: JSON or text. `place` is asked only if something is found: for the message and the field.
    pub(super) fn value(
        &mut self,
        value: &[u8],
        place: impl FnOnce() -> (Option<String>, String),
    ) -> ControlFlow<()> {
        let found = match value.first() {
            Some(b'{' | b'[') => search_json(self.matcher, value),
            _ => search_bytes(self.matcher, "", value),
        };
        let Some(found) = found else { return ControlFlow::Continue(()) };
        let (message_id, field) = place();
        self.hand_over(message_id, below(&field, found))
    }

    /// Looks through a blob. What the events had too is passed over.
    pub(super) fn blob(&mut self, id: &str, data: &[u8]) -> ControlFlow<()> {
        let found = match data.first() {
            Some(b'{' | b'[') => search_json(self.matcher, data),
            _ => search_bytes(self.matcher, "", data),
        };
        match found {
            Some(found) if self.is_new(&found.snippet) => {
                self.hand_over(Some(id.to_owned()), below("blobs", found))
            }
            _ => ControlFlow::Continue(()),
        }
    }

    /// Tells whether nothing was found yet with the same words around it.
    fn is_new(&mut self, snippet: &Snippet) -> bool {
        let surroundings = snippet.surroundings();
        let is_new = !self.surroundings.contains(&surroundings);
        if self.surroundings.len() < MAX_SURROUNDINGS {
            self.surroundings.insert(surroundings);
        }
        is_new
    }
}

/// The events of one run, in their order.
pub(super) struct RunSearch {
    run_id: String,
    joined: Option<Joined>,
    calls: HashSet<(String, String)>,
}

/// Pieces of one text.
struct Joined {
    field: &'static str,
    first_seq: i64,
    text: String,
    /// The first find in a piece alone: an expression may match there and not in the whole.
    in_piece: Option<(i64, FieldMatch)>,
}

impl RunSearch {
    pub(super) fn new(run_id: &str) -> Self {
        Self { run_id: run_id.to_owned(), joined: None, calls: HashSet::new() }
    }

    pub(super) fn event(
        &mut self,
        finds: &mut Finds<'_>,
        seq: i64,
        payload: &[u8],
    ) -> ControlFlow<()> {
        let piece = piece_of(payload);
        let is_same = |joined: &Joined, field: &str| {
            joined.field == field && joined.text.len() < MAX_JOINED_BYTES
        };
        match (&mut self.joined, &piece) {
            (Some(joined), Piece::Of { field, text }) if is_same(joined, field) => {
                joined.text += text
            }
            (_, Piece::Of { field, text }) => {
                self.finish(finds)?;
                self.joined =
                    Some(Joined { field, first_seq: seq, text: text.to_string(), in_piece: None });
            }
            (_, Piece::Between) => {}
            (_, Piece::Other) => self.finish(finds)?,
        }
        if !finds.matcher.may_match_json(payload) {
            return ControlFlow::Continue(());
        }
        let (call, own) = without_known_ids(payload, finds.key, &self.run_id);
        let Some(found) = search_json(finds.matcher, &own) else {
            return ControlFlow::Continue(());
        };
        if let (Piece::Of { .. }, Some(joined)) = (piece, &mut self.joined) {
            joined.in_piece.get_or_insert((seq, found));
            return ControlFlow::Continue(());
        }
        // Every event of a call has all of its input again.
        if call.is_some_and(|call| !self.calls.insert((call, found.field.clone()))) {
            return ControlFlow::Continue(());
        }
        self.hand_over(finds, seq, found)
    }

    /// Looks through what was joined last. To be called once more at the end.
    pub(super) fn finish(&mut self, finds: &mut Finds<'_>) -> ControlFlow<()> {
        let Some(joined) = self.joined.take() else { return ControlFlow::Continue(()) };
        match (search_text(finds.matcher, joined.field, &joined.text), joined.in_piece) {
            (Some(found), _) => self.hand_over(finds, joined.first_seq, found),
            (None, Some((seq, found))) => self.hand_over(finds, seq, found),
            (None, None) => ControlFlow::Continue(()),
        }
    }

    fn hand_over(&self, finds: &mut Finds<'_>, seq: i64, found: FieldMatch) -> ControlFlow<()> {
        finds.is_new(&found.snippet);
        finds.hand_over(Some(event_id(&self.run_id, seq)), found)
    }
}

enum Piece<'a> {
    Of {
        field: &'static str,
        text: Cow<'a, str>,
    },
    /// Says nothing in between.
    Between,
    Other,
}

/// What has to be known of an event to tell whether it is a piece of text. Everything else is skipped, not parsed: most
/// events are pieces, and there are many.
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

/// Tells a piece of text by the shape in which the SDK writes it. Other shapes are looked through event by event.
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

/// Takes out the ids of agent and run, which every event repeats, and tells the call that it belongs to.
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

fn below(field: &str, found: FieldMatch) -> FieldMatch {
    let field = match found.field.as_str() {
        "" => field.to_owned(),
        inner => format!("{field}.{inner}"),
    };
    FieldMatch { field, ..found }
}
