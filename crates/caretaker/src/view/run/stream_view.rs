//! Prints an agent's stream: plain text, tool calls with outcome and time, dimmed thinking.

use std::io::{self, Write};

use admission::words::safe_text::{on_lines, on_one_line};
use admission::words::units;
use agent_stream::{EventKind, OutcomeClass, QueryAnswer, ResultEvent, StreamLine, ToolCall};
use cursor_stores::model::display_model;

use super::{summary_view, tool_line};
use crate::view::styled_line::{BAD, BOLD, DIM, GOOD, ODD, PLAIN, Pieces, write_line};
use crate::view::width::{Width, columns, fitted};

/// Shows at most this many lines of a prompt.
const PROMPT_LINES: usize = 20;
/// In less space than this, a command is unreadable.
const LEAST_SUBJECT: usize = 12;

/// Shows events one by one.
#[derive(Debug)]
pub(crate) struct StreamView {
    /// The kind of text on the unfinished line.
    open_line: OpenLine,
    width: Width,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenLine {
    None,
    Text,
    Thinking,
}

impl StreamView {
    pub(crate) fn new(width: Width) -> Self {
        Self { open_line: OpenLine::None, width }
    }

    /// Sets the terminal's new width.
    pub(crate) fn resize(&mut self, width: Width) {
        self.width = width;
    }

    /// Shows one event. `text` is the part of the answer that the event adds.
    pub(crate) fn show(
        &mut self,
        out: &mut dyn Write,
        line: &StreamLine<'_>,
        text: &str,
    ) -> io::Result<()> {
        let event = &line.event;
        if !text.is_empty() {
            self.show_text(out, text)?;
        }
        match &event.kind {
            EventKind::Init { model, cwd, .. } => {
                let session = event.session_id.as_deref().unwrap_or("(no session id)");
                let session = format!("session {}", on_one_line(session));
                let place = format!(
                    " · {} · {}",
                    on_one_line(
                        &model.as_deref().map_or("unknown model".to_owned(), display_model)
                    ),
                    on_one_line(cwd.as_deref().unwrap_or("unknown directory")),
                );
                self.line(out, &[(BOLD, &session), (DIM, &place)])
            }
            EventKind::User { text } => self.show_prompt(out, text),
            EventKind::ThinkingDelta { text } => self.show_thinking(out, text),
            EventKind::ToolStarted(call) => self.show_started(out, call),
            EventKind::ToolCompleted(call) => {
                let started_ms = line.started.and_then(|started| started.started_ms);
                let elapsed = event.timestamp_ms.zip(started_ms);
                self.show_completed(
                    out,
                    call,
                    elapsed.and_then(|(end, start)| end.checked_sub(start)),
                )
            }
            EventKind::QueryRequest(query) => {
                let query = query.query_type.as_deref().unwrap_or("a question");
                self.odd(out, &format!("? {}", on_one_line(query)))
            }
            EventKind::QueryResponse(query) => {
                let answer = match &query.answer {
                    Some(QueryAnswer::Approved) => "approved".to_owned(),
                    Some(QueryAnswer::Rejected { reason: Some(reason) }) => {
                        format!("rejected: {}", on_one_line(reason))
                    }
                    Some(QueryAnswer::Rejected { reason: None }) => "rejected".to_owned(),
                    Some(QueryAnswer::Other) | None => "answered".to_owned(),
                };
                self.odd(out, &format!("  {answer}"))
            }
            EventKind::Reconnecting { attempt, .. } => {
                let attempt =
                    attempt.map_or(String::new(), |attempt| format!(" (attempt {attempt})"));
                self.odd(out, &format!("… connection lost, reconnecting{attempt}"))
            }
            EventKind::Reconnected => self.odd(out, "… reconnected"),
            EventKind::Retry { attempt, .. } => {
                let attempt = attempt.map_or(String::new(), |attempt| format!(" {attempt}"));
                self.odd(out, &format!("… retry{attempt}"))
            }
            EventKind::TaskNotification { .. } => {
                self.line(out, &[(DIM, "· message from a background task")])
            }
            EventKind::BackgroundShellTimeout { aborted_count, .. } => {
                let shells = units::counted(
                    aborted_count.unwrap_or(1),
                    "background shell was",
                    "background shells were",
                );
                self.odd(out, &format!("· {shells} ended with the run"))
            }
            EventKind::Result(result) => self.show_result(out, result),
            EventKind::Error { message, .. } => {
                let message = on_one_line(message.as_deref().unwrap_or("(no message)"));
                self.line(out, &[(BAD, &format!("✗ error: {message}"))])
            }
            EventKind::Unknown { kind, subtype, .. } => {
                let kind = kind.as_deref().unwrap_or("(no type)");
                let name = match subtype {
                    Some(subtype) => format!("{kind}/{subtype}"),
                    None => kind.to_owned(),
                };
                self.odd(out, &format!("· unknown event {}", on_one_line(&name)))
            }
            EventKind::Noise { text, .. } => self.odd(out, &format!("· {}", on_one_line(text))),
            EventKind::Oversized(oversized) => {
                let kind = on_one_line(oversized.kind.as_deref().unwrap_or("unknown"));
                let length = units::grouped(oversized.length);
                self.odd(out, &format!("· line cut, {length} bytes: {kind}"))
            }
            EventKind::Assistant { .. } | EventKind::ThinkingCompleted | EventKind::Blank => Ok(()),
        }
    }

