//! A stream for a person: text as text, tool calls with outcome and time, thinking dimmed.

use std::io::{self, Write};

use agent_stream::{EventKind, OutcomeClass, QueryAnswer, ResultEvent, StreamLine, ToolCall};
use anstyle::{AnsiColor, Style};

use super::safe_text::{on_lines, on_one_line};
use super::{summary_view, tool_line, units};

const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const ODD: Style = AnsiColor::Yellow.on_default();

/// Shows events one after the other.
#[derive(Debug)]
pub(crate) struct StreamView {
    /// What the cursor stands behind.
    open_line: OpenLine,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenLine {
    None,
    Text,
    Thinking,
}

impl StreamView {
    pub(crate) fn new() -> Self {
        Self { open_line: OpenLine::None }
    }

    /// Shows one event; `text` is what it adds to the answer.
    pub(crate) fn show(
        &mut self,
        out: &mut impl Write,
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
                self.line(
                    out,
                    format_args!(
                        "{BOLD}session {}{BOLD:#}{DIM} · {} · {}{DIM:#}",
                        on_one_line(session),
                        on_one_line(model.as_deref().unwrap_or("model not named")),
                        on_one_line(cwd.as_deref().unwrap_or("directory not named")),
                    ),
                )
            }
            EventKind::User { text } => {
                self.end(out)?;
                for line in on_lines(text).lines() {
                    writeln!(out, "{BOLD}> {line}{BOLD:#}")?;
                }
                Ok(())
            }
            EventKind::ThinkingDelta { text } => self.show_thinking(out, text),
            EventKind::ToolStarted(call) => {
                let name = call.name_or_unnamed();
                let subject = tool_line::subject(name, call.args, call.description.as_deref());
                self.line(out, format_args!("{DIM}→ {} {subject}{DIM:#}", on_one_line(name)))
            }
            EventKind::ToolCompleted(call) => {
                let started_ms = line.started.and_then(|started| started.started_ms);
                let elapsed = event.timestamp_ms.zip(started_ms);
                self.show_completed(
                    out,
                    call,
                    elapsed.and_then(|(end, start)| end.checked_sub(start)),
                )
            }
            EventKind::QueryRequest(query) => self.line(
                out,
                format_args!(
                    "{ODD}? {}{ODD:#}",
                    on_one_line(query.query_type.as_deref().unwrap_or("a question"))
                ),
            ),
            EventKind::QueryResponse(query) => {
                let answer = match &query.answer {
                    Some(QueryAnswer::Approved) => "approved".to_owned(),
                    Some(QueryAnswer::Rejected { reason: Some(reason) }) => {
                        format!("rejected: {}", on_one_line(reason))
                    }
                    Some(QueryAnswer::Rejected { reason: None }) => "rejected".to_owned(),
                    Some(QueryAnswer::Other) | None => "answered".to_owned(),
                };
                self.line(out, format_args!("{ODD}  {answer}{ODD:#}"))
            }
            EventKind::Reconnecting { attempt, .. } => {
                let attempt =
                    attempt.map_or(String::new(), |attempt| format!(" (attempt {attempt})"));
                self.line(out, format_args!("{ODD}… connection lost, reconnecting{attempt}{ODD:#}"))
            }
            EventKind::Reconnected => self.line(out, format_args!("{ODD}… reconnected{ODD:#}")),
            EventKind::Retry { attempt, .. } => {
                let attempt = attempt.map_or(String::new(), |attempt| format!(" {attempt}"));
                self.line(out, format_args!("{ODD}… retry{attempt}{ODD:#}"))
            }
            EventKind::TaskNotification { .. } => {
                self.line(out, format_args!("{DIM}· a background task reports{DIM:#}"))
            }
            EventKind::BackgroundShellTimeout { aborted_count, .. } => self.line(
                out,
                format_args!(
                    "{ODD}· {} ended with the run{ODD:#}",
                    units::counted(
                        aborted_count.unwrap_or(1),
                        "background shell was",
                        "background shells were"
                    )
                ),
            ),
            EventKind::Result(result) => self.show_result(out, result),
            EventKind::Error { message, .. } => self.line(
                out,
                format_args!(
                    "{BAD}✗ error: {}{BAD:#}",
                    on_one_line(message.as_deref().unwrap_or("without a message"))
                ),
            ),
            EventKind::Unknown { kind, subtype, .. } => self.line(
                out,
                format_args!(
                    "{ODD}· unknown event {}{}{}{ODD:#}",
                    on_one_line(kind.as_deref().unwrap_or("without a type")),
                    if subtype.is_some() { "/" } else { "" },
                    on_one_line(subtype.as_deref().unwrap_or_default()),
                ),
            ),
            EventKind::Noise { text, .. } => {
                self.line(out, format_args!("{ODD}· {}{ODD:#}", on_one_line(text)))
            }
            EventKind::Oversized(oversized) => self.line(
                out,
                format_args!(
                    "{ODD}· a line of {} bytes was cut: {}{ODD:#}",
                    units::grouped(oversized.length),
                    on_one_line(oversized.kind.as_deref().unwrap_or("unknown"))
                ),
            ),
            EventKind::Assistant { .. } | EventKind::ThinkingCompleted | EventKind::Blank => Ok(()),
        }
    }

    /// Ends a line that is still open.
    pub(crate) fn end(&mut self, out: &mut impl Write) -> io::Result<()> {
        match std::mem::replace(&mut self.open_line, OpenLine::None) {
            OpenLine::None => Ok(()),
            OpenLine::Text => writeln!(out),
            OpenLine::Thinking => writeln!(out, "{DIM:#}"),
        }
    }

    fn line(&mut self, out: &mut impl Write, line: std::fmt::Arguments<'_>) -> io::Result<()> {
        self.end(out)?;
        writeln!(out, "{line}")
    }

    fn show_text(&mut self, out: &mut impl Write, text: &str) -> io::Result<()> {
        if self.open_line == OpenLine::Thinking {
            self.end(out)?;
        }
        write!(out, "{}", on_lines(text))?;
        self.open_line = if text.ends_with('\n') { OpenLine::None } else { OpenLine::Text };
        Ok(())
    }

    fn show_thinking(&mut self, out: &mut impl Write, text: &str) -> io::Result<()> {
        if self.open_line != OpenLine::Thinking {
            self.end(out)?;
            write!(out, "{DIM}")?;
            self.open_line = OpenLine::Thinking;
        }
        write!(out, "{}", on_lines(text))
    }

    fn show_completed(
        &mut self,
        out: &mut impl Write,
        call: &ToolCall<'_>,
        elapsed_ms: Option<u64>,
    ) -> io::Result<()> {
        let name = call.name_or_unnamed();
        let subject = tool_line::subject(name, call.args, call.description.as_deref());
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
        facts.retain(|fact| !fact.is_empty());
        let facts =
            if facts.is_empty() { String::new() } else { format!(" · {}", facts.join(" · ")) };
        self.line(
            out,
            format_args!(
                "{style}{mark} {}{style:#} {subject}{DIM}{facts}{DIM:#}",
                on_one_line(name)
            ),
        )
    }

    fn show_result(&mut self, out: &mut impl Write, result: &ResultEvent<'_>) -> io::Result<()> {
        let (style, mark, verdict) = match result.is_error {
            Some(true) => (BAD, "✗", "failed"),
            _ => (GOOD, "✓", "done"),
        };
        let mut facts = Vec::new();
        facts.extend(result.duration_ms.map(units::duration));
        facts.extend(result.usage.as_ref().map(summary_view::usage));
        let facts: String = facts.iter().map(|fact| format!(" · {fact}")).collect();
        self.line(out, format_args!("{style}{mark} {verdict}{style:#}{DIM}{facts}{DIM:#}"))
    }
}

#[cfg(test)]
#[path = "stream_view_tests.rs"]
mod tests;
