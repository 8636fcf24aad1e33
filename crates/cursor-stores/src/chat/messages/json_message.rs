//! One prompt message: JSON in the forms of several builds and model providers.

use serde_json::{Map, Value as Json};

use super::json_binary::{n_bytes_of, without_bytes};
use super::tool_result::{CallResult, call_result};
use crate::chat::store::{BlobId, lenient_integer};
use crate::lenient_json;
use crate::model::{MessageKind, Part, Role, ToolCall};
use crate::text::user_text::split_user_text;

/// A message whose results are not yet joined to their calls.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonMessage {
    pub(crate) role: Role,
    pub(crate) kind: MessageKind,
    pub(crate) parts: Vec<Part>,
    pub(crate) results: Vec<CallResult>,
    pub(crate) request_id: Option<String>,
    pub(crate) model: Option<String>,
    /// The body of `<timestamp>`.
    pub(crate) timestamp: Option<String>,
    /// The time when the calls of an uncommitted message began.
    pub(crate) started_at_ms: Option<i64>,
}

impl JsonMessage {
    /// Reads a JSON object. A bad field does not make the rest unreadable.
    pub(crate) fn parse(json: &[u8]) -> Option<Self> {
        // Callers try other blobs as messages too. The first byte rules out most of them.
        if json.trim_ascii_start().first() != Some(&b'{') {
            return None;
        }
        let Ok(Json::Object(fields)) = lenient_json::parse(json) else { return None };
        Some(Self::from_fields(fields))
    }

    fn from_fields(mut fields: Map<String, Json>) -> Self {
        let role = role_of(fields.get("role"));
        let options =
            fields.get("providerOptions").and_then(|options| options.get("cursor")).cloned();
        let options = options.unwrap_or(Json::Null);
        let mut message = Self {
            role,
            kind: MessageKind::Said,
            parts: Vec::new(),
            results: Vec::new(),
            request_id: text_of(&options["requestId"]),
            model: text_of(&options["modelName"]),
            timestamp: None,
            started_at_ms: lenient_integer(&options["pendingToolCallStartedAtMs"]),
        };
        if let Some(thinking) = fields.get("reasoning_content").and_then(text_of) {
            message.parts.push(Part::reasoning(thinking));
        }
        // In OpenAI's format, a result is the whole message.
        let call_id = fields.get("tool_call_id").and_then(text_of);
        let content = fields.remove("content").unwrap_or(Json::Null);
        if role == Role::Tool && call_id.is_some() {
            let name = fields.get("name").cloned().unwrap_or(Json::Null);
            let block =
                serde_json::json!({ "toolCallId": call_id, "toolName": name, "result": content });
            message
                .results
                .extend(block.as_object().cloned().map(|block| call_result(block, &options)));
        } else {
            message.add_content(content, &options);
        }
        for call in fields.remove("tool_calls").iter().filter_map(Json::as_array).flatten() {
            message.parts.push(openai_call(call));
        }
        if let Some(call) = fields.get("function_call").filter(|call| call.is_object()) {
            message.parts.push(openai_call(&serde_json::json!({ "function": call })));
        }
        if options["isSummary"] == true {
            message.kind = MessageKind::Summary;
        } else if role == Role::System {
            message.kind = MessageKind::Context;
        } else if role == Role::User {
            message.take_users_text_apart();
        }
        message
    }

    fn add_content(&mut self, content: Json, options: &Json) {
        match content {
            Json::Null => {}
            Json::Array(blocks) => {
                for block in blocks {
                    self.add_block(block, options);
                }
            }
            block => self.add_block(block, options),
        }
    }