    /// Ends a line that is still open.
    pub(crate) fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match std::mem::replace(&mut self.open_line, OpenLine::None) {
            OpenLine::None => Ok(()),
            OpenLine::Text => writeln!(out),
            OpenLine::Thinking => writeln!(out, "{DIM:#}"),
        }
    }

    /// Writes a separate line.
    pub(crate) fn line(&mut self, out: &mut dyn Write, pieces: Pieces<'_>) -> io::Result<()> {
        self.end(out)?;
        write_line(out, pieces, self.width)
    }

    fn odd(&mut self, out: &mut dyn Write, text: &str) -> io::Result<()> {
        self.line(out, &[(ODD, text)])
    }

    pub(crate) fn show_text(&mut self, out: &mut dyn Write, text: &str) -> io::Result<()> {
        if self.open_line == OpenLine::Thinking {
            self.end(out)?;
        }
        write!(out, "{}", on_lines(text))?;
        self.open_line = if text.ends_with('\n') { OpenLine::None } else { OpenLine::Text };
        Ok(())
    }

    fn show_thinking(&mut self, out: &mut dyn Write, text: &str) -> io::Result<()> {
        if self.open_line != OpenLine::Thinking {
            self.end(out)?;
            write!(out, "{DIM}")?;
            self.open_line = OpenLine::Thinking;
        }
        write!(out, "{}", on_lines(text))
    }

    /// Shows only the beginning of the prompt: users know what they asked.
    fn show_prompt(&mut self, out: &mut dyn Write, text: &str) -> io::Result<()> {
        let text = on_lines(text);
        for line in text.lines().take(PROMPT_LINES) {
            self.line(out, &[(BOLD, &format!("> {line}"))])?;
        }
        match text.lines().count().saturating_sub(PROMPT_LINES) {
            0 => Ok(()),
            more => {
                let more = units::counted(more as u64, "more line", "more lines");
                self.line(out, &[(DIM, &format!("> … {more}"))])
            }
        }
    }

    fn show_started(&mut self, out: &mut dyn Write, call: &ToolCall<'_>) -> io::Result<()> {
        let name = call.name_or_unnamed();
        let subject = tool_line::subject(name, call.args, call.description.as_deref());
        let started = format!("→ {} {subject}", on_one_line(name));
        self.line(out, &[(DIM, started.trim_end())])
    }

    fn show_completed(
        &mut self,
        out: &mut dyn Write,
        call: &ToolCall<'_>,
        elapsed_ms: Option<u64>,
    ) -> io::Result<()> {
        let name = call.name_or_unnamed();
        let (style, mark) = match call.outcome.as_ref().map(|outcome| outcome.kind.class()) {
            Some(OutcomeClass::Good) => (GOOD, "✓"),
            Some(OutcomeClass::Bad) => (BAD, "✗"),
            Some(OutcomeClass::Refused) => (BAD, "⊘"),
            Some(OutcomeClass::Neutral) | None => (ODD, "•"),
        };
        let mut facts = Vec::new();
        if let Some(outcome) = &call.outcome {
            facts.push(tool_line::detail(name, outcome));
        }
        facts.extend(elapsed_ms.map(units::duration));
        let facts: String =
            facts.iter().filter(|fact| !fact.is_empty()).map(|fact| format!(" · {fact}")).collect();
        let head = format!("{mark} {}", on_one_line(name));
        // The outcome and the time matter more than the end of a long command.
        let room = self.width.minus(columns(&head) + columns(&facts) + 1).at_least(LEAST_SUBJECT);
        let subject = tool_line::subject(name, call.args, call.description.as_deref());
        let subject = match fitted(&subject, room).as_str() {
            "" => String::new(),
            subject => format!(" {subject}"),
        };
        self.line(out, &[(style, &head), (PLAIN, &subject), (DIM, &facts)])
    }

    fn show_result(&mut self, out: &mut dyn Write, result: &ResultEvent<'_>) -> io::Result<()> {
        let (style, verdict) = match result.is_error {
            Some(true) => (BAD, "✗ failed"),
            _ => (GOOD, "✓ done"),
        };
        let mut facts = Vec::new();
        facts.extend(result.duration_ms.map(units::duration));
        facts.extend(result.usage.as_ref().map(summary_view::usage));
        let facts: String = facts.iter().map(|fact| format!(" · {fact}")).collect();
        self.line(out, &[(style, verdict), (DIM, &facts)])
    }
}

#[cfg(test)]
#[path = "stream_view_tests.rs"]
mod tests;
