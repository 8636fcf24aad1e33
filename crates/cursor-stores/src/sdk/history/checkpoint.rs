//! The events lack prompts and the results of tool calls. This module reads them from the agent's checkpoints.
//!
//! A checkpoint is the root of a conversation, as in a chat of the command line agent. This module uses only one field
//! of that root: the list of messages.

use std::collections::HashMap;

use prost::Message as _;
use serde_json::{Value as Json, json};

use super::run_story::prompt;
use crate::chat::BlobId;
use crate::lenient_json;
use crate::model::{Message, Part, Role, ToolCall, ToolResult, ToolState};
use crate::sdk::records::fields::words;
use crate::transcript::decode_block;

/// The messages from one prompt to the next.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Exchange {
    pub(crate) prompts: Vec<Message>,
    pub(crate) answers: Vec<Message>,
}

/// A source of blobs.
pub(crate) trait Blobs {
    fn blob(&self, id: BlobId) -> Option<Vec<u8>>;

    /// Records that a message of a checkpoint is missing.
    fn miss(&self, id: BlobId);

    /// All messages, whether a checkpoint leads to them or not.
    fn messages(&self) -> Vec<(BlobId, Json)>;

    /// True if a read has lost something, or may have.
    fn is_damaged(&self) -> bool;
}

/// The only field that this module needs. The reader of chats reads the others.
#[derive(Clone, PartialEq, prost::Message)]
struct RootMessages {
    #[prost(bytes = "vec", repeated, tag = "1")]
    messages: Vec<Vec<u8>>,
}

/// Where a run's messages begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    Conversation,
    After(BlobId),
    /// Unknown. Take the last prompt.
    LastPrompt,
}

/// Returns the messages that a run added: those of its last root, without those of its first.
///
/// `None` if the root is missing. If the conversation was summarised in between, takes everything from the last prompt
/// on.
pub(crate) fn exchange_of_run(blobs: &dyn Blobs, begin: Begin, end: BlobId) -> Option<Exchange> {
    let all = message_ids(blobs, end)?;
    let before = match begin {
        Begin::Conversation => Some(Vec::new()),
        Begin::After(root) => message_ids(blobs, root),
        Begin::LastPrompt => None,
    };
    let Some(added) = before.as_deref().and_then(|before| all.strip_prefix(before)) else {
        return Some(read_from_last_prompt(blobs, &all));
    };
    let mut exchange = Exchange::default();
    for message in read_messages(blobs, added) {
        exchange.add(message);
    }
    Some(exchange)
}

/// Reads a whole conversation, prompt by prompt.
pub(crate) fn all_exchanges(blobs: &dyn Blobs, root: BlobId) -> Option<Vec<Exchange>> {
    Some(split(read_messages(blobs, &message_ids(blobs, root)?)))
}

/// Splits messages before each prompt.
pub(crate) fn split(messages: impl IntoIterator<Item = Json>) -> Vec<Exchange> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    for message in messages {
        let begins = message["role"] == "user" && prompt_of(&message).is_some();
        if begins || exchanges.is_empty() {
            exchanges.push(Exchange::default());
        }
        if let Some(exchange) = exchanges.last_mut() {
            exchange.add(message);
        }
    }
    exchanges.retain(|exchange| *exchange != Exchange::default());
    exchanges
}

fn message_ids(blobs: &dyn Blobs, root: BlobId) -> Option<Vec<BlobId>> {
    let root = RootMessages::decode(blobs.blob(root)?.as_slice()).ok()?;
    Some(root.messages.iter().filter_map(|id| BlobId::try_from(id.as_slice()).ok()).collect())
}

fn read_messages<'a>(blobs: &'a dyn Blobs, ids: &'a [BlobId]) -> impl Iterator<Item = Json> + 'a {
    ids.iter().filter_map(|id| match blobs.blob(*id) {
        Some(data) => Some(lenient_json::parse(&data).unwrap_or_else(|_| damaged_message(&data))),
        None => {
            blobs.miss(*id);
            None
        }
    })
}

/// Reads a message. An edited file may be a JSON object too, but it has no known role.
pub(crate) fn read_message(data: &[u8]) -> Option<Json> {
    if data.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    let message = lenient_json::parse(data).ok()?;
    matches!(message["role"].as_str(), Some("user" | "assistant" | "tool")).then_some(message)
}

