//! Files below `projects/<slug>/agent-transcripts`; `cursor_stores::transcript` reads them.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

/// One directory below `projects`.
pub struct TranscriptProject {
    path: PathBuf,
}

/// The path and the form of a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout<'a> {
    /// `<id>/<id>.jsonl`, the current layout.
    Nested,
    /// `<parent>/subagents/<id>.jsonl`.
    Subagent { parent: &'a str },
    /// `<id>.jsonl`, older.
    Flat,
    /// `<id>.txt`, oldest.
    Text,
}

/// One line of a transcript, or its counterpart in the text form.
#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    /// A prompt as Cursor wraps it, with the time as Cursor writes it for humans.
    Prompt {
        at: Option<String>,
        query: String,
    },
    /// A user message with these blocks.
    User(Vec<Block>),
    /// A user message that is one string.
    UserString(String),
    Assistant(Vec<Block>),
    /// An assistant message that is one string.
    AssistantString(String),
    TurnEnded {
        status: String,
        error: Option<String>,
    },
    Error(String),
    /// Any other line, unchanged.
    Raw(String),
}

/// One block of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    Text(String),
    Thinking(String),
    ToolUse {
        name: String,
        input: Json,
    },
    /// Only in the text form: JSONL keeps no results.
    ToolResult {
        name: String,
        output: String,
    },
    /// Any other block, unchanged. Not in the text form.
    Raw(Json),
}

