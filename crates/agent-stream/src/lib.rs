//! Turns cursor-agent's output in `stream-json` mode into events: bytes → lines → events.
//!
//! ```text
//!   pipe ──► LineSplitter ──► LineParser ──► AgentEvent ──┬─► TextReducer    the answer, each piece once
//!           cuts at '\n',     borrows from                ├─► OpenCalls      tool calls under way, their arguments
//!           bounded           the line                    └─► StreamSummary  the totals of a whole stream
//! ```
//!
//! [`AgentStream`] joins the first three, for callers that have chunks of bytes and want events.
//!
//! **Invariant:** parsing never fails. An unreadable line is an event too, and reading continues.
//!
//! **Invariant:** no line is lost, wherever the pipe cuts the stream.
//!
//! **Invariant:** memory stays below a bound set by the line ceiling, for any input of any length.
//!
//! **Invariant:** nothing here does I/O, reads the environment, or knows what a run is.

mod agent_stream;
mod event;
mod lines;
mod stream_summary;
mod text;
mod tools;

pub use agent_stream::{AgentStream, StreamLine};
pub use event::{
    AgentEvent, AssistantForm, EventKind, EventName, NoiseReason, Repair, ResultEvent, RetryPhase,
    Usage,
};
pub use lines::line_parser::LineParser;
pub use lines::line_splitter::{DEFAULT_LINE_CEILING, LineSplitter, RawLine};
pub use lines::oversized::OversizedLine;
pub use stream_summary::{MalformedLine, StreamSummary, TextDifference};
pub use text::text_reducer::{TextMode, TextReducer, TextVerdict};
pub use tools::interaction::{Interaction, QueryAnswer};
pub use tools::open_calls::{OpenCall, OpenCalls};
pub use tools::tool_call::{Outcome, OutcomeClass, OutcomeKind, ToolCall};
pub use tools::tool_details::{
    EditSuccess, FileArgs, McpArgs, McpSuccess, ReadSuccess, RejectedCall, ShellArgs, ShellOutput,
    TaskArgs,
};
pub use tools::tool_subject::{few_words, tool_subject};
