//! One bubble as a message: its thinking, its text, its tool call and its attachments.

use serde_json::Value as Json;

use super::attachments::{attachments, name_of};
use super::tool::{error_text, rest_of_call, todos, tool_call};
use crate::ide::lenient::{is_blank, items, text, text_of, time, tokens, unpack};
use crate::model::{Message, Moment, Part, Role, TokenUsage, ToolResult};
use crate::text::editor_text::text_of_editor;
use crate::text::user_text::split_user_text;

/// A message, and the other fields of its bubble.
pub(crate) struct Bubble {
    pub(crate) message: Message,
    pub(crate) request_id: Option<String>,
    pub(crate) tokens: Option<TokenUsage>,
    pub(crate) error: Option<String>,
    pub(crate) mode: Option<String>,
    /// The folders that were open, as URIs or paths.
    pub(crate) workspaces: Vec<Json>,
    /// The rows with the files before and after the message.
    pub(crate) checkpoints: Vec<String>,
}

/// Reads a bubble. `header` is its entry in the conversation's list, or null.
pub(crate) fn read_bubble(bubble: &Json, header: &Json) -> Bubble {
    let role =
        role_of(&bubble["type"]).or_else(|| role_of(&header["type"])).unwrap_or(Role::Unknown);
    let mut message = Message::new(role, parts(bubble, role));
    message.id = text(&bubble["bubbleId"]).or_else(|| text(&header["bubbleId"])).map(str::to_owned);
    message.at = moment(bubble).or_else(|| time(&header["createdAt"]).map(Moment::recorded));
    message.model = model_of(bubble).map(str::to_owned);
    for part in &mut message.parts {
        if let Part::ToolCall(call) = part {
            call.started = message.at;
        }
    }
    let mut workspaces = items(&bubble["workspaceUris"]).to_vec();
    workspaces.extend(bubble.get("workspaceProjectDir").cloned());
    Bubble {
        message,
        request_id: text(&bubble["requestId"]).map(str::to_owned),
        tokens: token_count(&bubble["tokenCount"]),
        error: error_text(&bubble["errorDetails"]),
        mode: mode_name(&bubble["unifiedMode"]),
        workspaces,
        checkpoints: ["checkpointId", "afterCheckpointId"]
            .iter()
            .filter_map(|name| text(&bubble[name]).map(str::to_owned))
            .collect(),
    }
}

/// The model that wrote a bubble, if the bubble says so.
pub(crate) fn model_of(bubble: &Json) -> Option<&str> {
    text(&bubble["modelInfo"]["modelName"])
        .or_else(|| text(&bubble["modelType"]))
        .filter(|model| *model != "default")
}

fn role_of(kind: &Json) -> Option<Role> {
    match (kind.as_i64(), kind.as_str()) {
        (Some(1), _) | (_, Some("user" | "1")) => Some(Role::User),
        (Some(2), _) | (_, Some("ai" | "assistant" | "2")) => Some(Role::Assistant),
        _ => None,
    }
}

/// The name of a mode. Bubbles store modes as numbers, composers as words.
pub(crate) fn mode_name(mode: &Json) -> Option<String> {
    let name = match mode {
        Json::String(name) if name == "chat" => "ask",
        Json::String(name) if !name.is_empty() => name,
        Json::Number(number) => match number.as_i64() {
            Some(1) => "ask",
            Some(2) => "agent",
            Some(5) => "plan",
            _ => return None,
        },
        _ => return None,
    };
    Some(name.to_owned())
}

fn moment(bubble: &Json) -> Option<Moment> {
    let timing = &bubble["timingInfo"];
    let timings = ["clientStartTime", "clientRpcSendTime", "clientSettleTime", "clientEndTime"];
    time(&bubble["createdAt"])
        .or_else(|| time(&bubble["timestamp"]))
        .or_else(|| timings.iter().find_map(|name| time(&timing[name])))
        .map(Moment::recorded)
}

fn token_count(count: &Json) -> Option<TokenUsage> {
    let usage = TokenUsage {
        input: tokens(&count["inputTokens"]),
        output: tokens(&count["outputTokens"]),
        ..TokenUsage::default()
    };
    // Nearly all bubbles have zero for both, which means unknown.
    (!usage.is_unknown()).then_some(usage)
}