    fn add_block(&mut self, block: Json, options: &Json) {
        let mut block = match block {
            Json::String(text) => return self.add_text(text),
            Json::Object(block) => block,
            other => return self.parts.push(Part::Unknown { kind: String::new(), value: other }),
        };
        if let Some(model) = block_model(&block) {
            self.model.get_or_insert(model);
        }
        let kind = block.get("type").and_then(Json::as_str).unwrap_or_default().to_owned();
        match kind.as_str() {
            "text" | "input_text" | "output_text" | ""
                if block.get("text").is_some_and(Json::is_string) =>
            {
                if let Some(Json::String(text)) = block.remove("text") {
                    self.add_text(text);
                }
            }
            "reasoning" | "thinking" => {
                let text = first_text(&block, &["text", "thinking"]);
                let text = text.unwrap_or_default();
                let is_redacted = text.is_empty();
                self.parts.push(Part::Reasoning { text, duration_ms: None, is_redacted });
            }
            "redacted-reasoning" | "redacted_thinking" => {
                let text = String::new();
                self.parts.push(Part::Reasoning { text, duration_ms: None, is_redacted: true });
            }
            "tool-call" | "tool_use" => self.parts.push(Part::ToolCall(tool_call(block))),
            "tool-result" | "tool_result" => self.results.push(call_result(block, options)),
            "image" | "image_url" | "input_image" => self.parts.push(image(&block)),
            "file" => self.parts.push(file(block)),
            _ => {
                let value = without_bytes(Json::Object(block));
                self.parts.push(Part::Unknown { kind, value });
            }
        }
    }

    /// Older models write their thoughts at the beginning of the text.
    fn add_text(&mut self, text: String) {
        const OPENS: &str = "<think>";
        const CLOSES: &str = "</think>";
        // Some providers leave an empty text next to calls.
        if text.is_empty() {
            return;
        }
        let thinking = text.trim_start().strip_prefix(OPENS);
        let Some(thinking) = thinking.filter(|_| self.role == Role::Assistant) else {
            return self.parts.push(Part::Text { text });
        };
        let (thinking, rest) = thinking.split_once(CLOSES).unwrap_or((thinking, ""));
        self.parts.push(Part::reasoning(thinking.trim()));
        let rest = rest.trim_start();
        if !rest.is_empty() {
            self.parts.push(Part::text(rest));
        }
    }

    fn take_users_text_apart(&mut self) {
        let mut parts = Vec::with_capacity(self.parts.len());
        let mut has_words = false;
        for part in self.parts.drain(..) {
            let Part::Text { text } = part else {
                // An image counts as the user's words. A result does not.
                has_words |= matches!(part, Part::Image { .. } | Part::Unknown { .. });
                parts.push(part);
                continue;
            };
            let split = split_user_text(&text);
            if let Some(query) = split.query {
                has_words = true;
                parts.push(Part::text(query));
            }
            self.timestamp = self.timestamp.take().or(split.timestamp.map(str::to_owned));
            parts.extend(split.context.into_iter().map(|(tag, body)| Part::Attachment {
                kind: context_kind(tag).to_owned(),
                name: Some(tag.to_owned()).filter(|tag| !tag.is_empty()),
                text: Some(body.to_owned()),
            }));
        }
        if !has_words && self.results.is_empty() {
            self.kind = MessageKind::Context;
        }
        self.parts = parts;
    }

    /// Returns the same hash for messages with the same content, whatever the order of their keys.
    pub(crate) fn fingerprint(&self) -> BlobId {
        let results: Vec<_> =
            self.results.iter().map(|result| (&result.call_id, &result.result)).collect();
        // These types can always be written as JSON.
        BlobId::of(&serde_json::to_vec(&(self.role, &self.parts, &results)).unwrap_or_default())
    }

    /// True if a list counts the message: user and assistant messages, but not context.
    pub(crate) fn is_counted(&self) -> bool {
        matches!(self.role, Role::User | Role::Assistant)
            && self.kind != MessageKind::Context
            && !self.parts.is_empty()
    }
}

fn role_of(role: Option<&Json>) -> Role {
    match role.and_then(Json::as_str) {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool" | "function") => Role::Tool,
        _ => Role::Unknown,
    }
}

