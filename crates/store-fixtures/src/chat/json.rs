//! The JSON messages of the model's prompt.

use serde_json::{Value as Json, json};

use super::{Call, Chat, Generation, Outcome, Step};

pub(super) fn system() -> Json {
    json!({ "role": "system", "content": "You are an agent." })
}

pub(super) fn user_info(workspace: &str) -> Json {
    let text =
        format!("<user_info>\nOS Version: linux\n\nWorkspace Path: {workspace}\n</user_info>");
    json!({ "role": "user", "content": text })
}

pub(super) fn prompt(chat: &Chat, text: &str, request_id: &str) -> Json {
    match chat.generation {
        Generation::Aug2025 => {
            json!({ "role": "user", "content": [{ "type": "text", "text": text }] })
        }
        _ => json!({
            "role": "user",
            "content": [{ "type": "text", "text": format!("<user_query>\n{text}\n</user_query>") }],
            "providerOptions": { "cursor": { "requestId": request_id } },
        }),
    }
}

/// An answer: thoughts, texts, and the calls after them.
pub(super) fn assistant(chat: &Chat, steps: &[Step], number: usize) -> Json {
    let has_models = matches!(chat.generation, Generation::Jul2026 | Generation::Sep2026);
    let content: Vec<Json> = steps
        .iter()
        .map(|step| match step {
            Step::Thinking(text) => {
                let mut block =
                    json!({ "type": "reasoning", "text": text, "signature": "c2lnbmF0dXJl" });
                if has_models {
                    block["providerOptions"] = json!({ "cursor": { "modelName": chat.model } });
                }
                block
            }
            Step::Text(text) => json!({ "type": "text", "text": text }),
            Step::Call(call) => json!({
                "type": "tool-call",
                "toolCallId": call.id,
                "toolName": call.tool,
                "args": call.args,
                "providerOptions": { "cursor": { "rawToolCallArgs": call.args.to_string() } },
            }),
        })
        .collect();
    let id = if chat.generation == Generation::Sep2026 {
        format!("msg_{number}")
    } else {
        "1".to_owned()
    };
    json!({ "role": "assistant", "content": content, "id": id })
}

/// Like [`assistant`], but before the message is committed: its id comes first.
pub(super) fn pending(chat: &Chat, steps: &[Step], number: usize, started_ms: i64) -> Json {
    let committed = assistant(chat, steps, number);
    let mut message =
        json!({ "id": committed["id"], "role": "assistant", "content": committed["content"] });
    if chat.generation == Generation::Sep2026 {
        message["providerOptions"] =
            json!({ "cursor": { "pendingToolCallStartedAtMs": started_ms } });
    }
    message
}

pub(super) fn tool_result(call: &Call, outcome: &Outcome) -> Json {
    let mut block = json!({ "type": "tool-result", "toolCallId": call.id, "toolName": call.tool });
    let high_level = match outcome {
        Outcome::Success(result) => {
            block["result"] = result.clone();
            json!({ "output": { "success": { "executionTime": 4122 } }, "isError": false })
        }
        Outcome::Error(error) => {
            block["result"] = error.clone().into();
            block["isError"] = true.into();
            json!({ "output": { "failure": {} }, "isError": true, "rawErrorMessages": [error] })
        }
        Outcome::Rejected(why) => {
            block["result"] = why.clone().into();
            json!({ "output": { "rejected": { "reason": why } }, "isError": true })
        }
    };
    json!({
        "role": "tool",
        "content": [block],
        "id": call.id,
        "providerOptions": { "cursor": { "highLevelToolCallResult": high_level } },
    })
}

pub(super) fn summary(text: &str) -> Json {
    json!({
        "role": "user",
        "content": [{ "type": "text", "text": format!("<summary>\n{text}\n</summary>") }],
        "providerOptions": { "cursor": { "isSummary": true } },
    })
}
