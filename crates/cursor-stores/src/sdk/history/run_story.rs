//! Turns a run's events into messages. Joins pieces of text, and merges all events of a tool call into one call.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::tool_event::{CallEvent, complete_call, merge_call, new_call};
use crate::lenient_json;
use crate::model::{Damage, Message, MessageKind, Part, Role, TokenUsage, ToolCall};
use crate::sdk::records::fields::{recorded, token_usage, words};
use crate::sdk::records::{Event, Payload, Run, RunError, RunStatus};
use crate::text::user_text::split_user_text;

/// The attachment kind for a run's progress reports.
const STATUS: &str = "status";

/// The content of a run's events.
#[derive(Debug, Default)]
pub(crate) struct RunStory {
    pub(crate) messages: Vec<Message>,
    pub(crate) model: Option<String>,
    pub(crate) request_id: Option<String>,
    pub(crate) usage: Option<TokenUsage>,
    /// The outcome in the last event, for a run whose row has none.
    pub(crate) outcome: Option<RunStatus>,
    pub(crate) error: Option<RunError>,
    pub(crate) damage: Vec<Damage>,
    calls: HashMap<String, CallPlace>,
    /// The kind of text that the next piece may continue.
    open: Option<Open>,
}

#[derive(Debug)]
struct CallPlace {
    message: usize,
    part: usize,
    is_input_cut: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Text,
    Thinking,
}

impl RunStory {
    /// Reads all events of a run. `resolve` finds payloads that are stored elsewhere.
    pub(crate) fn of(
        run: &Run,
        events: Vec<Event>,
        resolve: &dyn Fn(&str) -> Option<Vec<u8>>,
    ) -> Self {
        let mut story = Self::default();
        for Event { seq, kind, at, payload } in events {
            let place = || format!("event {seq} of {}", run.id);
            let json = match payload {
                Payload::Json(json) => Some(json),
                Payload::Elsewhere(reference) => {
                    let json = resolve(&reference);
                    if json.is_none() {
                        let what = format!("its content is kept elsewhere, as `{reference}`");
                        story.damage.push(Damage::new(place(), what));
                    }
                    json
                }
                Payload::TooLarge => {
                    story.damage.push(Damage::new(place(), "it is too large to read"));
                    None
                }
                Payload::Absent => None,
            };
            let Some(json) = json else { continue };
            match lenient_json::parse(&json) {
                Ok(envelope) => story.add_envelope(&Source { run, seq, kind: &kind, at }, envelope),
                Err(_) => {
                    story.damage.push(Damage::new(place(), "it is not JSON"));
                    story.open = None;
                    story.messages.push(Message {
                        id: Some(event_id(&run.id, seq)),
                        at: recorded(at),
                        ..Message::new(Role::Unknown, vec![Part::damaged(&json)])
                    });
                }
            }
        }
        story
    }

    fn add_envelope(&mut self, source: &Source<'_>, mut envelope: Json) {
        let kind = words(envelope.get("type")).unwrap_or_default();
        match kind.as_str() {
            "sdk_message" => {
                let message = envelope.get_mut("message").map(Json::take).unwrap_or_default();
                self.add_message(source, message);
            }
            "result" if envelope.get("runId").is_some() => {
                let status = words(envelope.get("status")).unwrap_or_default();
                self.outcome = Some(RunStatus::of(&status));
                self.note_error(words(envelope.get("errorCode")));
            }
            "done" => {}
            // A message without an envelope is still a message. Everything else is kept unchanged.
            _ => self.add_message(source, envelope),
        }
    }

    fn add_message(&mut self, source: &Source<'_>, mut message: Json) {
        let kind = words(message.get("type")).unwrap_or_default();
        match kind.as_str() {
            "user" => self.add_user(source, content(&mut message)),
            "assistant" => self.add_assistant(source, content(&mut message)),
            "thinking" => self.add_thinking(source, &message),
            "tool_call" => self.add_call(source, CallEvent::from_message(&mut message)),
            "status" => {
                let status = RunStatus::of(message["status"].as_str().unwrap_or_default());
                if status.is_over() {
                    self.outcome = Some(status);
                }
                self.add_status(source, status, &message);
            }
            "request" => self.request_id = words(message.get("request_id")),
            "usage" => {
                self.usage = TokenUsage::sum(self.usage, token_usage(&message["usage"]));
            }
            "system" => {
                let model = message.get("model");
                let id = model.and_then(|model| words(model.get("id")));
                self.model = id.or_else(|| words(model)).or_else(|| self.model.take());
            }
            _ => {
                let kind = if kind.is_empty() { source.kind.to_owned() } else { kind };
                // The message's position says as much as these ids.
                if let Some(fields) = message.as_object_mut() {
                    fields.retain(|name, _| {
                        !["agent_id", "run_id", "agentId", "runId"].contains(&name.as_str())
                    });
                }
                self.add_part(source, Part::Unknown { kind, value: message });
            }
        }
    }