pub(crate) fn text_of(json: &Json) -> Option<String> {
    json.as_str().map(str::to_owned)
}

/// The first of these keys that holds a text.
pub(crate) fn first_text(fields: &Map<String, Json>, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| text_of(fields.get(*key)?))
}

fn block_model(block: &Map<String, Json>) -> Option<String> {
    let name = block.get("providerOptions")?.get("cursor")?.get("modelName")?;
    text_of(name).filter(|name| !name.is_empty())
}

fn tool_call(mut block: Map<String, Json>) -> ToolCall {
    let name = first_text(&block, &["toolName", "name"]);
    let raw = block
        .get("providerOptions")
        .and_then(|options| options.get("cursor")?.get("rawToolCallArgs"))
        .cloned();
    let args =
        ["args", "input"].iter().find_map(|key| block.remove(*key)).filter(|args| !args.is_null());
    // Keep raw arguments if the provider could not parse them.
    let is_empty = |args: &Json| args.as_object().is_some_and(Map::is_empty);
    let args = match (args, raw) {
        (Some(args), Some(raw)) if is_empty(&args) && !raw.is_null() => raw,
        (args, raw) => args.or(raw).unwrap_or_default(),
    };
    let mut call = ToolCall::new(name.unwrap_or_default(), without_bytes(parsed_arguments(args)));
    call.id = first_text(&block, &["toolCallId", "id"]);
    call
}

fn openai_call(call: &Json) -> Part {
    let function = &call["function"];
    let name = text_of(&function["name"]).or_else(|| text_of(&call["name"])).unwrap_or_default();
    let mut tool_call = ToolCall::new(name, parsed_arguments(function["arguments"].clone()));
    tool_call.id = text_of(&call["id"]);
    Part::ToolCall(tool_call)
}

/// Some providers keep arguments as JSON text.
fn parsed_arguments(arguments: Json) -> Json {
    match &arguments {
        Json::String(text) => match lenient_json::parse(text.as_bytes()) {
            Ok(parsed @ (Json::Object(_) | Json::Array(_))) => parsed,
            _ => arguments,
        },
        _ => arguments,
    }
}

fn image(block: &Map<String, Json>) -> Part {
    let holder = ["image", "image_url", "source", "data"].iter().find_map(|key| block.get(*key));
    let holder = holder.unwrap_or(&Json::Null);
    // Either the bytes themselves or an object around them.
    let inner = ["data", "url"].iter().find_map(|key| holder.get(*key)).unwrap_or(holder);
    let declared = ["mimeType", "mediaType", "media_type", "mime"]
        .iter()
        .find_map(|key| text_of(block.get(*key).or_else(|| holder.get(*key))?));
    let text = inner.as_str().unwrap_or_default();
    let from_url = text.strip_prefix("data:").and_then(|rest| rest.split_once([';', ',']));
    let n_bytes = n_bytes_of(inner);
    Part::Image {
        media_type: declared.or_else(|| from_url.map(|(media_type, _)| media_type.to_owned())),
        path: (n_bytes.is_none() && from_url.is_none() && !text.is_empty())
            .then(|| text.to_owned()),
        n_bytes,
    }
}

fn file(mut block: Map<String, Json>) -> Part {
    let name = first_text(&block, &["filename", "name", "path"]);
    let text = match block.remove("data").or_else(|| block.remove("text")) {
        Some(data) if n_bytes_of(&data).is_some() => None,
        Some(Json::String(text)) => Some(text),
        Some(Json::Null) | None => None,
        Some(other) => Some(without_bytes(other).to_string()),
    };
    Part::Attachment { kind: "file".to_owned(), name, text }
}

fn context_kind(tag: &str) -> &'static str {
    if tag.contains("rule") {
        "rule"
    } else if tag.contains("terminal") {
        "terminal"
    } else if tag == "attached_files" {
        "file"
    } else {
        "context"
    }
}

#[cfg(test)]
#[path = "json_message_tests.rs"]
mod tests;
