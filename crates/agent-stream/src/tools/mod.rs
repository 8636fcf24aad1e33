//! Tool calls and the agent's questions.

pub(crate) mod interaction;
pub(crate) mod open_calls;
pub(crate) mod tool_call;
pub(crate) mod tool_details;
pub(crate) mod tool_subject;
