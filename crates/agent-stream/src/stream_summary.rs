//! The summary of a whole stream, in bounded memory.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::agent_stream::StreamLine;
use crate::event::{EventKind, EventName, ResultEvent, Usage};
use crate::lines::line_splitter::RawLine;
use crate::text::text_reducer::{TextMode, TextReducer, TextVerdict};
use crate::tools::open_calls::OpenCalls;
use crate::tools::tool_call::{OutcomeKind, ToolCall};
use crate::tools::tool_details::{McpArgs, McpSuccess};

/// One table holds at most this many different names. All further names share one entry, so that a hostile stream
/// cannot grow the table.
const MOST_NAMES: usize = 200;
const OTHER_NAMES: &str = "(others)";
/// The summary lists at most this many malformed lines, and only counts the others.
const MOST_MALFORMED: usize = 50;
/// The summary keeps this many characters of a name or of a malformed line.
const PREVIEW_CHARS: usize = 120;

/// The summary of a stream, in the shape that `--summary --json` prints.
#[derive(Debug, Default, Serialize)]
pub struct StreamSummary {
    /// The session of the last `init`, or of the first line that names one.
    pub session: Option<String>,
    pub model: Option<String>,
    pub cwd: Option<String>,
    pub lines: u64,
    pub bytes: u64,
    /// The number of lines of each kind.
    pub events: BTreeMap<EventName, u64>,
    /// Tool → outcome → count.
    pub tools: BTreeMap<String, BTreeMap<String, u64>>,
    /// Calls that started and never completed.
    pub open_tools: Vec<String>,
    pub completed_without_started: u64,
    /// Bytes of assembled answer text, over all turns.
    pub text_length: u64,
    pub thinking_length: u64,
    pub results: u64,
    /// The error flag of the last result; `null` without a result.
    pub is_error: Option<bool>,
    pub duration_ms: Option<u64>,
    /// The sum over all results that report tokens; `null` if none does.
    pub usage: Option<Usage>,
    /// True if the assembled text equals `result.result`, for every result; `null` if there was nothing to compare.
    pub text_agrees: Option<bool>,
    /// Results that agree once the repetitions in the assembled text are removed.
    pub repeated_results: u64,
    /// Results whose text could not be compared: the line, or the answer before it, was too long to keep.
    pub uncompared_results: u64,
    /// The first difference, if there is one.
    pub text_difference: Option<TextDifference>,
    /// `type/subtype` → count.
    pub unknown_kinds: BTreeMap<String, u64>,
    pub malformed_count: u64,
    pub malformed_lines: Vec<MalformedLine>,
    pub oversized_lines: u64,
    /// Lines that had to be repaired (invalid UTF-8, half a surrogate pair) before they could be parsed.
    pub repaired_lines: u64,

    #[serde(skip)]
    text: Option<TextReducer>,
}

/// The position where the assembled text and the agent's own text differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TextDifference {
    /// The line of the result.
    pub line: u64,
    pub assembled_length: u64,
    pub result_length: u64,
    /// The number of bytes before the difference.
    pub common_prefix: u64,
}

/// A line that is not JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MalformedLine {
    pub line: u64,
    pub reason: &'static str,
    /// Its beginning.
    pub text: String,
}

impl StreamSummary {
    /// Takes the next line, and emits the text that it adds to the answer.
    pub fn observe(&mut self, line: &StreamLine<'_>, emit: &mut dyn FnMut(&str)) {
        let event = &line.event;
        self.lines += 1;
        self.bytes += match line.raw {
            RawLine::Whole(bytes) => bytes.len() as u64 + 1,
            RawLine::Unterminated(bytes) => bytes.len() as u64,
            RawLine::Oversized { length, .. } => length + 1,
        };
        *self.events.entry(event.kind.name()).or_default() += 1;
        if self.session.is_none() {
            self.session = event.session_id.as_deref().map(str::to_owned);
        }
        self.repaired_lines += u64::from(event.repaired.is_some());

        match &event.kind {
            EventKind::Init { model, cwd, .. } => {
                self.session = event.session_id.as_deref().map(str::to_owned);
                self.model = model.as_deref().map(str::to_owned);
                self.cwd = cwd.as_deref().map(str::to_owned);
            }
            EventKind::ThinkingDelta { text } => self.thinking_length += text.len() as u64,
            EventKind::ToolCompleted(call) => {
                self.completed_without_started += u64::from(line.started.is_none());
                self.count_call(call);
            }
            EventKind::Oversized(oversized) => {
                self.oversized_lines += 1;
                if oversized.kind.as_deref() == Some("result") {
                    self.results += 1;
                    self.uncompared_results += 1;
                }
                if let Some(started) = line.started {
                    self.count_tool(&started.name, "(line too long)");
                }
            }
            EventKind::Result(result) => self.add_result(result),
            EventKind::Unknown { kind, subtype, .. } => {
                let kind = kind.as_deref().unwrap_or("(no type)");
                let name = match subtype {
                    Some(subtype) => format!("{kind}/{subtype}"),
                    None => kind.to_owned(),
                };
                *bounded_entry(&mut self.unknown_kinds, &name) += 1;
            }
            EventKind::Noise { reason, text } => {
                self.malformed_count += 1;
                if self.malformed_lines.len() < MOST_MALFORMED {
                    self.malformed_lines.push(MalformedLine {
                        line: line.number,
                        reason: reason.name(),
                        text: text.chars().take(PREVIEW_CHARS).collect(),
                    });
                }
            }
            _ => {}
        }

        let text_length = &mut self.text_length;
        let reducer = self.text.get_or_insert_with(|| TextReducer::new(TextMode::MayRepeat));
        let verdict = reducer.observe(event, &mut |piece| {
            *text_length += piece.len() as u64;
            emit(piece);
        });
        if let (Some(verdict), EventKind::Result(result)) = (verdict, &event.kind) {
            self.add_verdict(line.number, verdict, result.text.as_deref().unwrap_or_default());
        }
    }