fn parts(bubble: &Json, role: Role) -> Vec<Part> {
    let mut parts = thinking(bubble);
    let said = said(bubble);
    if role == Role::User && said.contains("<user_query>") {
        parts.extend(user_parts(&said));
    } else if !said.trim().is_empty() {
        parts.push(Part::Text { text: said.clone() });
    }
    parts.extend(code(bubble, &said));
    let tool = unpack(&bubble["toolFormerData"]);
    parts.extend(tool_call(&tool).map(Part::ToolCall));
    parts.extend(rest_of_call(&tool));
    parts.extend(
        items(&bubble["toolResults"]).iter().filter(|result| !is_blank(result)).map(tool_result),
    );
    parts.extend(attachments(bubble));
    let todos = todos(&bubble["todos"]);
    if !todos.is_empty() {
        parts.push(Part::Todos { todos });
    }
    parts.extend(error_text(&bubble["errorDetails"]).map(|text| Part::Error { text }));
    parts
}

fn thinking(bubble: &Json) -> Vec<Part> {
    let duration_ms = bubble["thinkingDurationMs"].as_u64();
    let one = |thinking: &Json| {
        let said = text(thinking).or_else(|| text_of(thinking, &["text", "thinking", "content"]));
        let is_redacted = !is_blank(&thinking["redactedThinking"]);
        (said.is_some() || is_redacted).then(|| Part::Reasoning {
            text: said.unwrap_or_default().to_owned(),
            duration_ms,
            is_redacted: is_redacted && said.is_none(),
        })
    };
    let mut parts: Vec<Part> = one(&bubble["thinking"]).into_iter().collect();
    for block in items(&bubble["allThinkingBlocks"]).iter().filter_map(one) {
        let is_known = parts.iter().any(|part| same_thought(part, &block));
        if !is_known {
            parts.push(block);
        }
    }
    parts
}

fn same_thought(one: &Part, other: &Part) -> bool {
    matches!((one, other), (Part::Reasoning { text: one, .. }, Part::Reasoning { text: other, .. }) if one.contains(other.as_str()))
}

/// Returns a bubble's text. Falls back to the text of its editor.
fn said(bubble: &Json) -> String {
    match text_of(bubble, &["text", "rawText"]) {
        Some(text) => text.to_owned(),
        None => ["richText", "initText", "delegate"]
            .iter()
            .map(|field| {
                let value = &bubble[field];
                text_of_editor(value.get("a").unwrap_or(value))
            })
            .find(|text| !text.trim().is_empty())
            .unwrap_or_default(),
    }
}

/// A prompt, without the tags that Cursor adds for the model.
pub(crate) fn user_parts(said: &str) -> Vec<Part> {
    let split = split_user_text(said);
    let query = match split.query {
        Some(query) => query.into_owned(),
        None if split.context.is_empty() => said.to_owned(),
        None => String::new(),
    };
    let mut parts = Vec::new();
    if !query.trim().is_empty() {
        parts.push(Part::Text { text: query });
    }
    parts.extend(split.context.iter().map(|(tag, body)| Part::context(tag, body)));
    parts
}

/// The code blocks that the text does not contain.
fn code(bubble: &Json, said: &str) -> Vec<Part> {
    let blocks =
        ["codeBlocks", "suggestedCodeBlocks", "assistantSuggestedDiffs", "diffsSinceLastApply"];
    blocks
        .iter()
        .flat_map(|field| items(&bubble[field]))
        .map(unpack)
        .filter(|block| !is_blank(block))
        .filter_map(|block| {
            let content =
                text_of(&block, &["content", "code", "diff", "text", "newText", "codeBlock"]);
            match content {
                Some(content) if said.contains(content.trim()) => None,
                Some(content) => Some(Part::Code {
                    language: text_of(&block, &["languageId", "language"]).map(str::to_owned),
                    path: name_of(&block),
                    text: content.to_owned(),
                }),
                None => {
                    let only_names = [
                        "languageId",
                        "codeBlockIdx",
                        "uri",
                        "isGenerating",
                        "codeblockId",
                        "unregistered",
                    ];
                    let says_more = block.as_object().is_none_or(|fields| {
                        fields.iter().any(|(name, value)| {
                            !only_names.contains(&name.as_str()) && !is_blank(value)
                        })
                    });
                    says_more.then(|| Part::Unknown {
                        kind: "code".to_owned(),
                        value: block.clone().into_owned(),
                    })
                }
            }
        })
        .collect()
}

fn tool_result(result: &Json) -> Part {
    let output = ["result", "output", "content"]
        .iter()
        .filter_map(|name| result.get(name))
        .find(|value| !is_blank(value))
        .unwrap_or(result);
    Part::ToolResult {
        call_id: text_of(result, &["toolCallId", "id"]).map(str::to_owned),
        tool_name: text_of(result, &["toolName", "name"]).map(str::to_owned),
        result: ToolResult {
            output: unpack(output).into_owned(),
            error: error_text(&result["error"]),
            is_truncated: false,
        },
    }
}
