//! A tool call in a conversation: one line, and its output.

use std::io::{self, Write};

use admission::words::safe_text::{on_lines, on_one_line};
use admission::words::units;
use agent_stream::tool_subject;
use cursor_stores::model::{ToolCall, ToolResult, ToolState};
use serde_json::Value as Json;

use super::message_view::Folding;
use crate::view::styled_line::{BAD, BOLD, DIM, GOOD, ODD};

/// A folded call shows at most this many lines of output.
const FOLDED_LINES: usize = 3;

pub(super) fn write_call(out: &mut dyn Write, call: &ToolCall, folding: Folding) -> io::Result<()> {
    let (style, mark) = match call.state {
        ToolState::Succeeded => (GOOD, "✓"),
        ToolState::Failed => (BAD, "✗"),
        ToolState::Rejected => (ODD, "⊘"),
        ToolState::Cancelled => (ODD, "✗"),
        ToolState::Pending => (ODD, "◐"),
        ToolState::Unknown => (DIM, "·"),
    };
    let name = if call.name.is_empty() { "(unnamed tool)" } else { &call.name };
    write!(
        out,
        "  {style}{mark}{style:#} {BOLD}{}{BOLD:#} {}",
        on_one_line(name),
        on_one_line(&tool_subject(&call.input))
    )?;
    if let Some(duration) = call.duration_ms {
        write!(out, " {DIM}· {}{DIM:#}", units::duration(duration))?;
    }
    let exit_code = call.result.as_ref().and_then(ToolResult::exit_code);
    if let Some(code) = exit_code.filter(|code| *code != 0) {
        write!(out, " {BAD}· exit code {code}{BAD:#}")?;
    }
    if call.state == ToolState::Pending {
        write!(out, " {ODD}· no result{ODD:#}")?;
    }
    if let Some(subagent) = &call.subagent {
        write!(out, " {DIM}· session {}{DIM:#}", on_one_line(subagent))?;
    }
    writeln!(out)?;
    if folding == Folding::Open && !call.input.is_null() {
        write_block(out, &as_text(&call.input), usize::MAX)?;
    }
    match &call.result {
        Some(result) => write_result(out, result, folding),
        None => Ok(()),
    }
}

pub(super) fn write_result(
    out: &mut dyn Write,
    result: &ToolResult,
    folding: Folding,
) -> io::Result<()> {
    let most_lines = match folding {
        Folding::Folded => FOLDED_LINES,
        Folding::Open => usize::MAX,
    };
    if let Some(error) = &result.error {
        writeln!(out, "    {BAD}{}{BAD:#}", on_one_line(error))?;
    }
    if !result.output.is_null() {
        write_block(out, &as_text(&result.output), most_lines)?;
    }
    if result.is_truncated {
        writeln!(out, "    {DIM}(the store kept only a part){DIM:#}")?;
    }
    Ok(())
}

fn write_block(out: &mut dyn Write, text: &str, most_lines: usize) -> io::Result<()> {
    let text = on_lines(text.trim_matches('\n'));
    let n_lines = text.lines().count();
    // Do not spend a line on "1 more line".
    let shown = if n_lines <= most_lines.saturating_add(1) { n_lines } else { most_lines };
    for line in text.lines().take(shown) {
        writeln!(out, "    {DIM}│ {line}{DIM:#}")?;
    }
    if shown < n_lines {
        writeln!(
            out,
            "    {DIM}│ … {} more lines{DIM:#}",
            units::grouped((n_lines - shown) as u64)
        )?;
    }
    Ok(())
}

/// The text of a result, without the store's wrapper.
fn as_text(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Object(fields) => {
            let said: Vec<&str> = ["stdout", "stderr", "output", "content", "contents", "text"]
                .iter()
                .filter_map(|name| fields.get(*name)?.as_str())
                .filter(|text| !text.is_empty())
                .collect();
            if said.is_empty() { pretty(value) } else { said.join("\n") }
        }
        Json::Array(parts) => {
            let texts: Option<Vec<&str>> =
                parts.iter().map(|part| part.get("text")?.as_str()).collect();
            texts.map_or_else(|| pretty(value), |texts| texts.join("\n"))
        }
        value => value.to_string(),
    }
}

fn pretty(value: &Json) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