impl TranscriptProject {
    /// Creates `<projects>/<slug>`.
    pub fn new(projects: &Path, slug: &str) -> Self {
        let path = projects.join(slug);
        fs::create_dir_all(&path).unwrap();
        Self { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes `.workspace-trusted`.
    pub fn trust(&self, workspace: &str) {
        let marker = json!({
            "trustedAt": "2026-07-21T13:04:00.000Z",
            "workspacePath": workspace,
            "trustMethod": "cli-flag",
        });
        fs::write(self.path.join(".workspace-trusted"), marker.to_string()).unwrap();
    }

    /// Writes a `worker.log` that names the workspace.
    pub fn worker_log(&self, workspace: &str) {
        let log = format!(
            "[info] started\n[info] Getting tree structure for workspacePath={workspace}\n"
        );
        fs::write(self.path.join("worker.log"), log).unwrap();
    }

    /// Writes a transcript, and returns its path.
    pub fn transcript(&self, layout: Layout<'_>, id: &str, lines: &[Line]) -> PathBuf {
        let path = self.transcript_path(layout, id);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let content = if layout == Layout::Text { as_text(lines) } else { as_jsonl(lines) };
        fs::write(&path, content).unwrap();
        path
    }

    /// Returns the path of a transcript.
    pub fn transcript_path(&self, layout: Layout<'_>, id: &str) -> PathBuf {
        let transcripts = self.path.join("agent-transcripts");
        match layout {
            Layout::Nested => transcripts.join(id).join(format!("{id}.jsonl")),
            Layout::Subagent { parent } => {
                transcripts.join(parent).join("subagents").join(format!("{id}.jsonl"))
            }
            Layout::Flat => transcripts.join(format!("{id}.jsonl")),
            Layout::Text => transcripts.join(format!("{id}.txt")),
        }
    }

    /// Writes a tool's output that was too long for the conversation, and returns its path.
    pub fn tool_output(&self, name: &str, output: &str) -> PathBuf {
        let path = self.path.join("agent-tools").join(format!("{name}.txt"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, output).unwrap();
        path
    }
}

/// A prompt with its time.
pub fn prompt(at: &str, query: impl Into<String>) -> Line {
    Line::Prompt { at: Some(at.to_owned()), query: query.into() }
}

/// The end of a successful turn.
pub fn turn_succeeded() -> Line {
    Line::TurnEnded { status: "success".to_owned(), error: None }
}

/// A transcript with every known shape of line. `word` gives the text for each field.
pub fn every_line(word: &mut dyn FnMut(&str) -> String) -> Vec<Line> {
    let at = "Tuesday, Jul 21, 2026, 3:04 PM (UTC+2)";
    vec![
        Line::User(vec![Block::Text(format!("<user_info>\n{}\n</user_info>", word("user_info")))]),
        prompt(at, word("user_query")),
        Line::Assistant(vec![
            Block::Thinking(word("thinking")),
            Block::Text(format!("{} [REDACTED]", word("assistant text"))),
            Block::ToolUse {
                name: "Shell".to_owned(),
                input: json!({"command": word("tool input"), "nested": {"list": [word("nested tool input")]}}),
            },
            Block::Raw(json!({"type": "block_of_tomorrow", "body": word("unknown block")})),
        ]),
        Line::AssistantString(word("assistant string")),
        turn_succeeded(),
        Line::UserString(word("user string")),
        Line::Error(word("error line")),
        Line::TurnEnded { status: "aborted".to_owned(), error: Some(word("turn error")) },
        Line::Raw(json!({"type": "line_of_tomorrow", "body": word("unknown line")}).to_string()),
    ]
}

/// Writes lines as JSONL, with a line feed after each.
pub fn as_jsonl(lines: &[Line]) -> String {
    lines.iter().fold(String::new(), |mut text, line| {
        text.push_str(&json_line(line));
        text.push('\n');
        text
    })
}

fn json_line(line: &Line) -> String {
    let message =
        |role: &str, content: Json| json!({"role": role, "message": {"content": content}});
    let blocks = |blocks: &[Block]| Json::Array(blocks.iter().map(json_block).collect());
    let value = match line {
        Line::Prompt { at, query } => {
            let text = wrapped(at.as_deref(), query);
            message("user", json!([{"type": "text", "text": text}]))
        }
        Line::User(content) => message("user", blocks(content)),
        Line::UserString(text) => message("user", json!(text)),
        Line::Assistant(content) => message("assistant", blocks(content)),
        Line::AssistantString(text) => message("assistant", json!(text)),
        Line::TurnEnded { status, error: None } => json!({"type": "turn_ended", "status": status}),
        Line::TurnEnded { status, error: Some(error) } => {
            json!({"type": "turn_ended", "status": status, "error": error})
        }
        Line::Error(error) => json!({"type": "error", "error": error}),
        Line::Raw(text) => return text.clone(),
    };
    value.to_string()
}

fn json_block(block: &Block) -> Json {
    match block {
        Block::Text(text) => json!({"type": "text", "text": text}),
        Block::Thinking(text) => json!({"type": "thinking", "thinking": text}),
        Block::ToolUse { name, input } => json!({"type": "tool_use", "name": name, "input": input}),
        Block::ToolResult { name, output } => {
            json!({"type": "tool_result", "name": name, "content": output})
        }
        Block::Raw(value) => value.clone(),
    }
}

fn wrapped(at: Option<&str>, query: &str) -> String {
    let time = at.map(|at| format!("<timestamp>{at}</timestamp>\n")).unwrap_or_default();
    format!("{time}<user_query>\n{query}\n</user_query>")
}

/// Writes lines in the older text form. It has no mark for the end of a turn.
pub fn as_text(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        match line {
            Line::Prompt { at, query } => {
                write!(text, "user:\n{}\n\n", wrapped(at.as_deref(), query)).unwrap();
            }
            Line::User(blocks) => write!(text, "user:\n{}\n", text_blocks(blocks)).unwrap(),
            Line::UserString(said) => write!(text, "user:\n{said}\n\n").unwrap(),
            Line::Assistant(blocks) => {
                write!(text, "assistant:\n{}\n", text_blocks(blocks)).unwrap()
            }
            Line::AssistantString(said) => write!(text, "assistant:\n{said}\n\n").unwrap(),
            Line::TurnEnded { .. } | Line::Error(_) => {}
            Line::Raw(raw) => writeln!(text, "{raw}").unwrap(),
        }
    }
    text
}

fn text_blocks(blocks: &[Block]) -> String {
    let mut text = String::new();
    for block in blocks {
        match block {
            Block::Text(said) => writeln!(text, "{said}").unwrap(),
            // Only an empty line ends a thought.
            Block::Thinking(thought) => write!(text, "[Thinking] {thought}\n\n").unwrap(),
            Block::ToolUse { name, input } => {
                writeln!(text, "[Tool call] {name}").unwrap();
                for (key, value) in input.as_object().into_iter().flatten() {
                    match value {
                        Json::String(value) => writeln!(text, "  {key}: {value}").unwrap(),
                        value => writeln!(text, "  {key}: {value}").unwrap(),
                    }
                }
            }
            Block::ToolResult { name, output } => {
                write!(text, "\n[Tool result] {name}\n{output}\n").unwrap();
            }
            Block::Raw(_) => {}
        }
    }
    text
}