    fn note_error(&mut self, error: Option<String>) {
        self.error = error.map(RunError::of).or_else(|| self.error.take());
    }

    /// The last status of a run that did not finish states the reason. Any other status is a progress report.
    fn add_status(&mut self, source: &Source<'_>, status: RunStatus, message: &Json) {
        let Some(said) = words(message.get("message")) else { return };
        if status.is_over() && status != RunStatus::Finished {
            return self.note_error(Some(said));
        }
        let status = words(message.get("status")).unwrap_or_default();
        let remark = Part::Attachment {
            kind: STATUS.to_owned(),
            name: Some(format!("{status}: {said}")),
            text: None,
        };
        self.add_part(source, remark);
    }

    /// True if the agent said or did something. Progress reports do not count.
    pub(crate) fn has_answer(&self) -> bool {
        let is_remark =
            |part: &Part| matches!(part, Part::Attachment { kind, .. } if kind == STATUS);
        self.messages
            .iter()
            .filter(|message| message.role == Role::Assistant)
            .any(|message| !message.parts.iter().all(is_remark))
    }

    fn add_user(&mut self, source: &Source<'_>, blocks: Vec<Json>) {
        self.open = None;
        let mut text = String::new();
        let mut others = Vec::new();
        for block in blocks {
            match (block["type"].as_str(), block["text"].as_str()) {
                // The SDK joins them the same way.
                (Some("text") | None, Some(words)) => text += words,
                (kind, _) => {
                    let kind = kind.unwrap_or_default().to_owned();
                    others.push(Part::Unknown { kind, value: block });
                }
            }
        }
        let mut message = prompt(&text);
        message.parts.append(&mut others);
        message.id = Some(source.id());
        message.at = recorded(source.at);
        self.messages.push(message);
    }

    fn add_assistant(&mut self, source: &Source<'_>, blocks: Vec<Json>) {
        for mut block in blocks {
            match block["type"].as_str() {
                Some("text") => self.add_text(source, block["text"].as_str().unwrap_or_default()),
                Some("tool_use") => self.add_call(source, CallEvent::from_block(&mut block)),
                kind => {
                    let kind = kind.unwrap_or_default().to_owned();
                    self.add_part(source, Part::Unknown { kind, value: block });
                }
            }
        }
    }

    fn add_text(&mut self, source: &Source<'_>, piece: &str) {
        let is_open = self.open == Some(Open::Text);
        match self.last_part() {
            Some(Part::Text { text }) if is_open => text.push_str(piece),
            _ if piece.is_empty() => {}
            _ => {
                self.add_part(source, Part::text(piece));
                self.open = Some(Open::Text);
            }
        }
    }

    /// A piece of thinking, or its end, which has only the duration.
    fn add_thinking(&mut self, source: &Source<'_>, message: &Json) {
        let piece = message["text"].as_str().unwrap_or_default();
        let took = message["thinking_duration_ms"].as_u64();
        let is_open = self.open == Some(Open::Thinking);
        match self.last_part() {
            Some(Part::Reasoning { text, duration_ms, .. }) if is_open => {
                text.push_str(piece);
                *duration_ms = took.or(*duration_ms);
            }
            _ if piece.is_empty() && took.is_none() => return,
            _ => self.add_part(
                source,
                Part::Reasoning { text: piece.to_owned(), duration_ms: took, is_redacted: false },
            ),
        }
        self.open = if took.is_some() { None } else { Some(Open::Thinking) };
    }