    /// Ends the summary: call this once, after the last line, with the calls that are still open. Emits the text that
    /// it held back for a result that did not come.
    pub fn finish(&mut self, open_calls: &OpenCalls, emit: &mut dyn FnMut(&str)) {
        let text_length = &mut self.text_length;
        if let Some(reducer) = &mut self.text {
            reducer.end(&mut |piece| {
                *text_length += piece.len() as u64;
                emit(piece);
            });
        }
        self.open_tools = open_calls.iter().map(|call| call.name.clone()).collect();
    }

    /// Names each MCP tool separately. A call whose server reports an error does not count as a plain success.
    fn count_call(&mut self, call: &ToolCall<'_>) {
        let outcome = match &call.outcome {
            None => "(no result)",
            Some(outcome) => outcome.kind.name(),
        };
        if call.name.as_deref() != Some("mcp") {
            return self.count_tool(call.name_or_unnamed(), outcome);
        }
        let mcp = call.args.map(McpArgs::read).unwrap_or_default();
        let server = mcp.provider_identifier.as_deref().unwrap_or("(unnamed)");
        let tool = mcp.tool_name.or(mcp.name).unwrap_or("(unnamed)".into());
        let is_server_error = call.outcome.as_ref().is_some_and(|outcome| {
            outcome.kind == OutcomeKind::Success
                && McpSuccess::read(outcome.detail).is_error == Some(true)
        });
        let outcome =
            if is_server_error { "success, with an error from the server" } else { outcome };
        self.count_tool(&format!("mcp {server}: {tool}"), outcome);
    }

    fn count_tool(&mut self, name: &str, outcome: &str) {
        *bounded_entry(bounded_entry(&mut self.tools, name), outcome) += 1;
    }

    fn add_result(&mut self, result: &ResultEvent<'_>) {
        self.results += 1;
        self.is_error = result.is_error;
        if let Some(duration_ms) = result.duration_ms {
            let total = self.duration_ms.get_or_insert(0);
            *total = total.saturating_add(duration_ms);
        }
        if let Some(usage) = &result.usage {
            let sum = self.usage.get_or_insert_default();
            for (total, more) in [
                (&mut sum.input_tokens, usage.input_tokens),
                (&mut sum.output_tokens, usage.output_tokens),
                (&mut sum.cache_read_tokens, usage.cache_read_tokens),
                (&mut sum.cache_write_tokens, usage.cache_write_tokens),
            ] {
                if let Some(more) = more {
                    *total = Some(total.unwrap_or(0).saturating_add(more));
                }
            }
        }
    }

    fn add_verdict(&mut self, line: u64, verdict: TextVerdict, result: &str) {
        match verdict {
            TextVerdict::Agrees => {
                self.text_agrees.get_or_insert(true);
            }
            TextVerdict::AgreesButRepeats => {
                self.text_agrees.get_or_insert(true);
                self.repeated_results += 1;
            }
            TextVerdict::Differs { assembled } => {
                self.text_agrees = Some(false);
                self.text_difference.get_or_insert_with(|| TextDifference {
                    line,
                    assembled_length: assembled.len() as u64,
                    result_length: result.len() as u64,
                    common_prefix: common_prefix(&assembled, result),
                });
            }
            TextVerdict::TooLong => self.uncompared_results += 1,
            TextVerdict::NoResultText => {}
        }
    }
}

fn common_prefix(one: &str, other: &str) -> u64 {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count() as u64
}

fn bounded_entry<'m, V: Default>(table: &'m mut BTreeMap<String, V>, name: &str) -> &'m mut V {
    let name = match name.char_indices().nth(PREVIEW_CHARS) {
        Some((end, _)) => &name[..end],
        None => name,
    };
    let has_room = table.len() < MOST_NAMES || table.contains_key(name);
    table.entry(if has_room { name } else { OTHER_NAMES }.to_owned()).or_default()
}

#[cfg(test)]
#[path = "stream_summary_tests.rs"]
mod tests;