/// Creates a message in place of unreadable bytes.
pub(crate) fn damaged_message(data: &[u8]) -> Json {
    let Part::Unknown { kind, value } = Part::damaged(data) else { return Json::Null };
    json!({"role": "assistant", "content": [{"type": kind, "damaged": value}]})
}

/// Goes backwards, so that messages before the last prompt cost nothing.
fn read_from_last_prompt(blobs: &dyn Blobs, ids: &[BlobId]) -> Exchange {
    let mut messages = Vec::new();
    for place in (0..ids.len()).rev() {
        let message = read_messages(blobs, &ids[place..=place]).next();
        let begins = message.as_ref().is_some_and(|message| prompt_of(message).is_some());
        messages.extend(message);
        if begins {
            break;
        }
    }
    let mut exchange = Exchange::default();
    for message in messages.into_iter().rev() {
        exchange.add(message);
    }
    exchange
}

/// Returns the user's prompt. `None` for context and for other roles.
fn prompt_of(message: &Json) -> Option<Message> {
    if message["role"] != "user" {
        return None;
    }
    let mut text = String::new();
    let mut others = Vec::new();
    match message.get("content").or_else(|| message["message"].get("content")) {
        Some(Json::String(words)) => text.clone_from(words),
        Some(Json::Array(blocks)) => {
            for block in blocks {
                match (block["type"].as_str(), block["text"].as_str()) {
                    (Some("text"), Some(words)) => text += words,
                    (Some("image"), _) => {
                        let media_type = words(block.get("mimeType"));
                        others.push(Part::Image { media_type, path: None, n_bytes: None });
                    }
                    (kind, _) => {
                        let kind = kind.unwrap_or_default().to_owned();
                        others.push(Part::Unknown { kind, value: block.clone() });
                    }
                }
            }
        }
        _ => {}
    }
    let mut message = prompt(&text);
    let is_said = message.kind.is_said() && !(text.is_empty() && others.is_empty());
    message.parts.append(&mut others);
    is_said.then_some(message)
}

impl Exchange {
    fn add(&mut self, mut message: Json) {
        match message["role"].as_str() {
            Some("user") => self.prompts.extend(prompt_of(&message)),
            Some("assistant") => {
                let inner = if message.get("content").is_some() {
                    &mut message
                } else {
                    &mut message["message"]
                };
                let parts = match inner.get_mut("content").map(Json::take) {
                    Some(Json::String(text)) => vec![Part::text(text)],
                    Some(Json::Array(blocks)) => blocks.into_iter().map(answer_part).collect(),
                    _ => Vec::new(),
                };
                if !parts.is_empty() {
                    self.answers.push(Message::new(Role::Assistant, parts));
                }
            }
            Some("tool") => self.add_results(message["content"].take()),
            // System prompts repeat in every checkpoint, and are not part of the conversation.
            _ => {}
        }
    }

    fn add_results(&mut self, blocks: Json) {
        let Json::Array(blocks) = blocks else { return };
        for mut block in blocks {
            let id = words(block.get("toolCallId"));
            let call =
                self.answers.iter_mut().flat_map(|message| &mut message.parts).find_map(|part| {
                    match part {
                        Part::ToolCall(call) if call.id.is_some() && call.id == id => Some(call),
                        _ => None,
                    }
                });
            let is_error = block["isError"] == true;
            let output =
                ["result", "output"].into_iter().find_map(|name| Some(block.get_mut(name)?.take()));
            let Some(call) = call else { continue };
            call.state = if is_error { ToolState::Failed } else { ToolState::Succeeded };
            call.result = Some(ToolResult {
                error: words(block.get("error")),
                output: output.unwrap_or_default(),
                is_truncated: false,
            });
        }
    }

    /// Returns the tool calls, by id.
    pub(crate) fn calls(&self) -> HashMap<&str, &ToolCall> {
        self.answers
            .iter()
            .flat_map(Message::tool_calls)
            .filter_map(|call| Some((call.id.as_deref()?, call)))
            .collect()
    }
}

/// Reads a block of an answer, in a checkpoint or in a transcript.
fn answer_part(mut block: Json) -> Part {
    match block["type"].as_str() {
        Some("damaged") => {
            Part::Unknown { kind: "damaged".to_owned(), value: block["damaged"].take() }
        }
        Some("text") => Part::text(block["text"].as_str().unwrap_or_default()),
        _ => decode_block(&block),
    }
}

#[cfg(test)]
#[path = "checkpoint_tests.rs"]
mod tests;
