//! The transcript next to the store: one line per message, for people and for tools that do not read SQLite.
//!
//! It has no tool results, no reasoning and no times.

use std::fs::{self, File};
use std::io::{self, Write};

use cursor_home::{CursorRoots, WorkspacePath};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::session_store::ToolCallRecord;

/// The transcript of a session, open for the lines of one turn.
pub(crate) struct Transcript {
    file: File,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TurnEnding {
    Success,
    Aborted { error: String },
}

impl Transcript {
    /// Rewrites the whole file from the messages so far. A resume does not append either.
    pub(crate) fn rewrite(
        roots: &CursorRoots,
        workspace: &WorkspacePath,
        session_id: Uuid,
        messages: &[Value],
    ) -> io::Result<Self> {
        let path = roots.project_dir(workspace).transcript(session_id);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let mut transcript = Self { file: File::create(path)? };
        for line in messages.iter().filter_map(line_of) {
            transcript.write(&line)?;
        }
        Ok(transcript)
    }

    /// Appends the text and the tool calls of the model. An empty answer has no line.
    pub(crate) fn assistant(
        &mut self,
        text: Option<&str>,
        calls: &[ToolCallRecord],
    ) -> io::Result<()> {
        let text = text.map(text_part);
        let calls = calls.iter().map(|call| tool_use_part(&call.tool_name, &call.model_args));
        match line("assistant", text.into_iter().chain(calls).collect()) {
            Some(line) => self.write(&line),
            None => Ok(()),
        }
    }

    /// Appends the last line, which marks the session as idle.
    pub(crate) fn end(mut self, ending: &TurnEnding) -> io::Result<()> {
        self.write(&match ending {
            TurnEnding::Success => json!({ "type": "turn_ended", "status": "success" }),
            TurnEnding::Aborted { error } => {
                json!({ "type": "turn_ended", "status": "aborted", "error": error })
            }
        })
    }

    /// Writes each line in one write, so that a reader never sees half a line.
    fn write(&mut self, line: &Value) -> io::Result<()> {
        self.file.write_all(format!("{line}\n").as_bytes())
    }
}

/// Returns the line for a prompt message. Tool results have none.
fn line_of(message: &Value) -> Option<Value> {
    let role = message
        .get("role")
        .and_then(Value::as_str)
        .filter(|role| matches!(*role, "user" | "assistant"))?;
    let content = match message.get("content") {
        Some(Value::String(text)) => vec![text_part(text)],
        Some(Value::Array(parts)) => parts.iter().filter_map(shown_part).collect(),
        _ => Vec::new(),
    };
    line(role, content)
}

fn shown_part(part: &Value) -> Option<Value> {
    match part.get("type")?.as_str()? {
        "text" => Some(text_part(part.get("text")?.as_str()?)),
        "tool-call" => Some(tool_use_part(part.get("toolName")?.as_str()?, part.get("args")?)),
        _ => None,
    }
}

fn line(role: &str, content: Vec<Value>) -> Option<Value> {
    (!content.is_empty()).then(|| json!({ "role": role, "message": { "content": content } }))
}

fn text_part(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn tool_use_part(name: &str, input: &Value) -> Value {
    json!({ "type": "tool_use", "name": name, "input": input })
}

#[cfg(test)]
#[path = "transcript_tests.rs"]
mod tests;
