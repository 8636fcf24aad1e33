//! The lines of stream-json, with the same keys in the same order as in captures of the real agent.

use ground::now_ms;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::tools::{ArgsKept, Generation, InteractionQuery, PreparedCall, ToolRun};

/// Makes the events of one turn.
#[derive(Clone, Debug)]
pub struct EventWriter {
    pub session_id: String,
    pub request_id: String,
    pub generation: Generation,
}

/// When a segment of text is flushed. This decides the form of the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush<'a> {
    /// A piece of a segment, with `--stream-partial-output` only.
    Delta,
    BeforeToolCall {
        model_call_id: &'a str,
    },
    /// Looks exactly like a delta.
    BeforeQuery,
    Final,
}

/// A tool call in the stream.
#[derive(Clone, Debug)]
pub struct StreamedCall<'a> {
    pub call_id: &'a str,
    pub model_call_id: &'a str,
    pub prepared: &'a PreparedCall,
    pub started_at_ms: u64,
}

/// The total tokens of all model calls in the turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

impl EventWriter {
    pub fn init(&self, api_key_source: &str, workspace: &str, model: &str) -> Value {
        json!({
            "type": "system", "subtype": "init", "apiKeySource": api_key_source, "cwd": workspace,
            "session_id": self.session_id, "model": model, "permissionMode": "default",
        })
    }

    pub fn user(&self, text: &str) -> Value {
        json!({
            "type": "user", "message": message("user", text), "session_id": self.session_id,
        })
    }

    pub fn thinking_delta(&self, text: &str) -> Value {
        json!({
            "type": "thinking", "subtype": "delta", "text": text, "session_id": self.session_id,
            "timestamp_ms": now_ms(),
        })
    }

    pub fn thinking_completed(&self) -> Value {
        json!({
            "type": "thinking", "subtype": "completed", "session_id": self.session_id,
            "timestamp_ms": now_ms(),
        })
    }

    pub fn assistant(&self, text: &str, flush: Flush<'_>) -> Value {
        let mut event = json!({
            "type": "assistant", "message": message("assistant", text),
            "session_id": self.session_id,
        });
        if let Flush::BeforeToolCall { model_call_id } = flush {
            event["model_call_id"] = json!(model_call_id);
        }
        if flush != Flush::Final {
            event["timestamp_ms"] = json!(now_ms());
        }
        event
    }

    pub fn tool_started(&self, call: &StreamedCall<'_>) -> Value {
        let mut tool = json!({ "args": call.prepared.args });
        describe(&mut tool, call.prepared);
        self.tool_call("started", call, tool, None)
    }

    pub fn tool_completed(&self, call: &StreamedCall<'_>, run: &ToolRun) -> Value {
        let tool = match run.args_kept {
            ArgsKept::Kept => {
                let mut tool = json!({ "args": call.prepared.args, "result": run.result });
                describe(&mut tool, call.prepared);
                tool
            }
            ArgsKept::Dropped => json!({ "result": run.result }),
        };
        self.tool_call("completed", call, tool, Some(now_ms()))
    }

    fn tool_call(
        &self,
        subtype: &str,
        call: &StreamedCall<'_>,
        tool: Value,
        completed_at_ms: Option<u64>,
    ) -> Value {
        let mut tool_call = Map::new();
        tool_call.insert(call.prepared.key.to_owned(), tool);
        if self.generation == Generation::V2026_09 {
            tool_call.insert("hookAdditionalContexts".to_owned(), json!([]));
            tool_call.insert("toolCallId".to_owned(), json!(call.call_id));
            // In protobuf's JSON, 64-bit numbers are strings.
            tool_call.insert("startedAtMs".to_owned(), json!(call.started_at_ms.to_string()));
            if let Some(completed_at_ms) = completed_at_ms {
                tool_call.insert("completedAtMs".to_owned(), json!(completed_at_ms.to_string()));
            }
        }
        json!({
            "type": "tool_call", "subtype": subtype, "call_id": call.call_id,
            "tool_call": tool_call, "model_call_id": call.model_call_id,
            "session_id": self.session_id, "timestamp_ms": now_ms(),
        })
    }

