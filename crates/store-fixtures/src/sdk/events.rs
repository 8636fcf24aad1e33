//! The messages that a run streams, in the SDK's own shapes. The writer adds the ids.

use serde_json::{Value as Json, json};

pub fn user(text: &str) -> Json {
    json!({"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": text}]}})
}

/// A piece of an answer.
pub fn text(piece: &str) -> Json {
    json!({"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": piece}]}})
}

/// A tool call as a block of an answer.
pub fn tool_use(id: &str, name: &str, input: Json) -> Json {
    let block = json!({"type": "tool_use", "id": id, "name": name, "input": input});
    json!({"type": "assistant", "message": {"role": "assistant", "content": [block]}})
}

/// A piece of thinking.
pub fn thinking(piece: &str) -> Json {
    json!({"type": "thinking", "text": piece})
}

/// The end of thinking.
pub fn thought(duration_ms: u64) -> Json {
    json!({"type": "thinking", "text": "", "thinking_duration_ms": duration_ms})
}

pub fn running(id: &str, name: &str, args: Json) -> Json {
    json!({"type": "tool_call", "call_id": id, "name": name, "status": "running", "args": args})
}

pub fn completed(id: &str, name: &str, args: Json, value: Json) -> Json {
    let result = json!({"status": "success", "value": value});
    json!({"type": "tool_call", "call_id": id, "name": name, "status": "completed", "args": args, "result": result})
}

pub fn failed(id: &str, name: &str, args: Json, error: Json) -> Json {
    let result = json!({"status": "error", "error": error});
    json!({"type": "tool_call", "call_id": id, "name": name, "status": "error", "args": args, "result": result})
}

pub fn system(model: &str, tools: &[&str]) -> Json {
    json!({"type": "system", "subtype": "init", "model": {"id": model}, "tools": tools})
}

pub fn status(status: &str, message: Option<&str>) -> Json {
    match message {
        Some(message) => json!({"type": "status", "status": status, "message": message}),
        None => json!({"type": "status", "status": status}),
    }
}

pub fn request(id: &str) -> Json {
    json!({"type": "request", "request_id": id})
}

pub fn task(status: &str, text: &str) -> Json {
    json!({"type": "task", "status": status, "text": text})
}

pub fn usage(usage: Json) -> Json {
    json!({"type": "usage", "usage": usage})
}

/// Token counts as the SDK writes them.
pub fn tokens(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Json {
    json!({
        "inputTokens": input, "outputTokens": output, "cacheReadTokens": cache_read, "cacheWriteTokens": cache_write,
        "totalTokens": input + output + cache_read + cache_write,
    })
}

/// The last two events of a run.
pub fn ending(status: &str, error: Option<&str>) -> [super::Event; 2] {
    let mut result = json!({"schemaVersion": 1, "type": "result", "status": status});
    if let Some(error) = error {
        result["errorCode"] = error.into();
    }
    [
        super::Event::payload(result),
        super::Event::payload(json!({"schemaVersion": 1, "type": "done"})),
    ]
}

/// A prompt in a checkpoint.
pub fn checkpoint_prompt(text: &str) -> Json {
    json!({"role": "user", "content": [{"type": "text", "text": format!("<user_query>\n{text}\n</user_query>")}]})
}

/// An answer in a checkpoint.
pub fn checkpoint_answer(text: &str) -> Json {
    json!({"role": "assistant", "id": "1", "content": [{"type": "text", "text": text}]})
}
