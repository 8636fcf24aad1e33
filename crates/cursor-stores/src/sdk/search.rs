//! Finding a pattern in every field of what belongs to an agent.
//!
//! What a model says is stored in pieces that end anywhere, so the pieces are joined before they are looked through.

use std::collections::HashSet;
use std::ops::ControlFlow;

use serde_json::Value as Json;

use super::fields::words;
use super::run_story::event_id;
use crate::search::{FieldMatch, Matcher, Snippet, search_bytes, search_json, search_text};
use crate::store::Hit;

/// Other events than those that carry a piece of text are seldom smaller, and need not be parsed.
const SMALL_EVENT: usize = 2048;
/// Nothing that is a piece of text is as large.
const LARGEST_PIECE: usize = 1024 * 1024;
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

    /// Looks through one value: JSON or text, in a field of this name.
    pub(super) fn value(
        &mut self,
        message_id: Option<&str>,
        field: &str,
        value: &[u8],
    ) -> ControlFlow<()> {
        let found = match value.first() {
            Some(b'{' | b'[') => search_json(self.matcher, value).map(|found| below(field, found)),
            _ => search_bytes(self.matcher, field, value),
        };
        match found {
            Some(found) => self.hand_over(message_id.map(str::to_owned), found),
            None => ControlFlow::Continue(()),
        }
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
        let surroundings = surroundings(snippet);
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
    first_seq: String,
    text: String,
    /// The first find in a piece alone: an expression may match there and not in the whole.
    in_piece: Option<(String, FieldMatch)>,
}

impl RunSearch {
    pub(super) fn new(run_id: &str) -> Self {
        Self { run_id: run_id.to_owned(), joined: None, calls: HashSet::new() }
    }

    pub(super) fn event(
        &mut self,
        finds: &mut Finds<'_>,
        seq: &str,
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
                self.joined = Some(Joined {
                    field,
                    first_seq: seq.to_owned(),
                    text: text.clone(),
                    in_piece: None,
                });
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
            joined.in_piece.get_or_insert((seq.to_owned(), found));
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
            (Some(found), _) => self.hand_over(finds, &joined.first_seq, found),
            (None, Some((seq, found))) => self.hand_over(finds, &seq, found),
            (None, None) => ControlFlow::Continue(()),
        }
    }

    fn hand_over(&self, finds: &mut Finds<'_>, seq: &str, found: FieldMatch) -> ControlFlow<()> {
        finds.is_new(&found.snippet);
        finds.hand_over(Some(event_id(&self.run_id, seq)), found)
    }
}

enum Piece {
    Of {
        field: &'static str,
        text: String,
    },
    /// Says nothing in between.
    Between,
    Other,
}

fn piece_of(payload: &[u8]) -> Piece {
    let mentions = |word: &[u8]| memchr::memmem::find(payload, word).is_some();
    let may_be_piece =
        payload.len() < LARGEST_PIECE && (mentions(b"\"assistant\"") || mentions(b"\"thinking\""));
    if payload.len() > SMALL_EVENT && !may_be_piece {
        return Piece::Other;
    }
    let Ok(envelope) = serde_json::from_slice::<Json>(payload) else { return Piece::Other };
    let message = if envelope["type"] == "sdk_message" { &envelope["message"] } else { &envelope };
    match message["type"].as_str() {
        Some("assistant") => match &message["message"]["content"] {
            Json::String(text) => {
                Piece::Of { field: "message.message.content.text", text: text.clone() }
            }
            Json::Array(blocks) if blocks.iter().all(|block| block["type"] == "text") => {
                let text = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
                Piece::Of { field: "message.message.content.text", text }
            }
            _ => Piece::Other,
        },
        Some("thinking") => {
            let text = message["text"].as_str().unwrap_or_default().to_owned();
            Piece::Of { field: "message.text", text }
        }
        Some("status" | "request" | "usage" | "system") => Piece::Between,
        _ => Piece::Other,
    }
}

/// Takes out the ids of agent and run, which every event repeats, and tells the call that it belongs to.
fn without_known_ids(payload: &[u8], agent_id: &str, run_id: &str) -> (Option<String>, Vec<u8>) {
    let Ok(mut envelope) = serde_json::from_slice::<Json>(payload) else {
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

/// What makes the same words at the same place the same, in JSON, in protobuf and in pieces: the letters around them, as
/// far as the next tag, because checkpoints put prompts between tags and events do not.
fn surroundings(snippet: &Snippet) -> String {
    const NEAR: usize = 12;
    let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<Vec<_>>();
    let before = letters(snippet.before.rsplit('>').next().unwrap_or_default());
    let after = letters(snippet.after.split('<').next().unwrap_or_default());
    let near_before = before.iter().skip(before.len().saturating_sub(NEAR));
    near_before.chain(&letters(&snippet.found)).chain(after.iter().take(NEAR)).collect()
}
