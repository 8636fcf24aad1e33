//! Turns chunks of bytes into numbered lines with their events.

use crate::event::{AgentEvent, EventKind};
use crate::lines::line_parser::LineParser;
use crate::lines::line_splitter::{LineSplitter, RawLine};
use crate::tools::open_calls::{OpenCall, OpenCalls};
use crate::tools::tool_call::ToolCall;

/// One line of the stream, and its event.
#[derive(Debug)]
pub struct StreamLine<'a> {
    /// Counted from one, as in editors.
    pub number: u64,
    pub raw: RawLine<'a>,
    /// For a completed tool call, it has the arguments even if the line itself lacks them.
    pub event: AgentEvent<'a>,
    /// The start of a completed tool call, if there was one.
    pub started: Option<&'a OpenCall>,
}

/// All steps from bytes to events.
#[derive(Debug, Default)]
pub struct AgentStream {
    splitter: LineSplitter,
    reader: LineReader,
}

impl AgentStream {
    /// A stream that cuts off only lines longer than `ceiling` bytes.
    pub fn with_line_ceiling(ceiling: usize) -> Self {
        Self { splitter: LineSplitter::with_ceiling(ceiling), ..Self::default() }
    }

    /// Takes the next chunk, and passes on every line that ends in it.
    pub fn feed(&mut self, chunk: &[u8], mut on_line: impl FnMut(StreamLine<'_>)) {
        let Self { splitter, reader } = self;
        splitter.feed(chunk, |raw| on_line(reader.read(raw)));
    }

    /// Passes on the last line, if the stream ended without a line feed.
    pub fn finish(&mut self, mut on_line: impl FnMut(StreamLine<'_>)) {
        let Self { splitter, reader } = self;
        splitter.finish(|raw| on_line(reader.read(raw)));
    }

    /// Reads a line that the caller has already split off. Do not mix this with [`Self::feed`] within a line.
    pub fn read_line<'a>(&'a mut self, raw: RawLine<'a>) -> StreamLine<'a> {
        self.reader.read(raw)
    }

    /// The tool calls under way.
    pub fn open_calls(&self) -> &OpenCalls {
        &self.reader.calls
    }
}

/// Reads lines in order, and remembers the state that later lines need.
#[derive(Debug, Default)]
struct LineReader {
    parser: LineParser,
    n_lines: u64,
    calls: OpenCalls,
    /// The start of the call that the current line completes.
    started: Option<OpenCall>,
}

impl LineReader {
    fn read<'a>(&'a mut self, raw: RawLine<'a>) -> StreamLine<'a> {
        self.n_lines += 1;
        self.started = None;
        let mut event = self.parser.parse(raw);
        match &event.kind {
            EventKind::ToolStarted(call) => self.calls.started(call, event.timestamp_ms),
            EventKind::ToolCompleted(call) => {
                self.started = self.calls.completed(call.call_id.as_deref());
            }
            EventKind::Oversized(line) if line.subtype.as_deref() == Some("completed") => {
                self.started = self.calls.completed(line.call_id.as_deref());
            }
            _ => {}
        }
        let started = self.started.as_ref();
        if let (EventKind::ToolCompleted(call), Some(started)) = (&mut event.kind, started) {
            complete_from(call, started);
        }
        StreamLine { number: self.n_lines, raw, event, started }
    }
}

fn complete_from<'a>(call: &mut ToolCall<'a>, started: &'a OpenCall) {
    call.args = call.args.or(started.args.as_deref());
    if call.name.is_none() {
        call.name = Some(started.name.as_str().into());
    }
    if call.description.is_none() {
        call.description = started.description.as_deref().map(Into::into);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejected_call_gets_its_arguments_from_its_start() {
        let mut stream = AgentStream::default();
        let lines = concat!(
            r#"{"type":"tool_call","subtype":"started","call_id":"a","tool_call":{"webFetchToolCall":{"args":{"url":"u"}}},"timestamp_ms":5}"#,
            "\n",
            r#"{"type":"tool_call","subtype":"completed","call_id":"a","tool_call":{"webFetchToolCall":{"result":{"rejected":{}}}}}"#,
            "\n",
            r#"{"type":"tool_call","subtype":"completed","call_id":"a","tool_call":{"webFetchToolCall":{"result":{"rejected":{}}}}}"#,
            "\n",
        );
        let mut seen = Vec::new();
        stream.feed(lines.as_bytes(), |line| {
            if let EventKind::ToolCompleted(call) = &line.event.kind {
                let started_ms = line.started.map(|started| started.started_ms);
                seen.push((call.args.map(|args| args.get().to_owned()), started_ms));
            }
        });
        assert_eq!(seen, [(Some(r#"{"url":"u"}"#.to_owned()), Some(Some(5))), (None, None)]);
        assert!(stream.open_calls().is_empty());
    }
}
