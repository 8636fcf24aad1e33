//! Chunks of bytes in, numbered lines with their events out.

use crate::event::AgentEvent;
use crate::line_parser::LineParser;
use crate::line_splitter::{LineSplitter, RawLine};

/// One line of the stream and what it says.
#[derive(Debug)]
pub struct StreamLine<'a> {
    /// Counted from one, as editors do.
    pub number: u64,
    pub raw: RawLine<'a>,
    pub event: AgentEvent<'a>,
}

/// The whole way from bytes to events.
#[derive(Debug, Default)]
pub struct AgentStream {
    splitter: LineSplitter,
    parser: LineParser,
    lines: u64,
}

impl AgentStream {
    /// A stream that keeps lines of up to `ceiling` bytes whole.
    pub fn with_line_ceiling(ceiling: usize) -> Self {
        Self { splitter: LineSplitter::with_ceiling(ceiling), ..Self::default() }
    }

    /// Takes the next chunk and hands on every line that ends in it.
    pub fn feed(&mut self, chunk: &[u8], mut on_line: impl FnMut(StreamLine<'_>)) {
        let Self { splitter, parser, lines } = self;
        splitter.feed(chunk, |raw| on_line(next_line(parser, lines, raw)));
    }

    /// Hands on the last line, if the stream ended without a line feed.
    pub fn finish(&mut self, mut on_line: impl FnMut(StreamLine<'_>)) {
        let Self { splitter, parser, lines } = self;
        splitter.finish(|raw| on_line(next_line(parser, lines, raw)));
    }
}

fn next_line<'a>(parser: &'a mut LineParser, lines: &mut u64, raw: RawLine<'a>) -> StreamLine<'a> {
    *lines += 1;
    StreamLine { number: *lines, raw, event: parser.parse(raw) }
}