    pub fn query_request(&self, query: &InteractionQuery, id: u64) -> Value {
        json!({
            "type": "interaction_query", "subtype": "request", "query_type": query.query_type,
            "query": { "id": id, query.query_type: query.request },
            "session_id": self.session_id, "timestamp_ms": now_ms(),
        })
    }

    pub fn query_response(&self, query: &InteractionQuery, id: u64) -> Value {
        json!({
            "type": "interaction_query", "subtype": "response", "query_type": query.query_type,
            "response": { "id": id, query.response_key: query.response },
            "session_id": self.session_id, "timestamp_ms": now_ms(),
        })
    }

    pub fn reconnecting(&self, attempt: u32, endpoint_url: &str) -> Value {
        json!({
            "type": "connection", "subtype": "reconnecting", "session_id": self.session_id,
            "timestamp_ms": now_ms(), "attempt": attempt, "endpoint_url": endpoint_url,
        })
    }

    pub fn reconnected(&self) -> Value {
        json!({
            "type": "connection", "subtype": "reconnected", "session_id": self.session_id,
            "timestamp_ms": now_ms(),
        })
    }

    /// No capture shows a retry with `is_resume: true`.
    pub fn retry_starting(&self, attempt: u32) -> Value {
        json!({
            "type": "retry", "subtype": "starting", "session_id": self.session_id,
            "timestamp_ms": now_ms(), "attempt": attempt, "is_resume": false,
        })
    }

    /// No capture shows the fields; a reader needs the id and the state of the task.
    pub fn task_notification(&self, task_id: &str, status: &str) -> Value {
        json!({
            "type": "system", "subtype": "task_notification", "session_id": self.session_id,
            "task_id": task_id, "status": status,
        })
    }

    pub fn background_shell_timeout(&self, aborted_count: usize, timeout_ms: u64) -> Value {
        json!({
            "type": "system", "subtype": "background_shell_timeout",
            "session_id": self.session_id, "aborted_count": aborted_count,
            "timeout_ms": timeout_ms,
        })
    }

    pub fn result(&self, text: &str, duration_ms: u64, usage: Usage) -> Value {
        let mut event = json!({
            "type": "result", "subtype": "success", "duration_ms": duration_ms,
            "duration_api_ms": duration_ms, "is_error": false, "result": text,
            "session_id": self.session_id, "request_id": self.request_id,
        });
        if self.generation == Generation::V2026_09 {
            event["usage"] = json!({
                "inputTokens": usage.input, "outputTokens": usage.output,
                "cacheReadTokens": usage.cache_read, "cacheWriteTokens": usage.cache_write,
            });
        }
        event
    }

    /// `<request id>-<n>-<four characters>`.
    pub fn model_call_id(&self, n_calls_before: u32) -> String {
        const ALPHABET: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
        format!("{}-{n_calls_before}-{}", self.request_id, random_text(ALPHABET, 4))
    }
}

/// A call id in the form of OpenAI's models: two ids with a newline between them.
pub fn new_call_id() -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    format!("call_{}\nfc_0{}", random_text(ALPHABET, 24), random_text(b"0123456789abcdef", 49))
}

fn random_text(alphabet: &[u8], length: usize) -> String {
    std::iter::repeat_with(|| Uuid::new_v4().into_bytes())
        .flatten()
        .map(|byte| char::from(alphabet[usize::from(byte) % alphabet.len()]))
        .take(length)
        .collect()
}

fn message(role: &str, text: &str) -> Value {
    json!({ "role": role, "content": [{ "type": "text", "text": text }] })
}

fn describe(tool: &mut Value, prepared: &PreparedCall) {
    if let Some(description) = &prepared.description {
        tool["description"] = json!(description);
    }
}

/// Cuts text into pieces as a model streams them: a word with the space before it, or punctuation.
pub fn tokens(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut last: Option<char> = None;
    for (at, character) in text.char_indices() {
        let joins = last.is_none_or(|last| {
            last.is_whitespace()
                || (last.is_alphanumeric() == character.is_alphanumeric()
                    && !character.is_whitespace())
        });
        if !joins {
            pieces.push(&text[start..at]);
            start = at;
        }
        last = Some(character);
    }
    if start < text.len() {
        pieces.push(&text[start..]);
    }
    pieces
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
