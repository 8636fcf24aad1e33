//! Prints messages one after the other.

use std::io::{self, Write};

use admission::words::safe_text::{on_lines, on_one_line};
use admission::words::units;
use cursor_stores::model::{Confidence, Message, MessageKind, Part, Role, display_model};

use super::markdown_lines::write_markdown;
use super::tool_call_view::{write_call, write_result};
use crate::view::changes::diff_view::print_hunks;
use crate::view::fact_rows::moment;
use crate::view::styled_line::{BAD, BOLD, DIM, ODD};

/// A folded diff shows at most this many lines.
const FOLDED_DIFF_LINES: usize = 12;

/// How much of long texts to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Folding {
    /// The beginning of each output and thought; context on one line.
    Folded,
    /// Everything.
    Open,
}

/// Prints messages, with a line between different speakers.
#[derive(Debug)]
pub(crate) struct MessageView {
    folding: Folding,
    last_speaker: Option<Speaker>,
}

/// The speaker, the turn and the model. A change of any of them gets a new heading.
#[derive(Debug, PartialEq, Eq)]
struct Speaker {
    role: Role,
    kind: MessageKind,
    turn: Option<usize>,
    model: Option<String>,
}

impl MessageView {
    pub(crate) fn new(folding: Folding) -> Self {
        Self { folding, last_speaker: None }
    }

    /// Tells the view that other output came in between, so that it names the next speaker again.
    pub(crate) fn interrupt(&mut self) {
        self.last_speaker = None;
    }

    pub(crate) fn print(&mut self, out: &mut dyn Write, message: &Message) -> io::Result<()> {
        let is_folded_away = self.folding == Folding::Folded
            && (message.kind == MessageKind::Context || message.role == Role::System);
        if is_folded_away {
            let n_bytes: usize = message.parts.iter().map(length).sum();
            let what = if message.role == Role::System { "system prompt" } else { "context" };
            self.last_speaker = None;
            return writeln!(out, "\n{DIM}── {what} ({}) ──{DIM:#}", units::bytes(n_bytes as u64));
        }
        self.print_speaker(out, message)?;
        message.parts.iter().try_for_each(|part| self.print_part(out, part))
    }

    fn print_speaker(&mut self, out: &mut dyn Write, message: &Message) -> io::Result<()> {
        let Message { role, kind, turn, ref model, .. } = *message;
        let speaker = Some(Speaker { role, kind, turn, model: model.clone() });
        // An agent that continues after its tools needs no new heading.
        if self.last_speaker == speaker && role == Role::Assistant {
            return Ok(());
        }
        self.last_speaker = speaker;
        let who = match message.role {
            Role::User => "you",
            Role::Assistant => "agent",
            Role::System => "system prompt",
            Role::Tool => "tool",
            Role::Unknown => "unknown role",
        };
        let kind = match message.kind {
            MessageKind::Said => "",
            MessageKind::Context => " · context",
            MessageKind::Summary => " · summary of earlier messages",
            MessageKind::Simulated => " · written by Cursor",
            MessageKind::Pending => " · not committed",
            MessageKind::Orphan => " · abandoned branch",
        };
        let at = message.at.map_or_else(String::new, |at| {
            let about = if at.confidence == Confidence::Recorded { "" } else { "~" };
            format!(" · {about}{}", moment(at.at_ms))
        });
        let model = message
            .model
            .as_ref()
            .map_or_else(String::new, |model| format!(" · {}", on_one_line(&display_model(model))));
        writeln!(out, "\n{DIM}──{DIM:#} {BOLD}{who}{BOLD:#}{DIM}{kind}{model}{at} ──{DIM:#}")
    }

