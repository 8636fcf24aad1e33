//! The agent's lines of a journal as the readers of a stream take them: with numbers, and with what earlier lines said.

use agent_stream::{EventKind, LineParser, OpenCall, OpenCalls, StreamLine, ToolCall};
use run_journal::AgentLine;

use crate::event_schema::as_raw_line;

/// Reads lines in order.
#[derive(Debug, Default)]
pub(crate) struct AgentLines {
    parser: LineParser,
    calls: OpenCalls,
    n_lines: u64,
}

impl AgentLines {
    pub(crate) fn read<T>(
        &mut self,
        line: &AgentLine<'_>,
        on_line: impl FnOnce(StreamLine<'_>) -> T,
    ) -> T {
        self.n_lines += 1;
        let raw = as_raw_line(line);
        let mut event = self.parser.parse(raw);
        let started = started_by(&mut self.calls, &event.kind, event.timestamp_ms);
        if let (EventKind::ToolCompleted(call), Some(started)) = (&mut event.kind, &started) {
            complete_from(call, started);
        }
        on_line(StreamLine { number: self.n_lines, raw, event, started: started.as_ref() })
    }

    /// The calls that are under way.
    pub(crate) fn open_calls(&self) -> &OpenCalls {
        &self.calls
    }
}

/// Notes which calls are under way, and gives the start of the one that this event completes.
fn started_by(
    calls: &mut OpenCalls,
    event: &EventKind<'_>,
    timestamp_ms: Option<u64>,
) -> Option<OpenCall> {
    match event {
        EventKind::ToolStarted(call) => {
            calls.started(call, timestamp_ms);
            None
        }
        EventKind::ToolCompleted(call) => calls.completed(call.call_id.as_deref()),
        EventKind::Oversized(line) if line.subtype.as_deref() == Some("completed") => {
            calls.completed(line.call_id.as_deref())
        }
        _ => None,
    }
}

/// A rejected call completes without saying what it was.
fn complete_from<'a>(call: &mut ToolCall<'a>, started: &'a OpenCall) {
    call.args = call.args.or(started.args.as_deref());
    if call.name.is_none() {
        call.name = Some(started.name.as_str().into());
    }
    if call.description.is_none() {
        call.description = started.description.as_deref().map(Into::into);
    }
}