    fn add_call(&mut self, source: &Source<'_>, event: CallEvent) {
        let place = event.id.as_ref().and_then(|id| self.calls.get_mut(id));
        if let Some(place) = place {
            let part = self
                .messages
                .get_mut(place.message)
                .and_then(|message| message.parts.get_mut(place.part));
            if let Some(Part::ToolCall(call)) = part {
                merge_call(call, event, source.at, &mut place.is_input_cut);
            }
            return;
        }
        let (id, is_input_cut) = (event.id.clone(), event.is_input_cut);
        self.add_part(source, Part::ToolCall(new_call(event, source.at)));
        if let (Some(id), Some(message)) = (id, self.messages.len().checked_sub(1)) {
            let part = self.messages[message].parts.len() - 1;
            self.calls.insert(id, CallPlace { message, part, is_input_cut });
        }
    }

    /// Completes calls from another source.
    pub(crate) fn complete_calls(&mut self, known: &HashMap<&str, &ToolCall>) {
        for (id, place) in &mut self.calls {
            let Some(known) = known.get(id.as_str()) else { continue };
            let message = self.messages.get_mut(place.message);
            let part = message.and_then(|message| message.parts.get_mut(place.part));
            if let Some(Part::ToolCall(call)) = part {
                complete_call(call, known, &mut place.is_input_cut);
            }
        }
    }

    /// True if a call lacks its result or a part of its input.
    pub(crate) fn has_incomplete_calls(&self) -> bool {
        let is_incomplete =
            |call: &ToolCall| call.result.as_ref().is_none_or(|result| result.is_truncated);
        self.calls.values().any(|place| place.is_input_cut)
            || self.messages.iter().flat_map(Message::tool_calls).any(is_incomplete)
    }

    /// Returns the number of calls whose input the store kept only in part.
    pub(crate) fn n_cut_inputs(&self) -> u64 {
        self.calls.values().filter(|call| call.is_input_cut).count() as u64
    }

    fn last_part(&mut self) -> Option<&mut Part> {
        self.messages.last_mut().filter(|message| message.role == Role::Assistant)?.parts.last_mut()
    }

    /// Adds a part to the current answer. Thinking, text and calls, in this order, are one step of the model. A part
    /// that breaks the order begins the next step.
    fn add_part(&mut self, source: &Source<'_>, part: Part) {
        self.open = None;
        let continues = self.last_part().is_some_and(|last| rank(&part) >= rank(last));
        if !continues {
            let mut message = Message::new(Role::Assistant, Vec::new());
            message.id = Some(source.id());
            message.at = recorded(source.at);
            self.messages.push(message);
        }
        if let Some(message) = self.messages.last_mut() {
            message.parts.push(part);
        }
    }
}

/// The position of an event.
struct Source<'a> {
    run: &'a Run,
    seq: i64,
    /// The store's name for the event.
    kind: &'a str,
    at: Option<i64>,
}

impl Source<'_> {
    fn id(&self) -> String {
        event_id(&self.run.id, self.seq)
    }
}

/// Returns the id of an event, and of the message that begins with it.
pub(crate) fn event_id(run_id: &str, seq: i64) -> String {
    format!("{run_id}/{seq}")
}

/// Splits a prompt into the user's words and Cursor's context.
pub(crate) fn prompt(text: &str) -> Message {
    let split = split_user_text(text);
    let mut parts: Vec<Part> =
        split.context.into_iter().map(|(tag, body)| Part::context(tag, body)).collect();
    let kind = if split.query.is_some() { MessageKind::Said } else { MessageKind::Context };
    parts.extend(split.query.map(|query| Part::text(query.into_owned())));
    Message { kind, ..Message::new(Role::User, parts) }
}

fn rank(part: &Part) -> u8 {
    match part {
        Part::Reasoning { .. } => 0,
        Part::Text { .. } => 1,
        _ => 2,
    }
}

/// Returns the blocks of a message. Its content may be a plain string.
fn content(message: &mut Json) -> Vec<Json> {
    let content =
        message.get_mut("message").and_then(|inner| inner.get_mut("content")).map(Json::take);
    match content {
        Some(Json::Array(blocks)) => blocks,
        Some(Json::String(text)) => vec![serde_json::json!({"type": "text", "text": text})],
        _ => Vec::new(),
    }
}

#[cfg(test)]
#[path = "run_story_tests.rs"]
mod tests;