    fn print_part(&self, out: &mut dyn Write, part: &Part) -> io::Result<()> {
        match part {
            Part::Text { text } => write_markdown(out, text, ""),
            Part::Reasoning { text, duration_ms, is_redacted } => {
                self.print_thought(out, text, *duration_ms, *is_redacted)
            }
            Part::ToolCall(call) => write_call(out, call, self.folding),
            Part::ToolResult { tool_name, result, .. } => {
                let name = tool_name.as_deref().unwrap_or("a tool");
                writeln!(out, "  {DIM}· result of {} without its call{DIM:#}", on_one_line(name))?;
                write_result(out, result, self.folding)
            }
            Part::Image { media_type, path, n_bytes } => {
                let facts: Vec<String> =
                    [media_type.clone(), path.clone(), n_bytes.map(units::bytes)]
                        .into_iter()
                        .flatten()
                        .collect();
                writeln!(out, "  {DIM}[image {}]{DIM:#}", on_one_line(&facts.join(", ")))
            }
            Part::Attachment { kind, name, text } => {
                let name = name.as_deref().unwrap_or_default();
                let n_bytes = text.as_ref().map_or(0, String::len);
                let size = if n_bytes > 0 {
                    format!(" ({})", units::bytes(n_bytes as u64))
                } else {
                    String::new()
                };
                writeln!(out, "  {DIM}[{} {}{size}]{DIM:#}", on_one_line(kind), on_one_line(name))?;
                match (self.folding, text) {
                    (Folding::Open, Some(text)) => write_quoted(out, text),
                    _ => Ok(()),
                }
            }
            Part::Code { language, path, text } => {
                let is_diff = language.as_deref() == Some("diff");
                let title = path.as_deref().or(language.as_deref()).unwrap_or("code");
                let kind = if is_diff && path.is_some() { " · diff" } else { "" };
                writeln!(out, "  {DIM}[{}{kind}]{DIM:#}", on_one_line(title))?;
                let most_lines = match self.folding {
                    Folding::Folded => FOLDED_DIFF_LINES,
                    Folding::Open => usize::MAX,
                };
                match is_diff {
                    true => print_hunks(out, text, "    ", most_lines),
                    false => write_quoted(out, text),
                }
            }
            Part::Todos { todos } => todos.iter().try_for_each(|todo| {
                writeln!(out, "  {DIM}todo: {}{DIM:#}", on_one_line(&todo.text))
            }),
            Part::Error { text } => writeln!(out, "  {BAD}{}{BAD:#}", on_lines(text)),
            Part::Unknown { kind, value } => {
                let kind = if kind.is_empty() { "(no name)" } else { kind };
                writeln!(out, "  {ODD}[{}: unknown kind]{ODD:#}", on_one_line(kind))?;
                match self.folding {
                    Folding::Open => write_quoted(out, &value.to_string()),
                    Folding::Folded => Ok(()),
                }
            }
        }
    }

    fn print_thought(
        &self,
        out: &mut dyn Write,
        text: &str,
        duration_ms: Option<u64>,
        is_redacted: bool,
    ) -> io::Result<()> {
        let took =
            duration_ms.map_or_else(String::new, |took| format!(" for {}", units::duration(took)));
        if text.trim().is_empty() {
            let why = if is_redacted { "thought, redacted" } else { "thought" };
            return writeln!(out, "  {DIM}({why}{took}){DIM:#}");
        }
        let text = on_lines(text.trim());
        let n_lines = text.lines().count();
        let shown = match self.folding {
            Folding::Open => n_lines,
            Folding::Folded => 1,
        };
        for line in text.lines().take(shown) {
            writeln!(out, "  {DIM}{line}{DIM:#}")?;
        }
        let more = match n_lines - shown {
            0 => String::new(),
            n => format!(" · {}", units::counted(n as u64, "more line", "more lines")),
        };
        if !more.is_empty() || !took.is_empty() {
            writeln!(out, "  {DIM}(thought{took}{more}){DIM:#}")?;
        }
        Ok(())
    }
}

fn write_quoted(out: &mut dyn Write, text: &str) -> io::Result<()> {
    on_lines(text.trim_matches('\n'))
        .lines()
        .try_for_each(|line| writeln!(out, "    {DIM}│ {line}{DIM:#}"))
}

fn length(part: &Part) -> usize {
    match part {
        Part::Text { text } | Part::Code { text, .. } | Part::Reasoning { text, .. } => text.len(),
        Part::Attachment { text: Some(text), .. } => text.len(),
        _ => 0,
    }
}
