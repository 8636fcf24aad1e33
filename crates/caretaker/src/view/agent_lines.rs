//! The agent's lines of a journal as the readers of a stream take them: with numbers, and with what earlier lines said.

use agent_stream::{AgentStream, OpenCalls, StreamLine};
use public_events::as_raw_line;
use run_journal::{AgentLine, LineEnding};

/// Reads lines in order.
#[derive(Debug, Default)]
pub(crate) struct AgentLines {
    stream: AgentStream,
}

impl AgentLines {
    pub(crate) fn read<'a>(
        &'a mut self,
        line: &AgentLine<'a>,
        ending: LineEnding,
    ) -> StreamLine<'a> {
        self.stream.read_line(as_raw_line(line, ending))
    }

    /// The calls that are under way.
    pub(crate) fn open_calls(&self) -> &OpenCalls {
        self.stream.open_calls()
    }
}
