//! What cursor-agent prints in `stream-json` mode: bytes → lines → events.
//!
//! ```text
//!   pipe ──► LineSplitter ──► LineParser ──► AgentEvent ──┬─► TextReducer    the answer, each piece once
//!           cuts at '\n',     borrows from                ├─► OpenCalls      tool calls under way, their arguments
//!           bounded           the line                    └─► StreamSummary  what a whole stream amounted to
//! ```
//!
//! [`AgentStream`] ties the first three together for callers that have chunks of bytes and want events.
//!
//! **Invariant:** parsing never fails. A line we cannot read is an event too, and reading goes on.
//!
//! **Invariant:** no line is lost, and where the pipe cuts does not matter.
//!
//! **Invariant:** memory is bounded by the line ceiling, whatever arrives and for however long.
//!
//! **Invariant:** nothing here does I/O, reads the environment, or knows what a run is.

mod agent_stream;
mod event;
mod hindsight;
mod interaction;
mod lenient;
mod line_parser;
mod line_splitter;
mod open_calls;
mod oversized;
mod stream_summary;
mod text_reducer;
mod token_line;
mod tool_call;
mod tool_details;

pub use agent_stream::{AgentStream, StreamLine};
pub use event::{
    AgentEvent, AssistantForm, EventKind, EventName, NoiseReason, Repair, ResultEvent, RetryPhase,
    Usage,
};
pub use interaction::{Interaction, QueryAnswer};
pub use line_parser::LineParser;
pub use line_splitter::{DEFAULT_LINE_CEILING, LineSplitter, RawLine};
pub use open_calls::{OpenCall, OpenCalls};
pub use oversized::OversizedLine;
pub use stream_summary::{MalformedLine, StreamSummary, TextDifference};
pub use text_reducer::{TextMode, TextReducer, TextVerdict};
pub use tool_call::{Outcome, OutcomeClass, OutcomeKind, ToolCall, is_known_tool};
pub use tool_details::{
    EditSuccess, FileArgs, McpArgs, McpSuccess, ReadSuccess, RejectedCall, ShellArgs, ShellOutput,
    TaskArgs,
};
