//! One message, tool call or result, from the JSON of the prompt or from a step of a turn.

pub(crate) mod json_binary;
pub(crate) mod json_message;
pub(crate) mod pending;
pub(crate) mod tool_result;
pub(crate) mod tool_step;

pub(crate) use json_binary::without_bytes;
pub(crate) use json_message::JsonMessage;
pub(crate) use pending::{PendingMessages, parse_pending};
pub(crate) use tool_result::CallResult;
